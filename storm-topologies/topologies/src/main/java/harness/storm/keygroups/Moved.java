package harness.storm.keygroups;

/**
 * A migration of one group, as the task that got the group saw it.
 *
 * @param group that came
 * @param version of the table that moved it
 * @param stateBytes of the state as it travelled
 * @param serialiseNs that the task which had the group spent on writing the state
 * @param pauseNs from the first marker with that table until the state was installed: for so long tuples were held
 *     back; 0 where the state came first
 * @param held tuples that were held back
 */
public record Moved(int group, long version, long stateBytes, long serialiseNs, long pauseNs, int held) {}
