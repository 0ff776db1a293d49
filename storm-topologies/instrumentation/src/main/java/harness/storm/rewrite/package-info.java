/**
 * Rewriting of any captured topology: what runs between user code is changed, user code and what it sees are not.
 *
 * <p>Hidden streams are added beside the topology's own ({@link harness.storm.rewrite.HiddenStreams}), and wrappers around
 * spouts and bolts, outside those of {@code harness.storm.instrument}. Batching is the first use. What it means is described
 * in {@code docs/rewriting.md}. Depends on storm-client alone.
 */
package harness.storm.rewrite;
