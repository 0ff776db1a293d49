package harness.storm.topologies;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;

class SettingsReaderTest {
    private static final ObjectMapper JSON = new ObjectMapper();
    /** Objects whose keys are free: names of components, settings of Kafka and Storm. */
    private static final List<String> FREE = List.of("/components", "/spout/consumer", "/sink/producer", "/storm");

    @TempDir Path folder;

    private static ObjectNode valid(String name) throws IOException {
        try (InputStream in = SettingsReaderTest.class.getResourceAsStream("/" + name)) {
            return (ObjectNode) JSON.readTree(in);
        }
    }

    private TopologySettings read(String text) throws IOException, SettingsException {
        Path file = folder.resolve("topology.json");
        Files.writeString(file, text);
        return SettingsReader.read(file);
    }

    private String refused(String text) {
        SettingsException refusal = assertThrows(SettingsException.class, () -> read(text));
        String message = refusal.getMessage();
        assertEquals(1, message.lines().count(), message);
        assertTrue(message.startsWith(folder.resolve("topology.json") + ": "), message);
        return message.substring(message.indexOf(": ") + 2);
    }

    /** The file is what Python writes for the experiment of this name. */
    @Test
    void readsKeysAndAggregatesOfRows() throws Exception {
        Map<String, TopologySettings.Component> components =
                read(valid("wikipedia-edits.json").toString()).components();
        assertEquals(new OutputKey(null, List.of("geohash-4")), components.get("geohash").outputKey());
        assertEquals(OutputKey.DRAWN, components.get("global-top").outputKey());
        assertEquals(
                new Aggregate(Aggregate.Kind.TOP_K, "article", 10, 60), components.get("top").aggregate());
        assertEquals(
                new Aggregate(Aggregate.Kind.MERGE_TOP_K, null, 10, null), components.get("global-top").aggregate());
    }

    @Test
    void readsWhatIsThere() throws Exception {
        TopologySettings settings = read(valid("all-in-one.json").toString());
        assertEquals("all-in-one-test", settings.name());
        assertEquals(List.of("spout", "multiplier", "window", "sender"), List.copyOf(settings.components().keySet()));
        TopologySettings.Component multiplier = settings.components().get("multiplier");
        assertEquals(2, multiplier.executors());
        assertEquals(16, multiplier.tasks());
        ServiceTime service = new ServiceTime(ServiceTime.Kind.CPU, ServiceTime.Distribution.LOGNORMAL, 0.2, 1.5);
        assertEquals(service, multiplier.service());
        assertEquals(new Window(Window.Kind.COUNT, 10, 10), settings.components().get("window").window());
        assertEquals(new Children(1, 20, 10, 1), multiplier.multiplier());
        assertEquals("run-in", settings.components().get("spout").topic());
        assertEquals(new Keys(List.of("A", "B"), List.of(3.0, 1.5)), settings.keys());
        assertEquals(1, settings.spout().pollTimeoutMs());
        assertEquals(Map.of("max.poll.records", 50), settings.spout().consumer());
        assertEquals(Map.of("linger.ms", "0", "acks", "1"), settings.sink().producer());
        assertEquals(1.0, settings.storm().get("topology.stats.sample.rate"));
        TopologySettings.Component join = read(valid("join-split.json").toString()).components().get("join");
        assertEquals(Routing.ONE_PER_WINDOW, join.routing());
    }

    static Stream<String> everyKey() throws IOException {
        List<String> keys = new ArrayList<>();
        collect(valid("all-in-one.json"), "", keys, false);
        return keys.stream();
    }

    static Stream<String> everyObject() throws IOException {
        List<String> objects = new ArrayList<>();
        collect(valid("all-in-one.json"), "", objects, true);
        return objects.stream();
    }

    private static void collect(JsonNode node, String at, List<String> into, boolean objects) {
        if (node.isObject() && !FREE.contains(at) && objects) {
            into.add(at);
        }
        if (node.isObject() && !FREE.contains(at) && !objects) {
            node.fieldNames().forEachRemaining(key -> into.add(at + "/" + key));
        }
        if (node.isObject()) {
            node.properties().forEach(e -> collect(e.getValue(), at + "/" + e.getKey(), into, objects));
        }
        if (node.isArray()) {
            for (int i = 0; i < node.size(); i++) {
                collect(node.get(i), at + "/" + i, into, objects);
            }
        }
    }

    @ParameterizedTest
    @MethodSource("everyKey")
    void aMissingKeyIsNamed(String pointer) throws IOException {
        ObjectNode settings = valid("all-in-one.json");
        int slash = pointer.lastIndexOf('/');
        ((ObjectNode) settings.at(pointer.substring(0, slash))).remove(pointer.substring(slash + 1));
        assertEquals("missing key " + dotted(pointer), refused(settings.toString()));
    }

    @ParameterizedTest
    @MethodSource("everyObject")
    void anUnknownKeyIsNamed(String pointer) throws IOException {
        ObjectNode settings = valid("all-in-one.json");
        ((ObjectNode) settings.at(pointer)).put("colour", "red");
        assertEquals("unknown key " + dotted(pointer + "/colour"), refused(settings.toString()));
    }

