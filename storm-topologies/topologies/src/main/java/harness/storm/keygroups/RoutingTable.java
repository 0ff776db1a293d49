package harness.storm.keygroups;

import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.json.JsonMapper;
import java.io.IOException;
import java.util.List;
import java.util.stream.IntStream;

/**
 * Which task has each key group.
 *
 * @param topology Storm's id of the submitted topology that it is for; empty for every one
 * @param version 0 for the table that a topology begins with, and one more for each that follows
 * @param tasks of each group, the position of its task among the component's tasks, counted from 0
 */
public record RoutingTable(
        @JsonProperty("topology") String topology,
        @JsonProperty("version") long version,
        @JsonProperty("tasks") List<Integer> tasks) {
    private static final JsonMapper MAPPER = JsonMapper.builder()
            .enable(DeserializationFeature.FAIL_ON_MISSING_CREATOR_PROPERTIES)
            .enable(DeserializationFeature.FAIL_ON_NULL_CREATOR_PROPERTIES)
            .build();

    /** Copies the list. */
    public RoutingTable {
        tasks = List.copyOf(tasks);
    }

    /** The table that a topology begins with: groups are dealt to the tasks in turn. */
    public static RoutingTable first(int groups, int tasks) {
        return new RoutingTable("", 0, IntStream.range(0, groups).mapToObj(group -> group % tasks).toList());
    }

    /**
     * The group of a key: Java's hash of the text, mixed, as an unsigned number modulo the number of groups.
     *
     * <p>It is mixed by the last step of MurmurHash3, or names that are counted up would leave groups empty.
     */
    public static int group(String key, int groups) {
        return Integer.remainderUnsigned(mixed(key.hashCode()), groups);
    }

    private static int mixed(int hash) {
        int h = hash;
        h = (h ^ h >>> 16) * 0x85ebca6b;
        h = (h ^ h >>> 13) * 0xc2b2ae35;
        return h ^ h >>> 16;
    }

    /** The position of the task that has a group. */
    public int task(int group) {
        return tasks.get(group);
    }

    /** Whether it is for a topology, and has as many groups, on tasks that there are. */
    public boolean fits(String submitted, int groups, int count) {
        return topology.equals(submitted)
                && tasks.size() == groups
                && tasks.stream().allMatch(task -> task >= 0 && task < count);
    }

    /** Writes it as JSON. */
    public byte[] encode() {
        try {
            return MAPPER.writeValueAsBytes(this);
        } catch (JsonProcessingException e) {
            throw new IllegalStateException("a record of text and numbers is always JSON", e);
        }
    }

    /**
     * Reads one that was written as JSON.
     *
     * @throws IOException when it is not a table
     */
    public static RoutingTable decode(byte[] json) throws IOException {
        RoutingTable table = json == null ? null : MAPPER.readValue(json, RoutingTable.class);
        if (table == null) {
            throw new IOException("a routing table is empty");
        }
        return table;
    }
}
