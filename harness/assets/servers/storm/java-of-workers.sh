#!/bin/sh
# What supervisors take for "java". Storm starts a worker as the child of a second Java process that only
# copies the worker's output into its log; on few cores that makes a restart a third longer, and it stays
# in memory. Here a worker is started by itself; its output, with a line for every start, goes to a file of
# its slot, where harness/storm/worker_output.py finds why one does not come up.
if [ "$HARNESS_JAVA" = "" ]; then
  echo "HARNESS_JAVA, the real java, is not set" >&2
  exit 1
fi
for word in "$@"; do
  if [ "$word" = org.apache.storm.LogWriter ]; then
    while [ "$1" != org.apache.storm.LogWriter ]; do shift; done
    shift 2 # the class, and the java it would have started
    break
  fi
done
worker=no
for word in "$@"; do
  case "$word" in
    -Dworker.port=*)
      exec >> "$HARNESS_WORKER_OUTPUT/worker-${word#*=}.log" 2>&1
      echo "worker started $(date '+%Y-%m-%d %H:%M:%S') process $$"
      worker=yes
      break
      ;;
  esac
done
# where a fault of this run may move the time of day of the node's workers (harness/backends/worker_clocks.py)
if [ "$worker" = yes ] && [ -f "${HARNESS_WORKER_CLOCK:-}/moved_s" ]; then
  # the library would end here if one that was killed as the process of this number had left these
  rm -f "/dev/shm/sem.faketime_sem_$$" "/dev/shm/faketime_shm_$$"
  # without the fix: it moves what a thread waits for on the monotonic clock, too
  set -- env "LD_PRELOAD=$HARNESS_WORKER_CLOCK/libfaketimeMT.so.1" \
    "FAKETIME_TIMESTAMP_FILE=$HARNESS_WORKER_CLOCK/moved_s" FAKETIME_CACHE_DURATION=0 \
    FAKETIME_DONT_FAKE_MONOTONIC=1 FAKETIME_FORCE_MONOTONIC_FIX=0 NO_FAKE_STAT=1 "$HARNESS_JAVA" "$@"
else
  set -- "$HARNESS_JAVA" "$@"
fi
# where no sandbox ends a worker together with its supervisor, Linux does
if [ "$HARNESS_DIES_WITH_PARENT" != "" ]; then
  exec "$HARNESS_DIES_WITH_PARENT" --pdeathsig KILL "$@"
fi
exec "$@"
