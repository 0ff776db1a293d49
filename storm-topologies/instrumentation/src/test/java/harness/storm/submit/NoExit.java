package harness.storm.submit;

import java.security.Permission;
import java.security.Policy;
import java.security.ProtectionDomain;

/**
 * Keeps this JVM alive when Storm gives a worker up.
 *
 * <p>A cluster in one JVM shuts its workers' executors down before their timers, and a timer that fires in between fails and
 * ends the process (Storm 2.8.3, {@code Worker.shutdown}). On a real cluster that is the worker's own process, here it is the
 * test's. A worker that is given up while it is needed still fails its test: what it does not process is never acked.
 */
@SuppressWarnings("removal") // Java 17 has no other way to refuse an exit
final class NoExit extends SecurityManager {
    /** The status of {@code Utils.exitProcess} in a worker's timers. */
    private static final int GIVEN_UP = 20;

    static void install() {
        Policy.setPolicy(new Policy() {
            @Override
            public boolean implies(ProtectionDomain domain, Permission permission) {
                return true;
            }
        });
        System.setSecurityManager(new NoExit());
    }

    @Override
    public void checkExit(int status) {
        if (status == GIVEN_UP) {
            throw new SecurityException("a worker's timer failed, and would have ended the tests");
        }
    }

    @Override
    public void checkPermission(Permission permission) {
        // all else is allowed
    }
}
