package harness.storm.topologies;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.util.Collection;
import java.util.List;

/** On which of its streams a join emits for a window (thesis appendix E.5). */
enum Routing {
    /** Fish-1: one output on each stream for every window (thesis 5.4.2). */
    @JsonProperty("one-per-window")
    ONE_PER_WINDOW {
        @Override
        List<String> streams(Collection<Long> tuplesByInput, List<String> all) {
            return all;
        }
    },
    /**
     * Fish-2: the first stream when the numbers of tuples from the two inputs are both even or both
     * odd, else the second, which nobody may hear. An input without tuples in the window counts as
     * even.
     */
    @JsonProperty("parity")
    PARITY {
        @Override
        List<String> streams(Collection<Long> tuplesByInput, List<String> all) {
            long odd = tuplesByInput.stream().filter(n -> n % 2 == 1).count();
            int chosen = odd % 2 == 0 ? 0 : 1;
            return chosen < all.size() ? List.of(all.get(chosen)) : List.of();
        }
    };

    /**
     * The streams to emit on.
     *
     * @param tuplesByInput how many of the window's tuples came from each input
     * @param all the join's streams that are heard; one or two for parity
     */
    abstract List<String> streams(Collection<Long> tuplesByInput, List<String> all);
}
