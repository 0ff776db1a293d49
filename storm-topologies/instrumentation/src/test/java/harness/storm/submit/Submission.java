package harness.storm.submit;

import java.io.IOException;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.jar.JarOutputStream;
import java.util.jar.Manifest;
import org.apache.storm.Config;
import org.apache.storm.LocalCluster;
import org.apache.storm.shade.net.minidev.json.JSONValue;

/** A Nimbus to submit to, over Thrift, and the real program, run in a process of its own. */
final class Submission implements AutoCloseable {
    final LocalCluster cluster;
    final int nimbusPort;
    private final Path folder;

    static {
        NoExit.install();
    }

    /** @param supervisors with two worker slots each; workers talk over Netty, so that everything is serialised */
    Submission(int supervisors, Path folder) throws Exception {
        this.folder = folder;
        nimbusPort = freePorts(1 + 2 * supervisors);
        cluster = new LocalCluster.Builder()
            .withSupervisors(supervisors)
            .withPortsPerSupervisor(2)
            .withSupervisorSlotPortMin(nimbusPort + 1)
            .withNimbusDaemon()
            .withDaemonConf(Config.NIMBUS_SEEDS, List.of("127.0.0.1"))
            .withDaemonConf(Config.NIMBUS_THRIFT_PORT, nimbusPort)
            .withDaemonConf(Config.STORM_LOCAL_HOSTNAME, "127.0.0.1")
            .withDaemonConf(Config.STORM_LOCAL_MODE_ZMQ, true)
            .withDaemonConf(Config.TASK_CREDENTIALS_POLL_SECS, 1)
            .withDaemonConf(Config.TOPOLOGY_SKIP_MISSING_KRYO_REGISTRATIONS, false)
            .withDaemonConf(Config.TOPOLOGY_ENABLE_MESSAGE_TIMEOUTS, true)
            .build();
    }

    /** Valid settings: the sample's main is in the class path, the jar to upload has nothing in it. */
    Map<String, Object> settings(String name, String url) throws IOException {
        Path jar = folder.resolve(name + ".jar");
        new JarOutputStream(Files.newOutputStream(jar), new Manifest()).close();
        Map<String, Object> settings = new LinkedHashMap<>();
        settings.put("answer", folder.resolve(name + "-answer.json").toString());
        settings.put("nimbus", Map.of("host", "127.0.0.1", "port", nimbusPort));
        settings.put("jar", jar.toString());
        settings.put("main", SampleTopology.class.getName());
        settings.put("args", List.of(name));
        settings.put("patience_s", 60);
        settings.put("instrument", true);
        Path token = Files.writeString(folder.resolve("token"), "s3cret\n");
        settings.put("metrics", Map.of("url", url, "token_file", token.toString(), "ca_file", "", "spool", "", "topology", name,
            "bucket_s", 1, "consumers", 1));
        settings.put("components", Map.of());
        settings.put("batching", Map.of());
        settings.put("helping", Map.of());
        settings.put("backpressure", null);
        settings.put("storm", Map.of());
        return settings;
    }

    /** What became of it, and the file with the answer. */
    record Exit(int status, String out, String err, String answer) {
    }

    Exit submit(Map<String, Object> settings) throws IOException, InterruptedException {
        Path file = Files.createTempFile(folder, "submit", ".json");
        Files.writeString(file, JSONValue.toJSONString(settings));
        Path out = Files.createTempFile(folder, "out", ".txt");
        Path err = Files.createTempFile(folder, "err", ".txt");
        Process process = new ProcessBuilder(
            Path.of(System.getProperty("java.home"), "bin", "java").toString(), "-Xmx256m", "-XX:TieredStopAtLevel=1",
            "-cp", System.getProperty("java.class.path"), Submit.class.getName(), file.toString())
            .redirectOutput(out.toFile()).redirectError(err.toFile()).start();
        int status = process.waitFor();
        Path answer = Path.of((String) settings.get("answer"));
        return new Exit(status, Files.readString(out), Files.readString(err).strip(),
            Files.exists(answer) ? Files.readString(answer) : "");
    }

    /** The id of the topology of that name; null when there is none. */
    String id(String name) throws Exception {
        return cluster.getClusterInfo().get_topologies().stream()
            .filter(topology -> topology.get_name().equals(name) && !topology.get_status().equals("KILLED"))
            .map(topology -> topology.get_id())
            .findFirst().orElse(null);
    }

    /** The first of a row of ports that nobody listens on. */
    static int freePorts(int count) throws IOException {
        for (int first = 20_000 + (int) (ProcessHandle.current().pid() % 10_000); ; first += count) {
            List<ServerSocket> sockets = new ArrayList<>();
            try {
                for (int i = 0; i < count; i++) {
                    sockets.add(new ServerSocket(first + i));
                }
                return first;
            } catch (java.net.BindException e) {
                continue;
            } finally {
                for (ServerSocket socket : sockets) {
                    socket.close();
                }
            }
        }
    }

    @Override
    public void close() {
        try {
            cluster.close();
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }
}
