package harness.storm.topologies;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.util.Collection;
import java.util.List;

/** On which of its two streams a join emits for a window (thesis appendix E.5). */
enum Routing {
    /** Fish-1: one output on each stream for every window (thesis 5.4.2). */
    @JsonProperty("one-per-window")
    ONE_PER_WINDOW {
        @Override
        List<String> streams(Collection<Long> tuplesByInput) {
            return STREAMS;
        }
    },
    /**
     * Fish-2: the first stream when the numbers of tuples from the two inputs are both even or both
     * odd, else the second. An input without tuples in the window counts as even.
     */
    @JsonProperty("parity")
    PARITY {
        @Override
        List<String> streams(Collection<Long> tuplesByInput) {
            long odd = tuplesByInput.stream().filter(n -> n % 2 == 1).count();
            return List.of(odd % 2 == 0 ? STREAMS.get(0) : STREAMS.get(1));
        }
    };

    /** The join's output streams, numbered as in thesis 5.4.2. */
    static final List<String> STREAMS = List.of("stream-5", "stream-6");

    /**
     * The streams to emit on.
     *
     * @param tuplesByInput how many of the window's tuples came from each of the two inputs
     */
    abstract List<String> streams(Collection<Long> tuplesByInput);
}
