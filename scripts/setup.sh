#!/usr/bin/env bash
# Make this checkout ready: tools, virtual environment, jars, servers. Idempotent; quick when nothing changed.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*"; }

# --- system tools -----------------------------------------------------------------------------------
java_ok() { command -v javac >/dev/null 2>&1 && [ "$(javac -version 2>&1 | sed -E 's/javac ([0-9]+).*/\1/')" -ge 17 ]; }
python_bin() { for p in python3.11 python3.12 python3.13 python3; do command -v "$p" >/dev/null 2>&1 && "$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' && { echo "$p"; return; }; done; }

missing=()
java_ok || missing+=(openjdk-17-jdk-headless)
command -v mvn >/dev/null 2>&1 || missing+=(maven)
command -v unshare >/dev/null 2>&1 || missing+=(util-linux)
PYTHON=$(python_bin || true)
[ -n "$PYTHON" ] || { missing+=(python3 python3-venv); }
if [ -n "$PYTHON" ] && ! "$PYTHON" -c 'import ensurepip' >/dev/null 2>&1; then missing+=(python3-venv); fi
# The report's tests open it in a browser; nothing else needs one.
browser=()
command -v chromium >/dev/null 2>&1 || command -v google-chrome >/dev/null 2>&1 || browser+=(chromium fonts-dejavu-core)
if [ ${#browser[@]} -gt 0 ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
  missing+=("${browser[@]}")
elif [ ${#browser[@]} -gt 0 ]; then
  say "no chromium: the report's browser tests will be skipped (Debian: sudo apt-get install ${browser[*]})"
fi
# Hosts that are namespaces of this machine (harness provision) need root, and these.
hosts=()
for pair in sshd:openssh-server runsvdir:runit sudo:sudo fping:fping nft:nftables ip:iproute2; do
  PATH="$PATH:/usr/sbin:/sbin" command -v "${pair%:*}" >/dev/null 2>&1 || hosts+=("${pair#*:}")
done
if [ ${#hosts[@]} -gt 0 ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
  missing+=("${hosts[@]}")
elif [ ${#hosts[@]} -gt 0 ]; then
  say "no ${hosts[*]}: hosts of kind local and their tests will be skipped (Debian: sudo apt-get install ${hosts[*]})"
fi
if [ ${#missing[@]} -gt 0 ]; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    say "installing with apt: ${missing[*]}"
    apt-get update -qq
    # an sshd is wanted in our hosts, not on this machine: nothing that is installed is started
    policy=/usr/sbin/policy-rc.d
    if [ ! -e $policy ]; then
      printf '#!/bin/sh\nexit 101\n' > $policy && chmod 755 $policy
      trap 'rm -f /usr/sbin/policy-rc.d' EXIT
    fi
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
    case " ${missing[*]} " in *" openssh-server "*) systemctl disable --quiet ssh 2>/dev/null || true ;; esac
    PYTHON=$(python_bin) || { say "apt has no Python 3.11 or newer here; install one and run make again" >&2; exit 2; }
  else
    say "missing: ${missing[*]}; install them (Debian: sudo apt-get install ${missing[*]}) and run make again" >&2
    exit 2
  fi
fi

# --- virtual environment from the lock file -----------------------------------------------------------
stamp() { cat "$@" 2>/dev/null | sha256sum | cut -d' ' -f1; }
want=$(stamp requirements.lock pyproject.toml)
if [ "$(cat .venv/.stamp 2>/dev/null)" != "$want" ]; then
  say "virtual environment in .venv from requirements.lock"
  [ -x .venv/bin/pip ] || "$PYTHON" -m venv --clear .venv  # anew, where a first try was cut short
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
  echo "$want" > .venv/.stamp
fi

# --- the topologies' jars -----------------------------------------------------------------------------
jars=harness/assets/jars
want=$(find storm-topologies -name pom.xml -o -path '*/src/main/*' -type f | sort | xargs cat | sha256sum | cut -d' ' -f1)
if [ "$(cat $jars/.stamp 2>/dev/null)" != "$want" ]; then
  say "building the topologies' jars with Maven"
  mvn -B -q -f storm-topologies/pom.xml -DskipTests package
  mkdir -p $jars
  for name in instrumentation topologies; do cp "storm-topologies/$name/target/$name-1.0.0.jar" "$jars/$name.jar"; done
  echo "$want" > $jars/.stamp
fi

# --- real servers: Storm, ZooKeeper, Kafka --------------------------------------------------------------
.venv/bin/harness doctor --install
