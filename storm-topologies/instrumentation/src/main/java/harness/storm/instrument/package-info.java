/**
 * Instrumentation of any Storm topology from the outside: every bolt and spout is replaced by a wrapper that counts and
 * times, and a metrics consumer sends what was counted as InfluxDB line protocol over HTTP.
 *
 * <p>The tables that come of it are described in {@code docs/run-directory.md}. Depends on storm-client alone.
 */
package harness.storm.instrument;
