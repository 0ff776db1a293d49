package harness.storm.rewrite;

import java.util.concurrent.ScheduledThreadPoolExecutor;

/** The worker's thread that lets batches of bolts leave. */
final class Timer {
    static final ScheduledThreadPoolExecutor THREAD = new ScheduledThreadPoolExecutor(1, task -> {
        Thread thread = new Thread(task, "harness batches");
        thread.setDaemon(true);
        return thread;
    });

    private Timer() {
    }
}
