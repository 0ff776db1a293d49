#!/usr/bin/env bash
# Runs a command with a whole share of the CPU, or with what others leave, so that it disturbs no measurement.
#
# scripts/cpu_share.sh whole|rest COMMAND...
#
# In a control group, where one can be made (root); else the rest is by nice. Nice alone is weak: outside of
# groups Linux shares the CPU between sessions first, every server of a test begins a session, and servers give
# way as far as can be. With version 2 of control groups what measures is in a group already.
set -uo pipefail

share=$1
shift
enter() { echo $$ >"$1/cgroup.procs"; }
first=/sys/fs/cgroup/cpu/harness-$share
second=/sys/fs/cgroup/harness-$share
if [ "$share" = whole ]; then
  mkdir -p "$first" 2>/dev/null && enter "$first"
  exec "$@"
fi
mkdir -p "$first" 2>/dev/null && echo 2 >"$first/cpu.shares" && enter "$first" && exec "$@"
mkdir -p "$second" 2>/dev/null && echo 1 >"$second/cpu.idle" && enter "$second" && exec "$@"
exec nice -n 19 "$@"
