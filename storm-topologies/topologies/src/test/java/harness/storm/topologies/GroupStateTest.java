package harness.storm.topologies;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;

class GroupStateTest {

    /** By the layout that the class documents: 8 + 4 + 2 (4 + 1 + 8 + 4 + 4) bytes, "text" and "é" of two bytes. */
    @Test
    void countsTuplesAndKeepsTheLastPayload() throws Exception {
        GroupState state = new GroupState();
        state.count("A", "longer than the last one");
        state.count("A", "text");
        state.count("B", "é");
        assertEquals(2, state.tuples("A"));
        assertEquals(3, state.tuples());
        assertEquals(12 + 2 * 21 + 4 + 2, state.sizeBytes());
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
                String key = "key " + random.nextInt(12);
                switch (random.nextInt(4)) {
                    case 0 -> state.add(key, "sum", random.nextInt(9));
                    case 1 -> state.put(key, "cell " + random.nextInt(5), random.nextInt(9));
                    case 2 -> state.in(random.nextInt(40) == 0 ? 1 : 0);
                    default -> state.count(key, "x".repeat(random.nextInt(50)));
                }
            }
            byte[] bytes = state.encode();
            GroupState read = GroupState.decode(bytes);
            assertArrayEquals(bytes, read.encode());
            assertEquals(bytes.length, read.sizeBytes());
            assertEquals(state.tuples(), read.tuples());
        }
    }

    /** By the layout: 12 + (4 + 1 + 8 + 4 + 4) bytes, and of each number 4 + 8 and its name; then the head alone. */
    @Test
    void numbersAreOfOneWindow() {
        GroupState state = new GroupState();
        assertTrue(state.in(3));
        assertEquals(1, state.add("A", "x", 1));
        assertEquals(3, state.add("A", "x", 2));
        assertEquals(8, state.put("A", "yz", 5));
        assertEquals(9, state.put("A", "yz", 6));
        assertEquals(4, state.tuples());
        assertEquals(12 + 21 + 2 * 12 + 1 + 2, state.sizeBytes());
        assertEquals(List.of(3.0, 6.0), state.numbers("A"));
        assertEquals(List.of(9.0), state.sums());
        assertFalse(state.in(2));
        assertEquals(4, state.tuples());
        assertTrue(state.in(4));
        assertEquals(0, state.tuples());
        assertEquals(12, state.sizeBytes());
        assertEquals(List.of(), state.numbers("A"));
    }

    @Test
    void bytesThatEndEarlyAreNoState() {
        GroupState state = new GroupState();
        state.count("A", "text");
        state.add("B", "sum", 1);
        byte[] bytes = state.encode();
        for (int length = 0; length < bytes.length; length++) {
            byte[] cut = Arrays.copyOf(bytes, length);
            assertThrows(MalformedMessageException.class, () -> GroupState.decode(cut));
        }
    }
}
