#!/usr/bin/env bash
# Installs a wheel into an empty environment and uses it in an empty folder: list, check, run and report.
#
#   scripts/try_wheel.sh dist/storm_harness-0.1.0-py3-none-any.whl
set -euo pipefail
wheel=$(realpath "$1")
uv=$(realpath "$(dirname "$0")/../.venv/bin/uv")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
unset PYTHONPATH
"$uv" venv -q env
"$uv" pip install -q --python env/bin/python "$wheel"
harness=env/bin/harness
$harness --version
$harness list | grep -c "^experiments: .*quick" > list.txt
$harness schema cluster > cluster.json
$harness check quick
$harness run quick --set cluster.kind=simulator --set 'models=[no-change]' || [ $? = 3 ] # simulated, so never valid
run=$(echo runs/quick/*)
$harness report "$run" || [ $? = 3 ]
test -s "$run/report.html"
echo "the wheel works away from the checkout: $(du -sh env | cut -f1) in its environment"
