#!/usr/bin/env bash
# Runs a command with the CPU time that others leave, so that it disturbs no measurement.
#
# scripts/beside.sh COMMAND...
#
# In a control group with the smallest share of the CPU, where one can be made (root); else by nice. Nice alone
# is weak: Linux shares the CPU between sessions first, and every server of a test begins a session.
set -uo pipefail

for group in /sys/fs/cgroup/cpu/harness-beside /sys/fs/cgroup/harness-beside; do
  mkdir -p "$group" 2>/dev/null || continue
  if { [ -f "$group/cpu.shares" ] && echo 2 >"$group/cpu.shares"; } ||
    { [ -f "$group/cpu.idle" ] && echo 1 >"$group/cpu.idle"; }; then
    echo $$ >"$group/cgroup.procs" && exec "$@"
  fi
  rmdir "$group"
done
exec nice -n 19 "$@"