    private static String dotted(String pointer) {
        return pointer.substring(1).replace('/', '.');
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', quoteCharacter = '\0', value = {
        "/seed                            | \"1\"       | seed: ",
        "/seed                            | 1.5         | seed: ",
        "/seed                            | null        | seed: ",
        "/name                            | \"\"        | name must not be empty",
        "/name                            | 7           | name: ",
        "/components/spout                | null        | components.spout must not be null",
        "/components/spout/executors      | 0           | components.spout: executors has to be at least 1, not 0",
        "/components/spout/executors      | 17          | components.spout: tasks has to be at least executors, not 16",
        "/components/spout/role           | \"tap\"     | components.spout.role: ",
        "/components/spout/role           | null        | components.spout: role must not be null",
        "/components/spout/role           | \"sender\"  | components.spout: a sender has no topic",
        "/components/window/window        | null        | components.window: window is for roles",
        "/components/sender/window        | {\"kind\":\"time\",\"length\":1,\"slide\":1} | components.sender: window is for roles",
        "/components/window/window/slide  | 11          | components.window.window: slide has to be from 1 to length, not 11",
        "/components/window/window/length | 0           | components.window.window: length has to be",
        "/components/window/window/length | 3000000000  | components.window.window.length: ",
        "/components/window/window/kind   | \"session\" | components.window.window.kind: ",
        "/components/multiplier/service/kind    | \"sleep\" | components.multiplier.service.kind: ",
        "/components/multiplier/service/mean_ms | -1        | components.multiplier.service: mean_ms has to be",
        "/components/multiplier/service/cv      | null      | components.multiplier.service: lognormal needs",
        "/components/spout/service        | {\"kind\":\"cpu\",\"distribution\":\"constant\",\"mean_ms\":1,\"cv\":null} | components.spout: a spout has no service",
        "/streams/0/source                | \"tap\"     | streams: tap->multiplier:default names tap",
        "/streams/0/stream                | \"stream-5\"| streams: spout->multiplier:stream-5: spout emits on [default] only",
        "/streams/0/grouping              | \"direct\"  | streams.0.grouping: ",
        "/streams/2/source                | \"sender\"  | streams: sender->sender:default: sender emits on [] only",
        "/streams/1/source                | \"window\"  | streams: window receives its own output",
        "/streams/0/target                | \"spout\"   | streams: spout is a spout and has no input",
        "/streams/0/target                | \"window\"  | streams: multiplier has no input",
        "/components/multiplier/multiplier | null       | components.multiplier: multiplier must not be null",
        "/components/window/routing       | \"parity\"  | components.window: a window has no routing",
        "/components/window/routing       | \"both\"    | components.window.routing: ",
        "/components/window/keep          | 0.5         | components.window: a window has no keep",
        "/components/window/topic         | \"in\"      | components.window: a window has no topic",
        "/components/spout/topic          | null        | components.spout: topic must not be null",
        "/components/spout/topic          | \"\"        | components.spout: topic must not be empty",
        "/components/window/forwarded_share | 0.5       | components.window: forwarded_share is for roles json and keyed",
        "/components/window/key           | [\"article\"] | components.window: key is for roles json and keyed",
        "/components/window/aggregate     | {\"kind\":\"sum\",\"of\":\"delay\",\"k\":null,\"window_s\":null} | components.window: aggregate is for role keyed",
        "/components/window/aggregate     | {\"kind\":\"sum\",\"of\":null,\"k\":null,\"window_s\":null} | components.window.aggregate: of is for",
        "/components/window/groups        | 20          | components.window: a window has no groups",
        "/components/sender/output_bytes  | -1          | components.sender: output_bytes has to be 0 or more",
        "/keys/weights                    | [1]         | keys: there have to be as many weights as names",
        "/keys/weights                    | [1, 0]      | keys: a weight has to be positive, not 0.0",
        "/spout/poll_timeout_ms           | -1          | spout: poll_timeout_ms has to be 0 or more, not -1",
        "/spout/guarantee                 | \"exactly-once\" | spout.guarantee: ",
        "/spout/consumer                  | {\"group.id\":\"x\"} | spout: consumer: group.id is set by the topology itself",
        "/spout/consumer                  | {\"max.poll.records\":null} | spout: consumer: max.poll.records must not be null",
        "/sink/producer                   | {\"compression.type\":\"zstd\"} | sink: producer: compression.type zstd is not in the jar",
        "/streams                         | [null]      | streams must not have a null",
        "/keys/weights                    | [1, null]   | keys: weights must not have a null",
        "/storm                           | null        | storm must not be null",
        "/storm                           | []          | storm: "
    })
    void anUnusableValueIsNamed(String pointer, String value, String refusal) throws IOException {
        ObjectNode settings = valid("all-in-one.json");
        int slash = pointer.lastIndexOf('/');
        JsonNode parent = settings.at(pointer.substring(0, slash));
        ((ObjectNode) parent).set(pointer.substring(slash + 1), JSON.readTree(value));
        String message = refused(settings.toString());
        assertTrue(message.startsWith(refusal), message);
    }

    @Test
    void aFilterBehindAWindowIsRefused() throws IOException {
        ObjectNode settings = valid("join-split.json");
        ((ObjectNode) settings.at("/components/sender-1")).put("role", "filter").put("keep", 0.5);
        ((ObjectNode) settings.at("/streams/5")).put("source", "sender-1").put("stream", "default");
        assertEquals("streams: sender-1 filters what was windowed before", refused(settings.toString()));
    }

    @ParameterizedTest
    @CsvSource({"0, above", "1.5, above", "1, ''", "0.3, ''"})
    void aFilterKeepsAShare(double keep, String refusal) throws Exception {
        ObjectNode settings = valid("join-split.json");
        ((ObjectNode) settings.at("/components/json")).put("role", "filter").put("keep", keep);
        if (refusal.isEmpty()) {
            assertEquals(keep, read(settings.toString()).components().get("json").keep());
            return;
        }
        assertEquals("components.json: keep has to be above 0 and at most 1, not " + keep, refused(settings.toString()));
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', quoteCharacter = '\0', value = {
        "/components/count/groups | null      | components.count: groups must not be null",
        "/components/count/groups | 3         | components.count: groups has to be at least tasks, not 3",
        "/components/count/topic  | null      | components.count: topic must not be null",
        "/streams/1/grouping      | \"shuffle\" | streams: parse->count:default is by key: its grouping has to be fields",
        "/streams/1/source        | \"spout\"   | streams: spout->count:default: a keyed component hears no spout, window or join"
    })
    void aKeyedComponentHasGroupsAndHearsBoltsByKey(String pointer, String value, String refusal) throws IOException {
        ObjectNode settings = valid("keyed.json");
        int slash = pointer.lastIndexOf('/');
        JsonNode changed = JSON.readTree(value);
        ((ObjectNode) settings.at(pointer.substring(0, slash))).set(pointer.substring(slash + 1), changed);
        assertEquals(refusal, refused(settings.toString()));
    }

    @Test
    void aJoinOfOneInputIsRefused() throws IOException {
        ObjectNode settings = valid("join-split.json");
        ((ObjectNode) settings.at("/streams/3")).put("target", "sender-1");
        assertEquals("streams: join joins 2 components or more, not 1", refused(settings.toString()));
    }

    @Test
    void parityOfThreeInputsIsRefusedAndOneStreamWillDo() throws Exception {
        ObjectNode three = valid("join-split.json");
        ((ArrayNode) three.get("streams")).add(three.get("streams").get(0).deepCopy());
        ((ObjectNode) three.at("/streams/6")).put("target", "join");
        assertEquals(6, valid("join-split.json").get("streams").size());
        read(three.toString());
        ((ObjectNode) three.at("/components/join")).put("routing", "parity");
        String refusal = "streams: join has routing parity, which is of two inputs and at most two streams";
        assertEquals(refusal, refused(three.toString()));
        ObjectNode one = valid("join-split.json");
        ((ObjectNode) one.at("/components/join")).put("routing", "parity");
        read(one.toString());
        ((ObjectNode) one.at("/streams/5")).put("stream", "stream-5");
        read(one.toString());
    }

    @Test
    void aNameThatAPathCannotHoldIsRefused() throws IOException {
        String odd = valid("all-in-one.json").toString().replace("\"sender\":{", "\"a/b\":{");
        assertTrue(refused(odd).startsWith("components: a name has letters"), refused(odd));
    }

    @Test
    void textThatIsNotSettingsIsRefused() {
        assertTrue(refused("{\n\"name\": }").endsWith("(line 2)"), refused("{\n\"name\": }"));
        assertTrue(refused("").contains("No content"), refused(""));
        assertEquals("holds null instead of the settings", refused("null"));
        assertTrue(refused("{\"name\": \"a\", \"name\": \"b\"}").contains("Duplicate"));
    }

    @Test
    void textBehindTheSettingsIsRefused() throws IOException {
        assertTrue(refused(valid("all-in-one.json") + "{}").contains("Trailing token"));
    }

    @Test
    void aFileThatCannotBeReadIsNamed() {
        Path missing = folder.resolve("none.json");
        SettingsException refusal = assertThrows(SettingsException.class, () -> SettingsReader.read(missing));
        assertEquals(missing + ": there is no such file", refusal.getMessage());
        SettingsException unreadable = assertThrows(SettingsException.class, () -> SettingsReader.read(folder));
        assertTrue(unreadable.getMessage().startsWith(folder + ": cannot be read: "), unreadable.getMessage());
    }

    @Test
    void mainWantsOneArgument() {
        assertThrows(SettingsException.class, () -> Main.settings(new String[0]));
        assertThrows(SettingsException.class, () -> Main.settings(new String[] {"a", "b"}));
    }
}
