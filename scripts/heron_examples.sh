#!/bin/bash
# Build the jar of Heron's storm-compatibility examples that docs/rewriting.md names:
#   scripts/heron_examples.sh CHECKOUT [COMMIT]
# CHECKOUT is a clone of https://github.com/apache/incubator-heron. No registry has these examples. The folder's
# other topologies import what Storm 2.8.3 no longer has; these four compile unchanged against it.
set -euo pipefail
checkout=${1:?usage: scripts/heron_examples.sh CHECKOUT [COMMIT]}
commit=${2:-HEAD}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/storm-harness
lib=$(find "$cache" -type d -path '*/storm/lib' 2>/dev/null | tail -1) # with Nimbus' part, LocalCluster
[ -n "$lib" ] || { echo "the servers' jars are not there yet: run harness doctor --install" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
folder=storm-compatibility-examples/v0.10.2/src/java
git -C "$checkout" archive "$commit" "$folder" | tar x -C "$work"
mkdir -p "$work/classes" "$cache/jars"
examples=$work/$folder/org/apache/storm/examples
javac -nowarn -proc:none -d "$work/classes" -cp "$lib/*" -sourcepath "$work/$folder" \
  "$examples"/{SlidingWindow,Exclamation,SentenceWordCount,CustomGrouping}Topology.java
jar=$cache/jars/heron-examples-$(git -C "$checkout" rev-parse --short=8 "$commit").jar
jar cf "$jar" -C "$work/classes" .
echo "$jar"
