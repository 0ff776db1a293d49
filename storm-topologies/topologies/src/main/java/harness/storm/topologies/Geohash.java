package harness.storm.topologies;

/**
 * The cell of a place by the public-domain code of G. Niemeyer (geohash.org): 5 bits a character, longitude first.
 *
 * <p>Each bit halves a range of degrees and says in which half the place is; the upper half has the middle. Python's is
 * {@code harness.topologies.geohash}.
 */
final class Geohash {
    /** So many characters are nine decimals of a degree. */
    static final int MOST_CHARACTERS = 12;

    private static final String DIGITS = "0123456789bcdefghjkmnpqrstuvwxyz";

    private Geohash() {}

    /** The cell's name. */
    static String of(double lat, double lon, int characters) {
        double[] low = {-180, -90};
        double[] high = {180, 90};
        double[] at = {lon, lat};
        StringBuilder name = new StringBuilder(characters);
        int bits = 0;
        for (int i = 0; i < 5 * characters; i++) {
            int axis = i % 2;
            double middle = (low[axis] + high[axis]) / 2;
            boolean upper = at[axis] >= middle;
            (upper ? low : high)[axis] = middle;
            bits = bits << 1 | (upper ? 1 : 0);
            if (i % 5 == 4) {
                name.append(DIGITS.charAt(bits));
                bits = 0;
            }
        }
        return name.toString();
    }
}
