package harness.storm.cluster;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.Map;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.apache.storm.Config;
import org.apache.storm.security.auth.ReqContext;
import org.apache.storm.security.auth.SimpleTransportPlugin;
import org.apache.storm.security.auth.ThriftConnectionType;
import org.apache.storm.thrift.TProcessor;
import org.apache.storm.thrift.protocol.TBinaryProtocol;
import org.apache.storm.thrift.server.THsHaServer;
import org.apache.storm.thrift.server.TServer;
import org.apache.storm.thrift.transport.TNonblockingServerSocket;
import org.apache.storm.thrift.transport.TTransportException;

/**
 * Storm's simple transport, listening on the daemon's own loopback address instead of every address of the machine.
 *
 * <p>For a local cluster where the system allows no private network: Nimbus runs what it is sent, and Storm has no
 * setting for the address it listens on. Set as {@code nimbus.thrift.transport} and {@code supervisor.thrift.transport}.
 * The address is {@code storm.local.hostname}. Clients are Storm's own.
 */
public class LoopbackTransport extends SimpleTransportPlugin {
    private static final long IDLE_S = 60;

    private ThriftConnectionType type;
    private Map<String, Object> conf;
    private int port;

    @Override
    public void prepare(ThriftConnectionType type, Map<String, Object> conf) {
        super.prepare(type, conf);
        this.type = type;
        this.conf = conf;
    }

    @Override
    public TServer getServer(TProcessor processor) throws IOException, TTransportException {
        Object host = conf.get(Config.STORM_LOCAL_HOSTNAME);
        if (host == null) {
            throw new IOException("storm.local.hostname is not set: there is no address to listen on");
        }
        InetAddress address = InetAddress.getByName(host.toString());
        if (!address.isLoopbackAddress()) {
            throw new IOException("storm.local.hostname " + host + " is not a loopback address");
        }
        TNonblockingServerSocket socket =
            new TNonblockingServerSocket(new InetSocketAddress(address, type.getPort(conf)));
        port = socket.getPort();
        int threads = type.getNumThreads(conf);
        int bufferBytes = type.getMaxBufferSize(conf);
        THsHaServer.Args args = new THsHaServer.Args(socket)
            .processor((in, out) -> {
                ReqContext context = ReqContext.context();
                context.setRemoteAddress(address); // only this host can reach it
                context.setSubject(null);          // nobody in particular, as without this class
                processor.process(in, out);
            })
            .maxWorkerThreads(threads)
            .protocolFactory(new TBinaryProtocol.Factory(false, true, bufferBytes, -1));
        args.maxReadBufferBytes = bufferBytes;
        Integer waiting = type.getQueueSize(conf);
        if (waiting != null) {
            args.executorService(new ThreadPoolExecutor(threads, threads, IDLE_S, TimeUnit.SECONDS,
                new ArrayBlockingQueue<>(waiting)));
        }
        return new THsHaServer(args);
    }

    @Override
    public int getPort() {
        return port;
    }
}
