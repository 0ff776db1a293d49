package harness.storm.topologies;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.StringJoiner;

/**
 * A row of a dataset, as a message's payload has it: {@code name=value} pairs with {@code ;} between them.
 *
 * <p>Names and values have neither {@code =} nor {@code ;}. The datasets are in Python's {@code harness.experiments.datasets}.
 */
final class Row {
    /** Begins the name of a field that is made of {@code lat} and {@code lon}: {@code geohash-4} has four characters. */
    static final String GEOHASH = "geohash-";

    private final Map<String, String> fields;

    private Row(Map<String, String> fields) {
        this.fields = fields;
    }

    /**
     * Reads a payload.
     *
     * @throws MalformedMessageException when it is not a row
     */
    static Row parse(String payload) throws MalformedMessageException {
        Map<String, String> fields = new LinkedHashMap<>();
        for (String pair : payload.split(";")) {
            int at = pair.indexOf('=');
            if (at < 1) {
                throw new MalformedMessageException("a payload is no row of a dataset: it has no name=value", null);
            }
            fields.put(pair.substring(0, at), pair.substring(at + 1));
        }
        return new Row(fields);
    }

    /**
     * The value of a field.
     *
     * @throws MalformedMessageException when the row has no such field
     */
    String text(String name) throws MalformedMessageException {
        String value = fields.get(name);
        if (value == null) {
            throw new MalformedMessageException("a row has no field " + name, null);
        }
        return value;
    }

    /**
     * The value of a field that has numbers.
     *
     * @throws MalformedMessageException when the row has no such field, or no number there
     */
    double number(String name) throws MalformedMessageException {
        try {
            return Double.parseDouble(text(name));
        } catch (NumberFormatException e) {
            throw new MalformedMessageException("a row's field " + name + " is no number", e);
        }
    }

    /** Sets a field. */
    void put(String name, String value) {
        fields.put(name, value);
    }

    /** Sets a field to a whole number. */
    void put(String name, long value) {
        fields.put(name, Long.toString(value));
    }

    /**
     * The values of some fields, with {@code /} between them.
     *
     * @param names of fields, or {@code geohash-N}
     * @throws MalformedMessageException when the row does not have them
     */
    String key(List<String> names) throws MalformedMessageException {
        StringJoiner key = new StringJoiner("/");
        for (String name : names) {
            key.add(name.startsWith(GEOHASH) ? geohash(name) : text(name));
        }
        return key.toString();
    }

    private String geohash(String name) throws MalformedMessageException {
        return Geohash.of(number("lat"), number("lon"), Integer.parseInt(name.substring(GEOHASH.length())));
    }

    /** The row as a payload. */
    String payload() {
        StringJoiner pairs = new StringJoiner(";");
        fields.forEach((name, value) -> pairs.add(name + "=" + value));
        return pairs.toString();
    }
}
