#!/usr/bin/env bash
# Runs a command with a whole share of the CPU, or with what others leave, so that it disturbs no measurement.
#
# scripts/cpu_share.sh whole|rest COMMAND...
#
# In a control group, where one can be made (root); else the rest is by nice. Nice alone is weak: Linux shares
# the CPU between sessions first, every server of a test begins a session, and servers give way as far as can be.
set -uo pipefail

share=$1
shift
for group in /sys/fs/cgroup/cpu/harness-$share /sys/fs/cgroup/harness-$share; do
  mkdir -p "$group" 2>/dev/null || continue
  if [ "$share" = whole ] || { [ -f "$group/cpu.shares" ] && echo 2 >"$group/cpu.shares"; } ||
    { [ -f "$group/cpu.idle" ] && echo 1 >"$group/cpu.idle"; }; then
    echo $$ >"$group/cgroup.procs" && exec "$@"
  fi
  rmdir "$group"
done
[ "$share" = whole ] || exec nice -n 19 "$@"
exec "$@"
