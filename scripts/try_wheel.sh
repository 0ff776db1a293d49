#!/usr/bin/env bash
# Installs a wheel into an empty environment and uses it in an empty folder: list, check, run and report.
#
#   scripts/try_wheel.sh dist/storm_harness-0.1.0-py3-none-any.whl
#
# The run is a real one, on a Storm cluster of this machine, and takes about five minutes.
set -euo pipefail
wheel=$(realpath "$1")
uv=$(realpath "$(dirname "$0")/../.venv/bin/uv")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
unset PYTHONPATH

# A machine with other work may make a run invalid (3) or leave it unknown (4); all else is a failure.
judged() { "$@" || case $? in 3 | 4) ;; *) return 1 ;; esac; }

"$uv" venv -q env
"$uv" pip install -q --python env/bin/python "$wheel"
harness=env/bin/harness
$harness --version
$harness list | grep "^experiments: .*quick"
$harness schema cluster > cluster.json
$harness check quick
judged $harness run quick --wait # for whoever else measures here
run=$(echo runs/quick/*)
grep -q '"measured": true' "$run/summary.json"
rm "$run/report.html"
judged $harness report "$run"
test -s "$run/report.html"
echo "the wheel works away from the checkout: $(du -sh env | cut -f1) in its environment"
