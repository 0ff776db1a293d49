/** Submission of any topology's jar to a real Nimbus, instrumented on the way. */
package harness.storm.submit;
