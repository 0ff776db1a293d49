/** What a local cluster needs of Java itself. */
package harness.storm.cluster;
