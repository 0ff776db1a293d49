package harness.storm.topologies;

import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;

/** The fields that every tuple of these topologies has. */
final class Tuples {
    static final String KEY = "key";
    static final String JSON = "json";
    static final String MEMBERS = "members";

    private Tuples() {}

    static Fields fields() {
        return new Fields(KEY, JSON, MEMBERS);
    }

    static Values values(String key, String json, byte[] members) {
        return new Values(key, json, members);
    }

    static Message message(Tuple tuple) throws MalformedMessageException {
        return Message.parse(tuple.getStringByField(JSON));
    }

    static byte[] members(Tuple tuple) {
        return tuple.getBinaryByField(MEMBERS);
    }
}
