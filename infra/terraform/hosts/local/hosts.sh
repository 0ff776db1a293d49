#!/usr/bin/env bash
# Hosts that are namespaces of this machine. Called by main.tf, which hands everything over in the environment:
#
#   sandbox-up | sandbox-down   FOLDER GATEWAY       one private world for all hosts, and its end
#   host-up | host-down         FOLDER NAME ...      one host in it
#
# The sandbox has its own network (a bridge), processes and mounts; a host has its own of each within it, and a
# root of its own: this machine's root below, all that is written in memory above. Nothing of either is reachable
# from the machine's network, and when the sandbox's first process ends, the kernel ends all of it. Who holds the
# lock file of a sandbox or host is alive.
set -euo pipefail

export PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
SELF=$(realpath "$0")
UP_WITHIN_S=180

die() { echo "$*" >&2; exit 1; }

# --- the sandbox --------------------------------------------------------------------------------------

sandbox_up() {
  [ "$(id -u)" = 0 ] || die "hosts of kind local need root: namespaces with users of their own"
  for tool in unshare nsenter ip flock runsvdir sudo sshd; do
    command -v "$tool" >/dev/null || die "there is no $tool here: make setup installs it"
  done
  sandbox_down
  mkdir -p "$FOLDER/hosts"
  exec 9> "$FOLDER/sandbox.lock"
  flock 9
  setsid unshare --net --mount --uts --ipc --pid --fork --kill-child bash "$SELF" sandbox-init \
    < /dev/null > "$FOLDER/sandbox.log" 2>&1 &
  local top=$!
  exec 9>&-
  wait_for "$top" "$FOLDER/sandbox.log" test -e "$FOLDER/sandbox.ready"
}

sandbox_init() { # the first process in there
  read -r outside _ < /proc/self/stat # /proc is still the machine's, and so is the number
  mount -t proc proc /proc
  mount -t tmpfs -o mode=755 tmpfs /run
  mkdir /run/hosts
  ip link set lo up
  ip link add hosts0 type bridge
  ip address add "$GATEWAY" dev hosts0
  ip link set hosts0 up
  echo "$outside" > "$FOLDER/sandbox.pid"
  touch "$FOLDER/sandbox.ready"
  while :; do # reaps whatever is left to it
    sleep 1000 &
    wait $! || true
  done
}

sandbox_down() {
  [ -e "$FOLDER/sandbox.lock" ] || return 0
  if ! flock --shared --nonblock "$FOLDER/sandbox.lock" true; then
    [ ! -e "$FOLDER/sandbox.pid" ] || kill -KILL "$(cat "$FOLDER/sandbox.pid")"
    flock --shared --wait 30 "$FOLDER/sandbox.lock" true || die "the sandbox in $FOLDER does not end"
  fi
  rm -rf "$FOLDER"/sandbox.* "$FOLDER/hosts"
}

sandbox_alive() { [ -e "$FOLDER/sandbox.lock" ] && ! flock --shared --nonblock "$FOLDER/sandbox.lock" true; }

in_sandbox() { # run a part of this script in there
  nsenter --target "$(cat "$FOLDER/sandbox.pid")" --net --mount --uts --ipc --pid bash "$SELF" "$@"
}

# --- a host -------------------------------------------------------------------------------------------

host_up() {
  sandbox_alive || die "the sandbox in $FOLDER is gone"
  in_sandbox host-start
}

host_down() {
  ! sandbox_alive || in_sandbox host-stop
}

host_start() { # in the sandbox
  host_stop
  ip netns add "$NAME"
  ip link add "v-$NAME" type veth peer name eth0 netns "$NAME"
  ip link set "v-$NAME" master hosts0 up
  ip -netns "$NAME" address add "$ADDRESS" dev eth0
  ip -netns "$NAME" link set eth0 up
  ip -netns "$NAME" link set lo up
  exec 9> "$FOLDER/hosts/$NAME.lock"
  flock 9
  setsid nsenter --net="/run/netns/$NAME" unshare --mount --uts --ipc --pid --fork --kill-child \
    bash "$SELF" host-init < /dev/null > "$FOLDER/hosts/$NAME.log" 2>&1 &
  local top=$!
  exec 9>&-
  wait_for "$top" "$FOLDER/hosts/$NAME.log" ssh_answers "${ADDRESS%/*}"
}

host_stop() { # in the sandbox
  [ -e "/run/netns/$NAME" ] || return 0
  local pids
  while pids=$(ip netns pids "$NAME") && [ -n "$pids" ]; do
    # shellcheck disable=SC2086 # one argument a number
    kill -KILL $pids 2> /dev/null || true
    sleep 0.05
  done
  ip link delete "v-$NAME" 2> /dev/null || true # before its namespace
  ip netns delete "$NAME"
}

