package harness.storm.topologies;

import java.util.ArrayList;
import java.util.List;

/**
 * A message, or one child of it, that a tuple stands for, with its hop record.
 *
 * @param messageId unique within a run
 * @param child 0 where nothing multiplied it, else the name that the last multiplier gave it
 * @param enteredNs nanoTime of the spout's emit
 * @param hops the components passed, the spout first
 */
record Member(long messageId, int child, long enteredNs, List<Hop> hops) {

    Member {
        hops = List.copyOf(hops);
    }

    /** The same member after one more component. */
    Member via(Hop hop) {
        List<Hop> longer = new ArrayList<>(hops);
        longer.add(hop);
        return new Member(messageId, child, enteredNs, longer);
    }

    /** The same member as one of the message's children. */
    Member withChild(int number) {
        return new Member(messageId, number, enteredNs, hops);
    }

    /** How metrics and messages name it, e.g. {@code 12/0}. */
    String label() {
        return messageId + "/" + child;
    }
}
