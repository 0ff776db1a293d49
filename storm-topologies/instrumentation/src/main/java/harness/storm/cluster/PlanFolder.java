package harness.storm.cluster;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;

/** The folder of plan files, one a topology, named after it. A file is read at every pass, and parsed when it changes. */
final class PlanFolder {
    private final Path folder;
    private final Map<String, Parsed> parsed = new HashMap<>();

    /** The text of a file, and the plan or what is wrong with it. */
    private record Parsed(String text, PinnedPlan plan, String wrong) {
    }

    PlanFolder(Path folder) {
        this.folder = folder;
    }

    /**
     * Reads a topology's plan.
     *
     * @return nothing where there is no file
     * @throws PlanException when the file cannot be read, or is no plan; names the file
     */
    Optional<PinnedPlan> plan(String topology) throws PlanException {
        String name = topology + ".json";
        String text;
        try {
            text = Files.readString(folder.resolve(name));
        } catch (NoSuchFileException e) {
            parsed.remove(topology);
            return Optional.empty();
        } catch (IOException e) {
            throw new PlanException("plan file " + name + " waits: it cannot be read: " + e);
        }
        Parsed known = parsed.get(topology);
        if (known == null || !known.text.equals(text)) {
            known = parse(text);
            parsed.put(topology, known);
        }
        if (known.plan == null) {
            throw new PlanException("plan file " + name + " waits: " + known.wrong);
        }
        return Optional.of(known.plan);
    }

    /** Forgets topologies that are gone. */
    void keepOnly(Collection<String> topologies) {
        parsed.keySet().retainAll(topologies);
    }

    private static Parsed parse(String text) {
        try {
            return new Parsed(text, PinnedPlan.parse(text), null);
        } catch (PlanException e) {
            return new Parsed(text, null, e.getMessage());
        }
    }
}
