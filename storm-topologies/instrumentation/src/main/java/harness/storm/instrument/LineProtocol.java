package harness.storm.instrument;

import java.util.Map;

/** InfluxDB line protocol: escaping, and the text of tags and fields. */
public final class LineProtocol {

    private LineProtocol() {
    }

    /** A measurement's name: commas and spaces escaped. */
    public static String measurement(String name) {
        return escape(name, ", ");
    }

    /** A tag's key or value, or a field's key: commas, equals signs and spaces escaped. */
    public static String tag(String text) {
        return escape(text, ",= ");
    }

    /**
     * A field's value: {@code 3i} for whole numbers, {@code 0.5} for others, {@code "text"} for strings.
     *
     * @throws IllegalArgumentException for a value the protocol cannot carry (NaN, infinity, a line break, another type)
     */
    public static String field(Object value) {
        if (value instanceof Long || value instanceof Integer) {
            return value + "i";
        }
        if (value instanceof Double number && Double.isFinite(number)) {
            return number.toString();
        }
        if (value instanceof String text) {
            requireOneLine(text);
            return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"") + '"';
        }
        throw new IllegalArgumentException("no line protocol field can hold " + value);
    }

    /** All fields of a line, {@code a=1i,b=0.5}, in the map's order. */
    public static String fields(Map<String, ?> fields) {
        StringBuilder text = new StringBuilder();
        fields.forEach((key, value) -> {
            if (text.length() > 0) {
                text.append(',');
            }
            text.append(tag(key)).append('=').append(field(value));
        });
        return text.toString();
    }

    private static String escape(String text, String special) {
        requireOneLine(text);
        StringBuilder escaped = new StringBuilder(text.length() + 4);
        char before = '\\'; // so that an empty name fails below
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (special.indexOf(c) >= 0) {
                if (i > 0 && before == '\\') {
                    throw notAName(text);
                }
                escaped.append('\\');
            }
            escaped.append(c);
            before = c;
        }
        if (before == '\\') {
            throw notAName(text);
        }
        return escaped.toString();
    }

    /** Empty, or with a backslash before a separator: there is no escape for the backslash itself. */
    private static IllegalArgumentException notAName(String text) {
        return new IllegalArgumentException("no line protocol name can be '" + text + "'");
    }

    private static void requireOneLine(String text) {
        if (text.indexOf('\n') >= 0 || text.indexOf('\r') >= 0) {
            throw new IllegalArgumentException("line break in a line protocol value: " + text.strip());
        }
    }
}
