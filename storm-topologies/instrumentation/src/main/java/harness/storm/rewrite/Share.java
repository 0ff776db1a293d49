package harness.storm.rewrite;

/**
 * Deals a share of things exactly, by error diffusion: of any n in a row, as many are chosen as the shares asked for add up
 * to, within one. Not safe for several threads.
 */
final class Share {
    private static final double ROUNDING = 1e-9;

    private double due;

    /** Whether the next one is chosen. */
    boolean next(double share) {
        due += share;
        if (due < 1 - ROUNDING) {
            return false;
        }
        due -= 1;
        return true;
    }
}
