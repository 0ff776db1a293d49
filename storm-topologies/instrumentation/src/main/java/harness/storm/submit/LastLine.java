package harness.storm.submit;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.Charset;

/** Passes on what is written to it, and remembers the last line that is not empty. */
final class LastLine extends OutputStream {
    private final OutputStream out;
    private final ByteArrayOutputStream line = new ByteArrayOutputStream();
    private String last = "";

    LastLine(OutputStream out) {
        this.out = out;
    }

    @Override
    public synchronized void write(int b) throws IOException {
        out.write(b);
        if (b == '\n') {
            keep();
        } else {
            line.write(b);
        }
    }

    @Override
    public void flush() throws IOException {
        out.flush();
    }

    /** Without spaces around it; empty if nothing was written. */
    synchronized String text() {
        keep();
        return last;
    }

    private void keep() {
        String text = line.toString(Charset.defaultCharset()).strip();
        if (!text.isEmpty()) {
            last = text;
        }
        line.reset();
    }
}
