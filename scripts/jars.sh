#!/bin/bash
# Run the experiments on Storm's own examples one after another, and write reports/jars.md from the newest run of each:
#   scripts/jars.sh [NAME...]     all of configs/experiments/jars, or some of them; about 6 min each
# scripts/storm_examples.sh CHECKOUT builds their jars. A run that is invalid is in the table, too; one that cannot
# be measured is named here and does not keep the others from being run.
set -uo pipefail
cd "$(dirname "$0")/.."
python=.venv/bin/python
[ -x $python ] || python=python3
names=("$@")
[ ${#names[@]} -gt 0 ] || names=($(basename -s .yaml configs/experiments/jars/*.yaml))
failed=()
trap 'exit 130' INT
for name in "${names[@]}"; do
  $python -m harness run "configs/experiments/jars/$name.yaml"
  status=$?
  case $status in
    0 | 3 | 4) ;; # measured: valid, invalid, unknown
    *) failed+=("$name (status $status)") ;;
  esac
done
runs=()
for file in configs/experiments/jars/*.yaml; do
  verdicts=(runs/"$(basename -s .yaml "$file")"/*/verdict.json)
  last=${verdicts[-1]}
  [ -f "$last" ] && runs+=("$(dirname "$last")")
done
if [ ${#runs[@]} -gt 0 ]; then
  $python scripts/jars_table.py "${runs[@]}" >reports/jars.md.new && mv reports/jars.md.new reports/jars.md
  echo "reports/jars.md: ${#runs[@]} runs"
fi
[ ${#failed[@]} -eq 0 ] || {
  printf 'not measured: %s\n' "${failed[@]}" >&2
  exit 1
}
