package harness.storm.topologies;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.StreamReadFeature;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonMappingException;
import com.fasterxml.jackson.databind.MapperFeature;
import com.fasterxml.jackson.databind.PropertyNamingStrategies;
import com.fasterxml.jackson.databind.cfg.CoercionAction;
import com.fasterxml.jackson.databind.cfg.CoercionInputShape;
import com.fasterxml.jackson.databind.cfg.MutableCoercionConfig;
import com.fasterxml.jackson.databind.exc.UnrecognizedPropertyException;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.type.LogicalType;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.StringJoiner;

/** Reads a topology's settings strictly: an unknown, missing, repeated or mistyped key is an error. */
final class SettingsReader {
    private static final JsonMapper MAPPER =
            JsonMapper.builder()
                    .propertyNamingStrategy(PropertyNamingStrategies.SNAKE_CASE)
                    .enable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES)
                    .enable(DeserializationFeature.FAIL_ON_MISSING_CREATOR_PROPERTIES)
                    .enable(DeserializationFeature.FAIL_ON_NULL_FOR_PRIMITIVES)
                    .enable(DeserializationFeature.FAIL_ON_NUMBERS_FOR_ENUMS)
                    .enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS)
                    .enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION)
                    .disable(DeserializationFeature.ACCEPT_FLOAT_AS_INT)
                    .disable(MapperFeature.ALLOW_COERCION_OF_SCALARS)
                    .withCoercionConfig(LogicalType.Textual, SettingsReader::textOnly)
                    .build();
    /** How Jackson begins to say so; it has no exception class for it. */
    private static final String MISSING = "Missing creator property";

    /** Parts of Jackson's messages that speak of Java classes and of Jackson's own settings. */
    private static final String TYPE = "Cannot deserialize value of type `[^`]*` from ";
    private static final String HINT = " \\(but (might|could) if coercion.*";

    private SettingsReader() {}

    private static void textOnly(MutableCoercionConfig text) {
        text.setCoercion(CoercionInputShape.Integer, CoercionAction.Fail)
                .setCoercion(CoercionInputShape.Float, CoercionAction.Fail)
                .setCoercion(CoercionInputShape.Boolean, CoercionAction.Fail);
    }

    /**
     * Reads the file.
     *
     * @throws SettingsException naming the file, the key and what is wrong, on one line
     */
    static TopologySettings read(Path file) throws SettingsException {
        try {
            TopologySettings settings = MAPPER.readValue(Files.readString(file), TopologySettings.class);
            if (settings == null) {
                throw new SettingsException(file + ": holds null instead of the settings");
            }
            return settings;
        } catch (JsonProcessingException e) {
            throw new SettingsException(file + ": " + describe(e));
        } catch (NoSuchFileException e) {
            throw new SettingsException(file + ": there is no such file");
        } catch (IOException e) {
            throw new SettingsException(file + ": cannot be read: " + e);
        }
    }

    private static String describe(JsonProcessingException e) {
        String at = e instanceof JsonMappingException mapping ? key(mapping) : "";
        if (e instanceof UnrecognizedPropertyException) {
            return "unknown key " + at;
        }
        if (e.getCause() instanceof IllegalArgumentException broken) {
            return prefixed(at, broken.getMessage());
        }
        String reason = e.getOriginalMessage().lines().findFirst().orElse("not JSON");
        if (reason.startsWith(MISSING)) {
            return "missing key " + at;
        }
        reason = reason.replaceFirst(TYPE, "cannot be ").replaceFirst(HINT, "");
        String where = e.getLocation() == null ? "" : " (line " + e.getLocation().getLineNr() + ")";
        return prefixed(at, reason) + where;
    }

    private static String prefixed(String key, String reason) {
        return key.isEmpty() ? reason : key + ": " + reason;
    }

    private static String key(JsonMappingException e) {
        StringJoiner key = new StringJoiner(".");
        for (JsonMappingException.Reference step : e.getPath()) {
            key.add(step.getFieldName() != null ? step.getFieldName() : String.valueOf(step.getIndex()));
        }
        return key.toString();
    }
}
