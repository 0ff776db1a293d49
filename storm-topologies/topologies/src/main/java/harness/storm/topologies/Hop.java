package harness.storm.topologies;

/**
 * One component that a message passed.
 *
 * @param task the Storm task that processed it
 * @param receivedNs nanoTime when the task was given the tuple; in the spout, the entry time
 * @param emittedNs nanoTime when the task emitted what it made of it; in a sink, just before the send
 */
record Hop(int task, long receivedNs, long emittedNs) {}
