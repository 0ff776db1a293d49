/**
 * Test topologies, built from one description.
 *
 * <p>A topology is data: components with roles, streams with groupings, and the workload's settings
 * ({@link harness.storm.topologies.TopologySettings}). {@link harness.storm.topologies.Main} reads
 * them, {@link harness.storm.topologies.TopologyFactory} builds the Storm topology.
 *
 * <p>Every tuple has three fields: {@code key} (String, what fields grouping hashes), {@code json}
 * (the {@link harness.storm.topologies.Message}) and {@code members} (byte[], the hop record of every
 * message that the tuple stands for, {@link harness.storm.topologies.Members}). Storm serialises all
 * three without further registrations.
 *
 * <p>A component with key groups has its state in them, which move between its tasks while tuples flow: see
 * {@code harness.storm.keygroups}.
 *
 * <p>Nothing here draws unseeded random numbers: keys, numbers of children, service times and a
 * window's choices are pure functions of the seed and of the tuple ({@link
 * harness.storm.topologies.Draw}).
 */
package harness.storm.topologies;
