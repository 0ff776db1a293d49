package harness.storm.topologies;

import com.fasterxml.jackson.annotation.JsonInclude;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.MapperFeature;
import com.fasterxml.jackson.databind.ObjectReader;
import com.fasterxml.jackson.databind.ObjectWriter;
import com.fasterxml.jackson.databind.PropertyNamingStrategies;
import com.fasterxml.jackson.databind.json.JsonMapper;
import java.io.IOException;
import java.util.List;

/**
 * What travels as JSON: every bolt reads it into this class, adds itself to the path and writes it
 * again (thesis 5.3.1).
 *
 * <p>A window's output is based on one of its tuples: it has that tuple's message, child and payload,
 * and the path continues from that tuple's.
 *
 * @param messageId unique within a run
 * @param child which of the message's children, 0 where nothing multiplies
 * @param payload the generator's text, or that of the last component with a payload of its own
 * @param path components and tasks passed, e.g. {@code spout:3/bolt-a:20}
 * @param enteredNs after a window, the entry time that the thesis gives its output (nanoTime); null
 *     before any window, where it is the entry time of the tuple's only member
 */
@JsonInclude(JsonInclude.Include.NON_NULL)
record Message(long messageId, int child, String payload, String path, Long enteredNs) {

    /** What the generator writes to the input topic. */
    record Input(long messageId, String payload) {
        Input {
            Checks.present("payload", payload);
        }
    }

    private static final JsonMapper MAPPER =
            JsonMapper.builder()
                    .propertyNamingStrategy(PropertyNamingStrategies.SNAKE_CASE)
                    .enable(DeserializationFeature.FAIL_ON_NULL_FOR_PRIMITIVES)
                    .disable(DeserializationFeature.ACCEPT_FLOAT_AS_INT)
                    .disable(MapperFeature.ALLOW_COERCION_OF_SCALARS)
                    .build();
    private static final JsonMapper INPUT_MAPPER =
            MAPPER.rebuild().enable(DeserializationFeature.FAIL_ON_MISSING_CREATOR_PROPERTIES).build();
    private static final ObjectReader INPUT_READER = INPUT_MAPPER.readerFor(Input.class);
    private static final ObjectReader READER = MAPPER.readerFor(Message.class);
    private static final ObjectWriter WRITER = MAPPER.writerFor(Message.class);

    /**
     * Reads a record of the input topic.
     *
     * @throws MalformedMessageException when it is not the JSON that the generator writes
     */
    static Message fromInput(byte[] value) throws MalformedMessageException {
        try {
            Input input = value == null ? null : INPUT_READER.readValue(value);
            if (input == null) {
                throw new MalformedMessageException("an input record has no value", null);
            }
            return new Message(input.messageId, 0, input.payload, "", null);
        } catch (IOException e) {
            throw new MalformedMessageException("an input record is not a message: " + firstLine(e), e);
        }
    }

    /**
     * Reads the {@code json} field of a tuple.
     *
     * @throws MalformedMessageException when it is not a message
     */
    static Message parse(String json) throws MalformedMessageException {
        try {
            return READER.readValue(json);
        } catch (JsonProcessingException e) {
            throw new MalformedMessageException("a tuple's json is not a message: " + firstLine(e), e);
        }
    }

    /** Writes the {@code json} field of a tuple. */
    String toJson() {
        try {
            return WRITER.writeValueAsString(this);
        } catch (JsonProcessingException e) {
            throw new IllegalStateException("a record of strings and numbers is always JSON", e);
        }
    }

    /** How many components the path names. */
    int hop() {
        return path.isEmpty() ? 0 : 1 + (int) path.chars().filter(c -> c == '/').count();
    }

    /** The same message after this component. */
    Message via(String component, int task) {
        String step = component + ":" + task;
        return new Message(messageId, child, payload, path.isEmpty() ? step : path + "/" + step, enteredNs);
    }

    /** One of the message's children. */
    Message withChild(int number) {
        return new Message(messageId, number, payload, path, enteredNs);
    }

    /** The same message with another payload. */
    Message withPayload(String text) {
        return new Message(messageId, child, text, path, enteredNs);
    }

    /** The same message with the thesis's entry time of a window's output. */
    Message entered(long atNs) {
        return new Message(messageId, child, payload, path, atNs);
    }

    /**
     * The entry time that the thesis gives the tuple (5.3.1): the one of its window, and before any
     * window that of its only member.
     */
    long entryNs(List<Member> members) {
        return enteredNs != null ? enteredNs : members.get(0).enteredNs();
    }

    private static String firstLine(Exception e) {
        return String.valueOf(e.getMessage()).lines().findFirst().orElse("");
    }
}
