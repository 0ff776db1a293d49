package harness.storm.instrument;

import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.List;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Batches of lines in a folder, one file each, oldest first.
 *
 * <p>A file is there whole or not at all, and is removed when its lines were delivered. What another process left is found
 * when the spool is opened. Two processes may post the same file then; points are told apart by series and time, so the
 * database has them once.
 *
 * <p>Used by one thread.
 */
final class Spool {
    static final long MOST_BYTES = 256L << 20;

    private static final Logger LOG = LoggerFactory.getLogger(Spool.class);
    private static final String SUFFIX = ".lines";

    private final Path folder;
    private final String owner;
    private final long mostBytes;
    private final TreeMap<String, Long> bytes = new TreeMap<>();
    private long allBytes;
    private long number;

    /**
     * Opens the folder, which is made when it is not there.
     *
     * @param owner in the names of the files made here; no two processes at work share it
     */
    Spool(Path folder, String owner, long mostBytes) throws IOException {
        this.folder = Files.createDirectories(folder);
        this.owner = owner;
        this.mostBytes = mostBytes;
        try (Stream<Path> found = Files.list(folder)) {
            for (Path file : found.filter(f -> f.toString().endsWith(SUFFIX)).toList()) {
                enter(file.getFileName().toString(), size(file));
            }
        }
        if (!bytes.isEmpty()) {
            LOG.info("{} batches of metrics were left in {}", bytes.size(), folder);
        }
    }

    boolean isEmpty() {
        return bytes.isEmpty();
    }

    /** Puts a batch at the end; false when there is no room for it. */
    boolean add(List<String> lines) {
        byte[] text = (String.join("\n", lines) + "\n").getBytes(StandardCharsets.UTF_8);
        if (allBytes + text.length > mostBytes) {
            return false;
        }
        // by name is by time, and within a process by number
        String name = String.format("%013d-%s-%08d%s", System.currentTimeMillis(), owner, number++, SUFFIX);
        Path partial = folder.resolve(name + ".partial");
        try {
            try (OutputStream out = new FileOutputStream(partial.toFile())) { // no channel: they close on interrupts
                out.write(text);
            }
            Files.move(partial, folder.resolve(name), StandardCopyOption.ATOMIC_MOVE);
        } catch (IOException e) {
            LOG.warn("metrics cannot be put into {} ({})", folder, e.toString());
            remove(partial);
            return false;
        }
        enter(name, text.length);
        return true;
    }

    /** The name of the oldest batch. */
    String oldest() {
        return bytes.firstKey();
    }

    /** A batch's lines; empty when another process has delivered it. */
    String read(String name) throws IOException {
        try {
            return Files.readString(folder.resolve(name));
        } catch (NoSuchFileException e) {
            return "";
        }
    }

    /** Removes a batch. */
    void remove(String name) {
        allBytes -= bytes.remove(name);
        remove(folder.resolve(name));
    }

    private void enter(String name, long length) {
        bytes.put(name, length);
        allBytes += length;
    }

    private static void remove(Path file) {
        try {
            Files.deleteIfExists(file);
        } catch (IOException e) {
            LOG.warn("{} cannot be removed ({})", file, e.toString());
        }
    }

    private static long size(Path file) throws IOException {
        try {
            return Files.size(file);
        } catch (NoSuchFileException e) {
            return 0;
        }
    }
}
