#!/usr/bin/env bash
# Runs pytest and tries the files of the few tests that failed once more, alone; a test that fails twice fails.
#
# scripts/tests.sh GROUP PYTEST-ARGUMENTS...
#
# Tests here start real clusters and measure on them, and the machine may be shared: what others do in that
# minute can spoil a measurement. Both tries are printed, each with its JUnit file in build/tests, so that a
# test which needs its second try can be found and mended. Where many fail, nothing is tried again.
set -uo pipefail

readonly group=$1 results=build/tests most=8
shift
readonly cache=$results/cache-$group
rm -rf "$cache" "$results/$group-again.xml"

tests() {
  .venv/bin/python -m pytest -o cache_dir="$PWD/$cache" --junitxml="$results/$1.xml" "${@:2}"
}

tests "$group" "$@"
status=$?
# 1: tests failed. All else is an interruption or a mistake of the call, and no second try mends it.
((status == 1)) || exit "$status"

failed=$(.venv/bin/python -c 'import json, sys; print(*json.load(open(sys.argv[1])), sep="\n")' \
  "$cache/v/cache/lastfailed") || exit 1
count=$(wc -l <<<"$failed")
((count <= most)) || exit 1
# Their whole files: a test may take things as those before it left them.
mapfile -t files < <(cut -d: -f1 <<<"$failed" | sort -u)
mapfile -t options < <(printf '%s\n' "$@" | grep -v '^tests/')
printf 'tried once more, alone, with their files (%s):\n%s\n' "$count" "$failed"
tests "$group-again" "${options[@]}" "${files[@]}"
