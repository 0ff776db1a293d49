package harness.storm.topologies;

import harness.storm.instrument.Series;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Supplier;
import java.util.stream.Collectors;

/**
 * The members that a windowed task holds, for buckets in which nothing arrived there: when the input
 * has stopped, these are the messages that windows have absorbed.
 *
 * <p>Published as the field {@code members} of measurement {@code held}, e.g. {@code "12/0,15/3"},
 * message and child of each member. There is none for a bucket with arrivals, and none when the task
 * holds nothing and has said so since the last arrival.
 */
final class HeldMembers implements Supplier<Series> {
    private final Arrivals arrivals;
    private long countBefore;
    private boolean emptyKnown;

    HeldMembers(Arrivals arrivals) {
        this.arrivals = arrivals;
    }

    @Override
    public Series get() {
        return members().map(text -> new Series().add("held", Map.of("members", text))).orElse(null);
    }

    /** What is to be said for the bucket that ends now, if anything. */
    Optional<String> members() {
        long count = arrivals.count();
        List<Member> held = arrivals.held();
        if (count != countBefore) {
            countBefore = count;
            emptyKnown = false;
            return Optional.empty();
        }
        if (held.isEmpty() && emptyKnown) {
            return Optional.empty();
        }
        emptyKnown = held.isEmpty();
        return Optional.of(held.stream().map(Member::label).collect(Collectors.joining(",")));
    }
}
