package harness.storm.topologies;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.io.Serializable;
import java.util.concurrent.TimeUnit;
import org.apache.storm.topology.base.BaseWindowedBolt;

/**
 * A window of Storm's windowing API, over processing time.
 *
 * @param kind what length and slide count
 * @param length tuples, or milliseconds
 * @param slide the same; equal to length, the window tumbles
 */
record Window(Kind kind, int length, int slide) implements Serializable {

    /** What a window's length and slide count. */
    enum Kind {
        /** Tuples that this task received. */
        @JsonProperty("count")
        COUNT,
        /** Milliseconds; the window fires in a thread of its own. */
        @JsonProperty("time")
        TIME
    }

    Window {
        Checks.present("kind", kind);
        Checks.that(length >= 1, "length has to be at least 1, not " + length);
        // A longer slide would drop the tuples between two windows.
        Checks.that(slide >= 1 && slide <= length, "slide has to be from 1 to length, not " + slide);
    }

    void applyTo(BaseWindowedBolt bolt) {
        switch (kind) {
            case COUNT -> bolt.withWindow(BaseWindowedBolt.Count.of(length), BaseWindowedBolt.Count.of(slide));
            case TIME -> bolt.withWindow(
                    new BaseWindowedBolt.Duration(length, TimeUnit.MILLISECONDS),
                    new BaseWindowedBolt.Duration(slide, TimeUnit.MILLISECONDS));
        }
    }
}
