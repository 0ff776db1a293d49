package harness.storm.keygroups;

import java.io.Serializable;

/**
 * A keyed component, for those who send to it.
 *
 * @param component its name
 * @param groups its key groups
 * @param bootstrap Kafka's address
 * @param topic of its routing tables
 */
public record KeyedTarget(String component, int groups, String bootstrap, String topic) implements Serializable {}
