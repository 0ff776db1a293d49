package harness.storm.topologies;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;

class MembersTest {

    /** Written out by hand from the layout in Members' documentation. */
    @Test
    void layout() {
        Member member = new Member(1, 2, 3, List.of(new Hop(4, 5, 6)));
        String expected = "0000000000000001" + "00000002" + "0000000000000003" + "0001"
                + "00000004" + "0000000000000005" + "0000000000000006";
        assertEquals(expected, HexFormat.of().formatHex(Members.encode(List.of(member))));
    }

    @Test
    void whatWasWrittenIsRead() throws MalformedMessageException {
        Random random = new Random(3);
        for (int i = 0; i < 2_000; i++) {
            List<Member> members = members(random);
            byte[] bytes = Members.encode(members);
            assertEquals(Members.sizeBytes(members), bytes.length);
            assertEquals(members, Members.decode(bytes));
        }
    }

    @Test
    void aHopMoreIsTwentyBytesMoreForEachMember() {
        Random random = new Random(4);
        Hop hop = new Hop(9, 100, 200);
        for (int i = 0; i < 500; i++) {
            List<Member> members = members(random);
            List<Member> longer = Members.via(members, hop);
            assertEquals(Members.sizeBytes(members) + 20 * members.size(), Members.sizeBytes(longer));
            for (int m = 0; m < members.size(); m++) {
                List<Hop> hops = new ArrayList<>(members.get(m).hops());
                hops.add(hop);
                assertEquals(hops, longer.get(m).hops());
            }
        }
    }

    @Test
    void bytesThatEndWithinAMemberAreRefused() {
        byte[] bytes = Members.encode(List.of(new Member(1, 2, 3, List.of(new Hop(4, 5, 6)))));
        for (int length = 1; length < bytes.length; length++) {
            byte[] cut = Arrays.copyOf(bytes, length);
            assertThrows(MalformedMessageException.class, () -> Members.decode(cut));
        }
    }

    @Test
    void noMembersAreNoBytes() throws MalformedMessageException {
        assertArrayEquals(new byte[0], Members.encode(List.of()));
        assertEquals(List.of(), Members.decode(new byte[0]));
    }

    @Test
    void moreHopsThanTheCountHoldsAreRefused() throws MalformedMessageException {
        List<Hop> hops = Collections.nCopies(0x10000, new Hop(1, 2, 3));
        List<Member> tooLong = List.of(new Member(1, 0, 3, hops));
        assertThrows(IllegalArgumentException.class, () -> Members.encode(tooLong));
        List<Member> longest = List.of(new Member(1, 0, 3, hops.subList(1, hops.size())));
        assertEquals(longest, Members.decode(Members.encode(longest)));
    }

    private static List<Member> members(Random random) {
        List<Member> members = new ArrayList<>();
        for (int m = random.nextInt(6); m > 0; m--) {
            List<Hop> hops = new ArrayList<>();
            for (int h = random.nextInt(5); h > 0; h--) {
                hops.add(new Hop(random.nextInt(), random.nextLong(), random.nextLong()));
            }
            members.add(new Member(random.nextLong(), random.nextInt(), random.nextLong(), hops));
        }
        return members;
    }
}
