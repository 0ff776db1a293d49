package harness.storm;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * One line of line protocol, read by the rules of InfluxDB's reference (escaped commas, spaces and equals signs; quoted
 * strings), independently of the code that writes it.
 */
public record Line(String measurement, Map<String, String> tags, Map<String, Object> fields, long timestampNs) {

    public static Line parse(String text) {
        String series = split(text, ' ', false).get(0);
        List<String> parts = split(text.substring(series.length()), ' ', true);
        if (parts.size() != 3) {
            throw new IllegalArgumentException("not series, fields and time: " + text);
        }
        List<String> key = split(series, ',', false);
        Map<String, String> tags = new LinkedHashMap<>();
        for (String tag : key.subList(1, key.size())) {
            List<String> pair = split(tag, '=', false);
            if (pair.size() != 2 || tags.put(unescape(pair.get(0)), unescape(pair.get(1))) != null) {
                throw new IllegalArgumentException("tag " + tag + " in: " + text);
            }
        }
        Map<String, Object> fields = new LinkedHashMap<>();
        for (String field : split(parts.get(1), ',', true)) {
            List<String> pair = split(field, '=', true);
            if (pair.size() != 2 || fields.put(unescape(pair.get(0)), value(pair.get(1))) != null) {
                throw new IllegalArgumentException("field " + field + " in: " + text);
            }
        }
        return new Line(unescape(key.get(0)), tags, fields, Long.parseLong(parts.get(2)));
    }

    public String tag(String name) {
        return tags.getOrDefault(name, "");
    }

    public long count(String field) {
        return (Long) fields.get(field);
    }

    private static Object value(String text) {
        if (text.startsWith("\"")) {
            return text.substring(1, text.length() - 1).replaceAll("\\\\([\"\\\\])", "$1");
        }
        return text.endsWith("i") ? (Object) Long.valueOf(text.substring(0, text.length() - 1)) : Double.valueOf(text);
    }

    private static String unescape(String text) {
        return text.replaceAll("\\\\([, =])", "$1");
    }

    /** Splits at a character that is not escaped, and not within quotes where these mean anything: among fields. */
    private static List<String> split(String text, char at, boolean quotes) {
        List<String> parts = new ArrayList<>();
        StringBuilder part = new StringBuilder();
        boolean quoted = false;
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (c == '\\' && i + 1 < text.length()) {
                part.append(c).append(text.charAt(++i));
                continue;
            }
            if (quotes && c == '"') {
                quoted = !quoted;
            }
            if (c == at && !quoted) {
                parts.add(part.toString());
                part.setLength(0);
            } else {
                part.append(c);
            }
        }
        parts.add(part.toString());
        return parts;
    }
}
