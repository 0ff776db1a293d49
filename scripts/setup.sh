#!/usr/bin/env bash
# Make this checkout ready, in layers; idempotent, quick when nothing changed.
#
#   scripts/setup.sh        what every harness command needs, but for forecasts, provisioning, tests and benches
#   scripts/setup.sh dev    and what tests, lint and benches need
#   scripts/setup.sh deep   and the programs that only make test-deep and harness provision use
set -euo pipefail
cd "$(dirname "$0")/.."
layer=${1:-run}

say() { printf 'setup: %s\n' "$*"; }
has() { PATH="$PATH:/usr/sbin:/sbin" command -v "$1" >/dev/null 2>&1; }
can_install() { [ "$(id -u)" = 0 ] && has apt-get; }

# --- system tools -----------------------------------------------------------------------------------
java_ok() { has javac && [ "$(javac -version 2>&1 | sed -E 's/javac ([0-9]+).*/\1/')" -ge 17 ]; }
python_bin() { for p in python3.11 python3.12 python3.13 python3; do has "$p" && "$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' && { echo "$p"; return; }; done; }

needed=()
java_ok || needed+=(openjdk-17-jdk-headless)
has mvn || needed+=(maven)
has unshare || needed+=(util-linux)
PYTHON=$(python_bin || true)
[ -n "$PYTHON" ] || needed+=(python3 python3-venv)
if [ -n "$PYTHON" ] && ! "$PYTHON" -c 'import ensurepip' >/dev/null 2>&1; then needed+=(python3-venv); fi
# The report's tests open it in a browser; hosts that are namespaces of this machine need the others.
if [ "$layer" = deep ]; then
  deep=()
  has chromium || has google-chrome || deep+=(chromium fonts-dejavu-core)
  for pair in sshd:openssh-server runsvdir:runit sudo:sudo fping:fping nft:nftables ip:iproute2; do
    has "${pair%:*}" || deep+=("${pair#*:}")
  done
  # moves the clock of a worker, where a test asks for it
  compgen -G '/usr/lib/*/faketime/libfaketimeMT.so.1' >/dev/null || deep+=(libfaketime)
  if can_install; then
    needed+=("${deep[@]}")
  elif [ ${#deep[@]} -gt 0 ]; then
    say "no ${deep[*]}: the tests that need them will be skipped (Debian: sudo apt-get install ${deep[*]})"
  fi
fi
if [ ${#needed[@]} -gt 0 ]; then
  can_install || { say "missing: ${needed[*]}; install them (Debian: sudo apt-get install ${needed[*]}) and run make again" >&2; exit 2; }
  say "installing with apt: ${needed[*]}"
  apt-get update -qq
  # an sshd is wanted in our hosts, not on this machine: nothing that is installed is started
  policy=/usr/sbin/policy-rc.d
  if [ ! -e $policy ]; then
    printf '#!/bin/sh\nexit 101\n' > $policy && chmod 755 $policy
    trap 'rm -f /usr/sbin/policy-rc.d' EXIT
  fi
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${needed[@]}" >/dev/null
  case " ${needed[*]} " in *" openssh-server "*) systemctl disable --quiet ssh 2>/dev/null || true ;; esac
  PYTHON=$(python_bin) || { say "apt has no Python 3.11 or newer here; install one and run make again" >&2; exit 2; }
fi

# --- the topologies' jars, beside everything else -------------------------------------------------------
jars=harness/assets/jars
build_jars() {
  local want
  want=$(find storm-topologies -name pom.xml -o -path '*/src/main/*' -type f | sort | xargs cat | sha256sum | cut -d' ' -f1)
  if [ "$(cat $jars/.stamp 2>/dev/null)" = "$want" ]; then
    touch -c $jars/*.jar  # sources that a checkout wrote again are newer, and the same
    return 0
  fi
  say "building the topologies' jars with Maven"
  mvn -B -q -Dstyle.color=never -f storm-topologies/pom.xml -DskipTests package
  mkdir -p $jars
  for name in instrumentation topologies; do cp "storm-topologies/$name/target/$name-1.0.0.jar" "$jars/$name.jar"; done
  echo "$want" > $jars/.stamp
}
build_jars &
jars_pid=$!

# --- virtual environment from the lock files ------------------------------------------------------------
# uv installs; its own version and hashes are the developers' lock file's.
stamp() { cat "$@" 2>/dev/null | sha256sum | cut -d' ' -f1; }
lock=requirements.lock
[ "$layer" = run ] || lock=requirements-dev.lock
installed=$(stamp $lock pyproject.toml)
here=$PWD/.venv/bin/python  # commands name it: an environment that was moved or copied is made anew
if ! grep -qs "$installed" .venv/.stamp || ! grep -qsF "$here" .venv/bin/harness; then
  say "virtual environment in .venv from $lock"
  # anew, too, where a first try was cut short
  grep -qsF "$here" .venv/bin/pip || "$PYTHON" -m venv --clear .venv
  sed -n '/^uv==/,/^[^ ]/p' requirements-dev.lock | sed '1n; /^[^ ]/d' > .venv/uv.lock
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r .venv/uv.lock
  VIRTUAL_ENV=.venv .venv/bin/uv pip install --quiet --require-hashes -r $lock
  VIRTUAL_ENV=.venv .venv/bin/uv pip install --quiet --no-deps -e .
  # the developers' has all that measuring needs
  { echo "$installed"; [ "$layer" = run ] || stamp requirements.lock pyproject.toml; } > .venv/.stamp
fi
wait $jars_pid

# --- real servers (Storm, ZooKeeper, Kafka), and the models' machine code beside ------------------------
.venv/bin/harness doctor --install
