package harness.storm.submit;

import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.regex.Pattern;

/** The last lines that were written to some streams, which get them all the same; bytes that are no text are replaced. */
final class Said {
    private static final int LINES = 3;
    private static final int MOST_BYTES = 300;
    /** A line of a stack trace, which says less than the one above it. */
    private static final Pattern FRAME = Pattern.compile("\\s+(at |\\.\\.\\. \\d+ more)");

    private final Deque<String> last = new ArrayDeque<>();

    /** A stream that remembers what is written to it. */
    PrintStream over(PrintStream out) {
        return new PrintStream(new Remembered(out), true);
    }

    /** On one line, oldest first; empty where nothing was written. */
    synchronized String text() {
        return String.join(" / ", last);
    }

    private synchronized void keep(String line) {
        if (FRAME.matcher(line).lookingAt()) {
            return;
        }
        String text = line.replaceAll("\\p{Cntrl}", " ").strip();
        if (text.isEmpty()) {
            return;
        }
        last.addLast(text);
        if (last.size() > LINES) {
            last.removeFirst();
        }
    }

    /** Passes on what is written to it. */
    private final class Remembered extends OutputStream {
        private final OutputStream out;
        private final byte[] line = new byte[MOST_BYTES];
        private int length;

        Remembered(OutputStream out) {
            this.out = out;
        }

        @Override
        public synchronized void write(int b) throws IOException {
            out.write(b);
            if (b == '\n') {
                end();
            } else if (length < MOST_BYTES) {
                line[length++] = (byte) b;
            }
        }

        @Override
        public void flush() throws IOException {
            out.flush();
        }

        /** A main that closes its output must not close what failures are told on. */
        @Override
        public synchronized void close() throws IOException {
            end();
            out.flush();
        }

        private void end() {
            keep(new String(line, 0, length, StandardCharsets.UTF_8));
            length = 0;
        }
    }
}
