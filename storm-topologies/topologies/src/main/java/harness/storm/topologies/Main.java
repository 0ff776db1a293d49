package harness.storm.topologies;

import java.nio.file.Path;
import org.apache.storm.StormSubmitter;
import org.apache.storm.generated.StormTopology;

/**
 * Submits a topology: {@code Main topology.json}.
 *
 * <p>Settings that cannot be used end the program with one line on standard error and status 2, before
 * anything is submitted. What Storm says to the submission is thrown as it is.
 */
public final class Main {
    private static final int BAD_SETTINGS = 2;

    private Main() {}

    /**
     * Reads the settings, builds the topology and submits it.
     *
     * @param args the settings' path, and nothing else
     * @throws Exception from Storm, when the submission is refused or Nimbus cannot be reached
     */
    public static void main(String[] args) throws Exception {
        TopologySettings settings;
        try {
            settings = settings(args);
        } catch (SettingsException e) {
            System.err.println(e.getMessage());
            System.exit(BAD_SETTINGS);
            return;
        }
        StormTopology topology = TopologyFactory.build(settings);
        StormSubmitter.submitTopology(settings.name(), settings.storm(), topology);
    }

    static TopologySettings settings(String[] args) throws SettingsException {
        if (args.length != 1) {
            throw new SettingsException("usage: Main TOPOLOGY.JSON (got " + args.length + " arguments)");
        }
        return SettingsReader.read(Path.of(args[0]));
    }
}
