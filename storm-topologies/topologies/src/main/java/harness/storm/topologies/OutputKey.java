package harness.storm.topologies;

import java.io.Serializable;
import java.util.List;
import org.apache.storm.tuple.Tuple;

/**
 * How a json or keyed component's outputs get their key.
 *
 * <p>Drawn anew by default. Or, with a share of forwarded tuples, the received one for those whose {@code uniform(0)} of the
 * tuple's {@link Draw} for {@code FORWARDED} is below the share, and the first of all keys for the others, as in the reference
 * topology of Aniello et al. (DEBS 2013). Or made of fields of the dataset's row that the message carries.
 *
 * @param forwardedShare null unless keys are forwarded
 * @param fields null unless the key is made of a row
 */
record OutputKey(Double forwardedShare, List<String> fields) implements Serializable {
    /** Drawn anew. */
    static final OutputKey DRAWN = new OutputKey(null, null);

    OutputKey {
        fields = fields == null ? null : List.copyOf(fields);
    }

    /**
     * The key of a tuple's output.
     *
     * @throws MalformedMessageException when it is made of a row, and the message has no such row
     */
    String of(Workload workload, Tuple tuple, Message message) throws MalformedMessageException {
        if (fields != null) {
            return Row.parse(message.payload()).key(fields);
        }
        if (forwardedShare == null) {
            return workload.key(message);
        }
        double drawn = Draw.of(workload.seed(), Draw.Purpose.FORWARDED, message).uniform(0);
        return drawn < forwardedShare
                ? tuple.getStringByField(Tuples.KEY)
                : workload.keys().names().get(0);
    }
}
