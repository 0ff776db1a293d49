/** The harness's own parts of Storm's daemons: where they listen, and where Nimbus puts executors. */
package harness.storm.cluster;
