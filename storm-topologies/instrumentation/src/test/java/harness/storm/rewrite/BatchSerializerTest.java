package harness.storm.rewrite;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.storm.Config;
import org.apache.storm.serialization.KryoValuesDeserializer;
import org.apache.storm.serialization.KryoValuesSerializer;
import org.apache.storm.tuple.Values;
import org.apache.storm.utils.Utils;
import org.junit.jupiter.api.Test;

/** Through Storm's own serialisers, as between two workers. */
class BatchSerializerTest {
    private final Map<String, Object> conf = new HashMap<>(Utils.readDefaultConfig());

    BatchSerializerTest() {
        conf.put(Config.TOPOLOGY_KRYO_REGISTER, List.of(Map.of(Batch.class.getName(), BatchSerializer.class.getName())));
        conf.put(Config.TOPOLOGY_FALL_BACK_ON_JAVA_SERIALIZATION, false);
    }

    @Test
    void rowsArriveAsTheyWere() {
        Random random = new Random(3);
        for (int trial = 0; trial < 300; trial++) {
            List<List<Object>> rows = new ArrayList<>();
            int columns = random.nextInt(4);
            for (int row = 1 + random.nextInt(20); row > 0; row--) {
                List<Object> values = new ArrayList<>();
                for (int column = 0; column < columns; column++) {
                    values.add(value(column == 0 ? 1 : random.nextInt(6), random));
                }
                rows.add(values);
            }
            assertEquals(rows, through(rows, null));
        }
    }

    private static Object value(int kind, Random random) {
        return switch (kind) {
            case 0 -> null;
            case 1 -> random.nextLong();
            case 2 -> "text " + random.nextInt(10);
            case 3 -> random.nextInt();
            case 4 -> new ArrayList<>(Arrays.asList("a", null, 3L));
            default -> new HashMap<>(Map.of("k", random.nextDouble()));
        };
    }

    /** 50 longs below 64 take a byte each; the class of a column is written once. */
    @Test
    void bytesOfTuplesAreCounted() {
        BatchCounts counts = new BatchCounts();
        List<List<Object>> rows = new ArrayList<>();
        for (long n = 0; n < 50; n++) {
            rows.add(new Values(n));
        }
        through(rows, counts);
        // rows, columns, kind of column, class, and the values
        Map<String, Object> counted = counts.drain(new BatchSize(50, 5));
        assertEquals(50L, counted.get("bytes_tuples"));
        assertEquals(54L, counted.get("bytes"));
        assertEquals(0L, counts.drain(new BatchSize(50, 5)).get("bytes"));
    }

    @Test
    void whatKryoDoesNotKnowIsRefusedAsInATuple() {
        Object unknown = new StringBuilder("x");
        KryoValuesSerializer serializer = new KryoValuesSerializer(conf);
        String alone = assertThrows(IllegalArgumentException.class, () -> serializer.serialize(new Values(unknown)))
            .getMessage();
        String message = assertThrows(IllegalArgumentException.class, () -> through(List.of(new Values(unknown)), null))
            .getMessage();
        assertTrue(message.startsWith(alone.lines().findFirst().orElseThrow()), message);
    }

    @Test
    void rowsOfDifferentLengthAreRefused() {
        assertEquals("tuples of one stream have 1 and 2 fields", assertThrows(IllegalArgumentException.class,
            () -> through(List.of(new Values(1), new Values(1, 2)), null)).getMessage());
    }

    private List<List<Object>> through(List<List<Object>> rows, BatchCounts counts) {
        Batch batch = new Batch(rows.size(), counts);
        rows.forEach(batch::add);
        byte[] bytes = new KryoValuesSerializer(conf).serialize(new Values(batch));
        Batch arrived = (Batch) new KryoValuesDeserializer(conf).deserialize(bytes).get(0);
        List<List<Object>> result = new ArrayList<>();
        for (int i = 0; i < arrived.size(); i++) {
            result.add(arrived.row(i));
        }
        return result;
    }
}
