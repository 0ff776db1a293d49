package harness.storm.cluster;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.ConnectException;
import java.net.InetAddress;
import java.net.Socket;
import java.util.HashMap;
import java.util.Map;
import org.apache.storm.Config;
import org.apache.storm.security.auth.ThriftConnectionType;
import org.apache.storm.thrift.server.TServer;
import org.apache.storm.utils.Utils;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class LoopbackTransportTest {
    @Test
    void itIsReachedAtItsOwnLoopbackAddressOnly() throws Exception {
        LoopbackTransport transport = transport("127.0.0.7");
        TServer server = transport.getServer((in, out) -> { });
        try {
            try (Socket socket = new Socket(InetAddress.getByName("127.0.0.7"), transport.getPort())) {
                assertTrue(socket.isConnected());
            }
            // a socket that listens on every address would answer here too
            assertThrows(ConnectException.class,
                () -> new Socket(InetAddress.getByName("127.0.0.8"), transport.getPort()).close());
        } finally {
            server.stop();
        }
    }

    @Test
    void anAddressThatOthersCanReachIsRefused() {
        IOException e = assertThrows(IOException.class, () -> transport("192.0.2.1").getServer((in, out) -> { }));
        assertEquals("storm.local.hostname 192.0.2.1 is not a loopback address", e.getMessage());
    }

    @ParameterizedTest
    @ValueSource(strings = {"nimbus.thrift.transport", "supervisor.thrift.transport"})
    void stormTakesItFromTheSetting(String key) {
        Map<String, Object> conf = Utils.readDefaultConfig();
        conf.put(key, LoopbackTransport.class.getName());
        ThriftConnectionType type = key.startsWith("nimbus") ? ThriftConnectionType.NIMBUS : ThriftConnectionType.SUPERVISOR;
        assertEquals(LoopbackTransport.class.getName(), type.getTransportPlugin(conf));
    }

    private static LoopbackTransport transport(String address) {
        Map<String, Object> conf = new HashMap<>(Utils.readDefaultConfig());
        conf.put(Config.STORM_LOCAL_HOSTNAME, address);
        conf.put(Config.NIMBUS_THRIFT_PORT, 0);
        LoopbackTransport transport = new LoopbackTransport();
        transport.prepare(ThriftConnectionType.NIMBUS, conf);
        return transport;
    }
}
