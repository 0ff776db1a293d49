package harness.storm.topologies;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.Arrays;
import java.util.Random;
import org.junit.jupiter.api.Test;

class GroupStateTest {

    /** By the layout that the class documents: 4 + 2 (4 + 1 + 8 + 4) bytes, "text" and "é" of two bytes. */
    @Test
    void countsTuplesAndKeepsTheLastPayload() throws Exception {
        GroupState state = new GroupState();
        state.add("A", "longer than the last one");
        state.add("A", "text");
        state.add("B", "é");
        assertEquals(2, state.tuples("A"));
        assertEquals(3, state.tuples());
        assertEquals(4 + 2 * 17 + 4 + 2, state.sizeBytes());
        assertEquals(state.sizeBytes(), state.encode().length);
        assertArrayEquals(state.encode(), GroupState.decode(state.encode()).encode());
        assertEquals(0, state.tuples("C"));
    }

    @Test
    void anyStateIsTheSameAfterItsWay() throws Exception {
        Random random = new Random(5);
        for (int i = 0; i < 200; i++) {
            GroupState state = new GroupState();
            for (int tuples = random.nextInt(40); tuples > 0; tuples--) {
                state.add("key " + random.nextInt(12), "x".repeat(random.nextInt(50)));
            }
            byte[] bytes = state.encode();
            GroupState read = GroupState.decode(bytes);
            assertArrayEquals(bytes, read.encode());
            assertEquals(bytes.length, read.sizeBytes());
            assertEquals(state.tuples(), read.tuples());
        }
    }

    @Test
    void bytesThatEndEarlyAreNoState() {
        GroupState state = new GroupState();
        state.add("A", "text");
        byte[] bytes = state.encode();
        for (int length = 0; length < bytes.length; length++) {
            byte[] cut = Arrays.copyOf(bytes, length);
            assertThrows(MalformedMessageException.class, () -> GroupState.decode(cut));
        }
    }
}
