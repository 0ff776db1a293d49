package harness.storm.topologies;

import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;

/**
 * The {@code members} field on the wire: members one after the other, big-endian, with no count.
 *
 * <pre>
 * member: i64 message_id, i32 child, i64 entered_ns, u16 number of hops, hops
 * hop:    i32 task, i64 received_ns, i64 emitted_ns
 * </pre>
 *
 * <p>An ordinary tuple has one member, a window's output has one for each tuple that is new in the
 * window. It can be empty: a sliding window over time may fire with old tuples only.
 */
final class Members {
    private static final int HEAD_BYTES = 8 + 4 + 8 + 2;
    private static final int HOP_BYTES = 4 + 8 + 8;
    private static final int MAX_HOPS = 0xFFFF;

    private Members() {}

    static byte[] encode(List<Member> members) {
        ByteBuffer out = ByteBuffer.allocate(sizeBytes(members));
        put(members, out);
        return out.array();
    }

    static int sizeBytes(List<Member> members) {
        int size = 0;
        for (Member member : members) {
            size += HEAD_BYTES + HOP_BYTES * member.hops().size();
        }
        return size;
    }

    static void put(List<Member> members, ByteBuffer out) {
        for (Member member : members) {
            if (member.hops().size() > MAX_HOPS) {
                throw new IllegalArgumentException("member " + member.label() + " has too many hops");
            }
            out.putLong(member.messageId()).putInt(member.child()).putLong(member.enteredNs());
            out.putShort((short) member.hops().size());
            for (Hop hop : member.hops()) {
                out.putInt(hop.task()).putLong(hop.receivedNs()).putLong(hop.emittedNs());
            }
        }
    }

    /**
     * Reads the field.
     *
     * @throws MalformedMessageException when the bytes end within a member
     */
    static List<Member> decode(byte[] bytes) throws MalformedMessageException {
        ByteBuffer in = ByteBuffer.wrap(bytes);
        List<Member> members = new ArrayList<>();
        try {
            while (in.hasRemaining()) {
                members.add(get(in));
            }
        } catch (BufferUnderflowException e) {
            throw new MalformedMessageException("a tuple's members end within a member", e);
        }
        return members;
    }

    private static Member get(ByteBuffer in) {
        long messageId = in.getLong();
        int child = in.getInt();
        long enteredNs = in.getLong();
        int count = Short.toUnsignedInt(in.getShort());
        List<Hop> hops = new ArrayList<>(count);
        for (int i = 0; i < count; i++) {
            hops.add(new Hop(in.getInt(), in.getLong(), in.getLong()));
        }
        return new Member(messageId, child, enteredNs, hops);
    }

    /** All members after one more component that treated them alike. */
    static List<Member> via(List<Member> members, Hop hop) {
        return members.stream().map(m -> m.via(hop)).toList();
    }
}
