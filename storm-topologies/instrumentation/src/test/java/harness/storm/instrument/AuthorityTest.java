package harness.storm.instrument;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.sun.net.httpserver.HttpsConfigurator;
import com.sun.net.httpserver.HttpsServer;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.util.List;
import java.util.stream.Stream;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLHandshakeException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class AuthorityTest {
    private static final String PASSWORD = "changeit";

    @TempDir
    Path folder;

    @Test
    void aServerIsKnownByTheCertificateOfItsAuthorityAndByNoOther() throws Exception {
        Path own = certificate("own", "ip:127.0.0.1");
        Path other = certificate("other", "ip:127.0.0.1");
        assertEquals(200, ask("own", own));
        assertThrows(SSLHandshakeException.class, () -> ask("own", other));
    }

    @Test
    void aCertificateOfAnotherAddressIsRefused() throws Exception {
        Path own = certificate("elsewhere", "ip:127.0.0.2");
        assertThrows(SSLHandshakeException.class, () -> ask("elsewhere", own));
    }

    /** Asks a real server that has a key, trusting a certificate. */
    private int ask(String key, Path trusted) throws Exception {
        KeyStore store = KeyStore.getInstance("PKCS12");
        try (InputStream file = Files.newInputStream(folder.resolve(key + ".p12"))) {
            store.load(file, PASSWORD.toCharArray());
        }
        KeyManagerFactory keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        keys.init(store, PASSWORD.toCharArray());
        SSLContext tls = SSLContext.getInstance("TLS");
        tls.init(keys.getKeyManagers(), null, null);
        HttpsServer server = HttpsServer.create(new InetSocketAddress(InetAddress.getByName("127.0.0.1"), 0), 0);
        server.setHttpsConfigurator(new HttpsConfigurator(tls));
        server.createContext("/", exchange -> {
            exchange.sendResponseHeaders(200, -1);
            exchange.close();
        });
        server.start();
        try {
            HttpClient client = HttpClient.newBuilder().sslContext(Authority.trusted(trusted)).build();
            URI url = URI.create("https://127.0.0.1:" + server.getAddress().getPort() + "/");
            return client.send(HttpRequest.newBuilder(url).build(), HttpResponse.BodyHandlers.discarding()).statusCode();
        } finally {
            server.stop(0);
        }
    }

    /** Makes a key and a certificate that it signs itself; returns the latter's file. */
    private Path certificate(String name, String address) throws IOException, InterruptedException {
        Path pem = folder.resolve(name + ".pem");
        List<String> store = List.of("-keystore", folder.resolve(name + ".p12").toString(), "-storepass", PASSWORD,
            "-alias", name);
        keytool(Stream.concat(Stream.of("-genkeypair", "-keyalg", "EC", "-dname", "CN=" + name, "-ext", "san=" + address),
            store.stream()));
        keytool(Stream.concat(Stream.of("-exportcert", "-rfc", "-file", pem.toString()), store.stream()));
        return pem;
    }

    private static void keytool(Stream<String> arguments) throws IOException, InterruptedException {
        String program = Path.of(System.getProperty("java.home"), "bin", "keytool").toString();
        Process process = new ProcessBuilder(Stream.concat(Stream.of(program), arguments).toList())
            .redirectErrorStream(true).start();
        String said = new String(process.getInputStream().readAllBytes());
        assertEquals(0, process.waitFor(), said);
    }
}
