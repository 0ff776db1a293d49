package harness.storm.keygroups;

import java.io.Serializable;
import java.util.HashMap;

/**
 * A keyed component, for those who send to it.
 *
 * @param component its name
 * @param groups its key groups
 * @param broker settings by which a Kafka client reaches the broker
 * @param topic of its routing tables
 */
public record KeyedTarget(String component, int groups, HashMap<String, Object> broker, String topic) implements Serializable {}
