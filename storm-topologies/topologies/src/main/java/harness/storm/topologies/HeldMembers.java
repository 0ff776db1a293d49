package harness.storm.topologies;

import harness.storm.instrument.Series;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Supplier;
import java.util.stream.Collectors;

/**
 * The members that a windowed task holds, for every second in which nothing arrived there: when the input
 * has stopped, these are the messages that windows have absorbed.
 *
 * <p>Published as the field {@code members} of measurement {@code held}, e.g. {@code "12/0,15/3"},
 * message and child of each member. There is none for a second with arrivals. The campaign waits until
 * every task has spoken, which is why they do so more often than once a bucket, and also of nothing.
 */
final class HeldMembers implements Supplier<Series> {
    /** How often it is asked. */
    static final int PERIOD_S = 1;

    private final Arrivals arrivals;
    private long countBefore;

    HeldMembers(Arrivals arrivals) {
        this.arrivals = arrivals;
    }

    @Override
    public Series get() {
        return members().map(text -> new Series().add("held", Map.of("members", text))).orElse(null);
    }

    /** What is to be said for the period that ends now, if anything. */
    Optional<String> members() {
        long count = arrivals.count();
        if (count != countBefore) {
            countBefore = count;
            return Optional.empty();
        }
        return Optional.of(arrivals.held().stream().map(Member::label).collect(Collectors.joining(",")));
    }
}
