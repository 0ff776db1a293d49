#!/bin/bash
# Build Storm's example topologies as they are at a tag, for configs/experiments/jars:
#   scripts/storm_examples.sh CHECKOUT [TAG]
# CHECKOUT is a clone of https://github.com/apache/storm. Storm publishes its examples no more (the last
# storm-starter on Maven Central is 1.2.2), and building them with Storm's own poms builds half of Storm.
# Here javac compiles them unchanged against the Storm that the harness runs.
set -euo pipefail
checkout=${1:?usage: scripts/storm_examples.sh CHECKOUT [TAG]}
tag=${2:-v2.8.3}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/storm-harness
lib=$(ls -d "$cache"/servers/*/storm/lib-worker 2>/dev/null | tail -1)
[ -n "$lib" ] || lib=$(find "$cache" -type d -name lib-worker | tail -1)
[ -n "$lib" ] || { echo "the servers' jars are not there yet: run harness doctor --install" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git -C "$checkout" archive "$tag" examples/storm-starter examples/storm-perf \
  storm-multilang/python/src/main/resources | tar x -C "$work"
mkdir -p "$cache/jars"
guava=$(git -C "$checkout" show "$tag:pom.xml" | sed -n 's|.*<guava.version>\(.*\)</guava.version>.*|\1|p')
mvn -q -B org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy -DoutputDirectory="$work/deps" \
  -Dartifact="com.google.guava:guava:$guava"

# build NAME SOURCES RESOURCES CLASS...: the classes, what they need of the same sources, and nothing else
build() {
  local name=$1 sources=$work/examples/$2 resources=$work/examples/$3 out=$work/classes-$1
  shift 3
  mkdir -p "$out"
  javac -nowarn -proc:none -d "$out" -cp "$lib/*:$work/deps/*" -sourcepath "$sources" \
    $(for class in "$@"; do echo "$sources/${class//.//}.java"; done) 2>&1 | grep -v '^Note:' || true
  if [ -d "$resources" ]; then # what bolts in Python run
    cp -r "$resources/." "$work/storm-multilang/python/src/main/resources/." "$out"
  fi
  (cd "$out" && jar xf "$work"/deps/guava-*.jar com) # Storm's poms put it in too
  jar cf "$cache/jars/$name-${tag#v}.jar" -C "$out" .
  echo "$cache/jars/$name-${tag#v}.jar"
}

s=org.apache.storm.starter
build storm-starter storm-starter/src/jvm storm-starter/multilang $s.FastWordCountTopology \
  $s.InOrderDeliveryTest $s.SlidingWindowTopology $s.SlidingTupleTsTopology $s.StatefulTopology \
  $s.StatefulWindowingTopology $s.RollingTopWords $s.ExclamationTopology $s.WordCountTopology
p=org.apache.storm.perf
build storm-perf storm-perf/src/main/java none $p.ConstSpoutIdBoltNullBoltTopo $p.ConstSpoutNullBoltTopo \
  $p.LowThroughputTopo
