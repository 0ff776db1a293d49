package harness.storm.topologies;

/**
 * Random numbers for one purpose and one tuple, as a pure function of what names them.
 *
 * <p>A run with the same seed therefore gives every message the same keys, children and service
 * times, in whatever order and on whatever executor they are processed.
 *
 * <p>Definition, for whoever mirrors it (all arithmetic on 64 bits, wrapping, {@code >>>} unsigned):
 *
 * <pre>
 * GAMMA  = 0x9E3779B97F4A7C15
 * mix(z) = z = (z ^ z >>> 30) * 0xBF58476D1CE4E5B9
 *          z = (z ^ z >>> 27) * 0x94D049BB133111EB
 *          z ^ z >>> 31                                  (the finaliser of splitmix64)
 * bits(index): h = mix(seed + GAMMA)
 *              for v in purpose code, message_id, child, hop, index: h = mix((h ^ v) + GAMMA)
 * uniform(index) = (bits(index) >>> 11) * 2^-53          in [0, 1)
 * normal(index)  = sqrt(-2 ln(1 - uniform(2 index))) * cos(2 pi uniform(2 index + 1))
 * </pre>
 *
 * @param seed the workload's seed
 * @param purpose what the numbers are for; different purposes are independent
 * @param messageId the message
 * @param child which of the message's children, 0 where nothing multiplies
 * @param hop how many components the tuple has passed before this one (0 in the spout)
 */
record Draw(long seed, Purpose purpose, long messageId, int child, int hop) {

    /** What a number is drawn for; the code is part of the definition above. */
    enum Purpose {
        KEY(1),
        CHILDREN(2),
        SERVICE(3),
        PATH(4),
        BASIS(5),
        KEPT(6),
        FORWARDED(7);

        private final int code;

        Purpose(int code) {
            this.code = code;
        }
    }

    private static final long GAMMA = 0x9E3779B97F4A7C15L;

    /** The numbers for {@code purpose} of a tuple with this message. */
    static Draw of(long seed, Purpose purpose, Message message) {
        return new Draw(seed, purpose, message.messageId(), message.child(), message.hop());
    }

    /** 64 uniformly distributed bits. */
    long bits(int index) {
        long hash = mix(seed + GAMMA);
        hash = mix((hash ^ purpose.code) + GAMMA);
        hash = mix((hash ^ messageId) + GAMMA);
        hash = mix((hash ^ child) + GAMMA);
        hash = mix((hash ^ hop) + GAMMA);
        return mix((hash ^ index) + GAMMA);
    }

    /** A number from [0, 1). */
    double uniform(int index) {
        return (bits(index) >>> 11) * 0x1p-53;
    }

    /** A number from the standard normal distribution (Box-Muller). */
    double normal(int index) {
        double radius = Math.sqrt(-2 * Math.log(1 - uniform(2 * index)));
        return radius * Math.cos(2 * Math.PI * uniform(2 * index + 1));
    }

    /** A whole number from 0 to {@code bound - 1}, each as likely. */
    int below(int bound, int index) {
        return (int) (uniform(index) * bound);
    }

    private static long mix(long value) {
        long z = value;
        z = (z ^ (z >>> 30)) * 0xBF58476D1CE4E5B9L;
        z = (z ^ (z >>> 27)) * 0x94D049BB133111EBL;
        return z ^ (z >>> 31);
    }
}
