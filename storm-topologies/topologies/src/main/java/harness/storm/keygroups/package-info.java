/**
 * Key groups: partitions of a keyed component's state, which move between its tasks while tuples flow.
 *
 * <p>A key belongs to a group by its hash, for good. A group belongs to a task by a {@link
 * harness.storm.keygroups.RoutingTable}, of which there is a new version for each change. What happens then:
 *
 * <ol>
 *   <li>Every task that sends to the component reads the new table from a Kafka topic ({@link
 *       harness.storm.keygroups.TableFeed}). From then on it routes by that table ({@link
 *       harness.storm.keygroups.TableGrouping}), and it sends the table to all tasks of the component first
 *       ({@link harness.storm.keygroups.RoutingBolt}). That is the marker: what follows was routed by the table.
 *   <li>The task that gets a group holds the group's tuples back until it has the state.
 *   <li>The task that had the group waits for the marker of every sender, since no more of the group's tuples can
 *       come then. It writes the state and sends it to the group's new task.
 *   <li>That task installs the state, and releases what it held back ({@link
 *       harness.storm.keygroups.GroupKeeper}).
 * </ol>
 *
 * <p>Markers and states overtake nothing: between two tasks Storm keeps the order in which one sent to the other.
 * So the tuples of a key that one task sent are processed in the order sent, each once. Senders go on meanwhile.
 */
package harness.storm.keygroups;