host_init() { # the first process of a host, until runsvdir takes over
  local address=${ADDRESS%/*} disk=/run/hosts/$NAME root=/run/hosts/$NAME/root path
  hostname "$NAME"

  # a root of its own; what the machine keeps in these folders is not there
  mkdir -p "$disk"
  mount -t tmpfs -o "size=${DISK_MB}m,mode=755" tmpfs "$disk"
  mkdir -p "$disk"/{upper,work,root}
  mkdir -p "$disk"/upper/{var,etc}
  local hidden=(root home tmp srv mnt media var/tmp var/log etc/service)
  for path in "${hidden[@]}"; do [ ! -e "/$path" ] || mknod "$disk/upper/$path" c 0 0; done
  mount -t overlay -o "lowerdir=/,upperdir=$disk/upper,workdir=$disk/work" overlay "$root"
  mkdir -p "${hidden[@]/#/$root/}"
  chmod 700 "$root/root"
  chmod 1777 "$root/tmp" "$root/var/tmp"

  mount -t proc proc "$root/proc"
  mount -t sysfs -o ro sysfs "$root/sys"
  mount -t tmpfs -o mode=755 tmpfs "$root/run"
  mount -t tmpfs -o mode=755 tmpfs "$root/dev"
  mkdir "$root"/dev/{pts,shm} "$root/run/sshd" "$root/run/lock"
  mknod -m 666 "$root/dev/null" c 1 3
  mknod -m 666 "$root/dev/zero" c 1 5
  mknod -m 666 "$root/dev/full" c 1 7
  mknod -m 666 "$root/dev/random" c 1 8
  mknod -m 666 "$root/dev/urandom" c 1 9
  mknod -m 666 "$root/dev/tty" c 5 0
  mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$root/dev/pts"
  mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
  ln -s pts/ptmx "$root/dev/ptmx"
  ln -s /proc/self/fd "$root/dev/fd"
  for path in 0:stdin 1:stdout 2:stderr; do ln -s "/proc/self/fd/${path%:*}" "$root/dev/${path#*:}"; done

  # what makes it a host that somebody may log in to
  echo "$NAME" > "$root/etc/hostname"
  printf '127.0.0.1 localhost\n%s %s\n' "$address" "$NAME" > "$root/etc/hosts"
  rm -f "$root/etc/resolv.conf" # nobody to ask: names are in /etc/hosts
  : > "$root/etc/resolv.conf"
  chroot "$root" id -u "$SSH_USER" > /dev/null 2>&1 \
    || chroot "$root" useradd --no-create-home --home-dir "/home/$SSH_USER" --shell /bin/bash --password '*' "$SSH_USER"
  mkdir -p "$root/home/$SSH_USER/.ssh" "$root/etc/sudoers.d"
  echo "$PUBLIC_KEY" > "$root/home/$SSH_USER/.ssh/authorized_keys"
  chmod -R go= "$root/home/$SSH_USER/.ssh"
  chroot "$root" chown -R "$SSH_USER:" "/home/$SSH_USER"
  echo "$SSH_USER ALL=(ALL) NOPASSWD:ALL" > "$root/etc/sudoers.d/harness"
  chmod 440 "$root/etc/sudoers.d/harness"
  install -m 600 "$HOST_KEY" "$root/etc/ssh/harness_host_key"
  cat > "$root/etc/ssh/harness_sshd_config" << CONFIG
ListenAddress $address
HostKey /etc/ssh/harness_host_key
AuthenticationMethods publickey
PermitRootLogin no
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
PrintMotd no
PidFile none
MaxStartups 100
MaxSessions 100
Subsystem sftp internal-sftp
CONFIG
  mkdir -p "$root/etc/service/sshd"
  printf '#!/bin/sh\nexec /usr/sbin/sshd -D -e -f /etc/ssh/harness_sshd_config 2>&1\n' > "$root/etc/service/sshd/run"
  chmod 755 "$root/etc/service/sshd/run"

  mkdir "$root/.machine"
  cd "$root"
  pivot_root . .machine
  cd /
  umount --lazy /.machine
  rmdir /.machine
  exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
    runsvdir -P /etc/service
}

# --- waiting ------------------------------------------------------------------------------------------

wait_for() { # PID LOG COMMAND...: until the command succeeds, as long as the process lives
  local pid=$1 log=$2 deadline=$((SECONDS + UP_WITHIN_S))
  shift 2
  until "$@"; do
    kill -0 "$pid" 2> /dev/null || die "$(tail -n 3 "$log" | tr '\n' ' ')"
    [ $SECONDS -lt $deadline ] || die "not up after $UP_WITHIN_S s: $(tail -n 3 "$log" | tr '\n' ' ')"
    sleep 0.05
  done
}

ssh_answers() { (exec 3<> "/dev/tcp/$1/22") 2> /dev/null; }

case "${1:-}" in
  sandbox-up | sandbox-init | sandbox-down | host-up | host-down | host-start | host-stop | host-init)
    "${1//-/_}"
    ;;
  *) die "usage: $0 sandbox-up|sandbox-down|host-up|host-down" ;;
esac
