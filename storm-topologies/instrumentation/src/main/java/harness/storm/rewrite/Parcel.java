package harness.storm.rewrite;

import java.util.List;

/** The message identifier under which Storm tracks a spout's batch. */
final class Parcel {
    private final List<Message> messages;

    Parcel(List<Message> messages) {
        this.messages = messages;
    }

    List<Message> messages() {
        return messages;
    }
}
