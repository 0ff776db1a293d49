package harness.storm.cluster;

import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.storm.shade.net.minidev.json.JSONValue;
import org.apache.storm.shade.net.minidev.json.parser.JSONParser;
import org.apache.storm.shade.net.minidev.json.parser.ParseException;
import org.apache.storm.shade.net.minidev.json.writer.JsonReaderI;

/**
 * A physical plan as its file says it, for example {@code {"generation": 7, "executors": {"bolt-a[3-4]": "node-1:6700"}}}.
 *
 * @param generation number of the plan, by which its writer knows it again in the scheduling status
 * @param executors the worker of each executor
 */
record PinnedPlan(long generation, Map<String, Worker> executors) {
    private static final String GENERATION = "generation";
    private static final String EXECUTORS = "executors";
    private static final int STRICT = JSONParser.MODE_RFC4627 | JSONParser.LIMIT_JSON_DEPTH;

    /**
     * A slot by the name of its worker node.
     *
     * @param node {@code name} of the supervisor's {@code supervisor.scheduler.meta}, else its host
     */
    record Worker(String node, int port) implements Comparable<Worker> {
        @Override
        public String toString() {
            return node + ":" + port;
        }

        @Override
        public int compareTo(Worker other) {
            int byNode = node.compareTo(other.node);
            return byNode != 0 ? byNode : Integer.compare(port, other.port);
        }
    }

    /** @throws PlanException naming what is wrong: every key must be there, and no other may */
    static PinnedPlan parse(String text) throws PlanException {
        Object json;
        try {
            json = new JSONParser(STRICT).parse(text, new Unique());
        } catch (ParseException e) {
            throw new PlanException(switch (e.getErrorType()) {
                case ParseException.ERROR_UNEXPECTED_DUPLICATE_KEY -> e.getUnexpectedObject() + " is there twice";
                case ParseException.ERROR_UNEXPECTED_EOF -> "it is not JSON: it ends too soon";
                default -> "it is not JSON: " + e.getMessage();
            });
        }
        if (!(json instanceof Map<?, ?> map)) {
            throw new PlanException("it is not a JSON object");
        }
        for (Object key : map.keySet()) {
            if (!Set.of(GENERATION, EXECUTORS).contains(key)) {
                throw new PlanException("unknown key " + key);
            }
        }
        if (!(map.get(GENERATION) instanceof Integer || map.get(GENERATION) instanceof Long)) {
            throw new PlanException(GENERATION + " must be a whole number, not " + JSONValue.toJSONString(map.get(GENERATION)));
        }
        if (!(map.get(EXECUTORS) instanceof Map<?, ?> listed) || listed.isEmpty()) {
            throw new PlanException(EXECUTORS + " must be an object with the worker of each executor");
        }
        Map<String, Worker> executors = new LinkedHashMap<>();
        for (Map.Entry<?, ?> entry : listed.entrySet()) {
            executors.put(entry.getKey().toString(), worker(entry.getKey(), entry.getValue()));
        }
        return new PinnedPlan(((Number) map.get(GENERATION)).longValue(), executors);
    }

    private static Worker worker(Object executor, Object label) throws PlanException {
        if (label instanceof String text) {
            int colon = text.lastIndexOf(':');
            String port = text.substring(colon + 1);
            if (colon > 0 && port.matches("[1-9][0-9]{0,4}")) {
                return new Worker(text.substring(0, colon), Integer.parseInt(port));
            }
        }
        throw new PlanException("the worker of executor " + executor + " must be NODE:PORT, not "
            + JSONValue.toJSONString(label));
    }

    /** Reads objects as maps that refuse a second value of a key: JSON's usual readers keep the last. */
    private static final class Unique extends JsonReaderI<Object> {
        Unique() {
            super(JSONValue.defaultReader);
        }

        @Override
        public Object createObject() {
            return new LinkedHashMap<String, Object>();
        }

        @Override
        public Object createArray() {
            return new ArrayList<Object>();
        }

        @Override
        public JsonReaderI<?> startObject(String key) {
            return this;
        }

        @Override
        public JsonReaderI<?> startArray(String key) {
            return this;
        }

        @Override
        @SuppressWarnings("unchecked") // what createObject made
        public void setValue(Object object, String key, Object value) throws ParseException, IOException {
            Map<String, Object> map = (Map<String, Object>) object;
            if (map.containsKey(key)) {
                throw new ParseException(0, ParseException.ERROR_UNEXPECTED_DUPLICATE_KEY, key);
            }
            map.put(key, value);
        }

        @Override
        @SuppressWarnings("unchecked") // what createArray made
        public void addValue(Object array, Object value) {
            ((List<Object>) array).add(value);
        }
    }
}
