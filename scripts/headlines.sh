#!/bin/bash
# Measure anew what reports/headlines.md has; results are in runs/, tables on the terminal.
# One after the other, about five hours: nothing else should use the machine meanwhile. One that fails is named at the
# end, and does not keep the others from running. Clusters on hosts are made and ended here.
set -u
failed=()
try() { echo "== $*"; "$@" || failed+=("$*"); }
harness() { .venv/bin/harness "$@"; }
on_hosts() { # CLUSTER EXPERIMENT...
  local cluster=$1
  shift
  try harness provision "configs/clusters/$cluster.yaml"
  for experiment in "$@"; do try harness run "$experiment" --wait; done
  try harness deprovision "$cluster" --yes
}
on_hosts namespaces-5 schedulers-traffic schedulers-debs adapt-aniello
on_hosts namespaces-3 exhaustive-placements
for experiment in schedulers-unequal wikipedia-edits airline-delays albic-live balance-live adapt-rate adapt-aeolus \
  adapt-foreseen batched-chain helping; do
  try harness run "$experiment" --wait
done
# the last one's fit is what tuners find
try harness measure-messages --batches 1,100 --sizes 8,100 --work-us 0,10,30,100,300,1000 --rounds 3 --wait
try harness measure-messages --rounds 6 --wait
try harness helping-gain --out reports/figures
for bench in schedulers balancing_figures batch_grid layer caladrius_ramps serving; do
  try .venv/bin/python "bench/$bench.py"
done
for traffic in seasonal steep bursty; do try .venv/bin/python bench/played_forecasts.py "$traffic"; done
try .venv/bin/python -m harness.machine.sandbox where-allowed .venv/bin/python bench/applied_plan.py
for command in "${failed[@]}"; do echo "failed: $command" >&2; done
[ ${#failed[@]} -eq 0 ]
