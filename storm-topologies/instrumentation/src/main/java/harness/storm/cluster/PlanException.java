package harness.storm.cluster;

/** A plan that is not applied, and the reason in one line. */
final class PlanException extends Exception {
    private static final long serialVersionUID = 1;

    PlanException(String reason) {
        super(reason.replaceAll("\\s+", " ").strip(), null, false, false);
    }
}
