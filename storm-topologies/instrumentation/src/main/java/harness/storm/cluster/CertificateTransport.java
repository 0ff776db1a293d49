package harness.storm.cluster;

import java.io.IOException;
import java.net.InetAddress;
import java.net.Socket;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.SSLServerSocket;
import org.apache.storm.Config;
import org.apache.storm.security.auth.ReqContext;
import org.apache.storm.security.auth.tls.ReloadableTsslTransportFactory;
import org.apache.storm.security.auth.tls.TlsTransportPlugin;
import org.apache.storm.thrift.TProcessor;
import org.apache.storm.thrift.protocol.TBinaryProtocol;
import org.apache.storm.thrift.server.TServer;
import org.apache.storm.thrift.server.TThreadPoolServer;
import org.apache.storm.thrift.transport.TServerSocket;
import org.apache.storm.thrift.transport.TSocket;
import org.apache.storm.thrift.transport.TTransportException;
import org.apache.storm.utils.ExtendedThreadPoolExecutor;

/**
 * Storm's transport by TLS for Nimbus, on Java 15 and later: that of Storm 2.8.3 ends every request there, as it asks for
 * {@code SSLSession.getPeerCertificateChain}, which throws; and lets in whoever has no certificate.
 *
 * <p>Set as {@code nimbus.thrift.tls.transport} of Nimbus. It listens at {@code storm.local.hostname} only. Whoever has a
 * certificate that the trust store vouches for may do everything, as somebody without a name. Clients are Storm's own.
 */
public class CertificateTransport extends TlsTransportPlugin {
    private static final long IDLE_S = 60;

    private int port;

    @Override
    public TServer getServer(TProcessor processor) throws IOException, TTransportException {
        Object host = conf.get(Config.STORM_LOCAL_HOSTNAME);
        if (host == null) {
            throw new IOException("storm.local.hostname is not set: there is no address to listen on");
        }
        TServerSocket socket = listen(InetAddress.getByName(host.toString()));
        SSLServerSocket listening = (SSLServerSocket) socket.getServerSocket();
        // Storm says that it needs one and then that it wants one, of which the last counts
        listening.setNeedClientAuth(type.isClientAuthRequired(conf));
        port = listening.getLocalPort();
        int threads = type.getNumThreads(conf);
        int waiting = type.getQueueSize(conf);
        return new TThreadPoolServer(new TThreadPoolServer.Args(socket)
            .processor((in, out) -> {
                Socket client = ((TSocket) in.getTransport()).getSocket();
                ReqContext context = ReqContext.context();
                context.setRemoteAddress(client.getInetAddress());
                context.setSubject(null);
                processor.process(in, out);
            })
            .minWorkerThreads(threads)
            .maxWorkerThreads(threads)
            .protocolFactory(new TBinaryProtocol.Factory(false, true))
            .executorService(new ExtendedThreadPoolExecutor(threads, threads, IDLE_S, TimeUnit.SECONDS,
                new ArrayBlockingQueue<>(waiting))));
    }

    private TServerSocket listen(InetAddress address) throws IOException {
        Integer timeoutMs = type.getSocketTimeOut(conf);
        try {
            return ReloadableTsslTransportFactory.getServerSocket(
                type.getPort(conf), timeoutMs == null ? 0 : timeoutMs, address, type, conf);
        } catch (Exception e) { // all that its signature says
            throw new IOException(e);
        }
    }

    @Override
    public int getPort() {
        return port;
    }
}
