"""Requirements of a run on this machine: whether each is met, and the command that mends it."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil

from harness.backends import optional_servers
from harness.backends.hosts import ansible, host_network, terraform
from harness.errors import HarnessError, MissingTool
from harness.machine import cgroups, sandbox, servers
from harness.machine.server_pins import pinned, require_pinned

JAVA_AT_LEAST = 17
PYTHON_AT_LEAST = (3, 11)
MEMORY_NEEDED_BYTES = 4 * 1024**3
"""Servers, four workers of 256 MB and Spark; an experiment with more workers asks for more by itself."""
JAVA_PACKAGE = "apt-get install openjdk-17-jdk-headless"


@dataclass(frozen=True)
class MachineFinding:
    """One thing that a run needs or can use.

    Attributes
    ----------
    ok : bool
        Whether it is there.
    needed : bool
        Whether nothing runs without it.
    name, detail : str
        What it is, and what was found.
    mend : str
        What to do about it; empty when it is there.
    """

    name: str
    ok: bool
    needed: bool
    detail: str
    mend: str = ""


def doctor() -> list[MachineFinding]:
    """Return what was found, in the order in which it should be mended; nothing is changed."""
    found = [_python(), _java(), _maven(), _memory(), _disk(), _servers(), _namespaces(), _quotas()]
    return [*found, _influxdb(), _neo4j(), _hosts()]


def _finding(name: str, ok: bool, detail: str, mend: str, *, needed: bool = True) -> MachineFinding:
    return MachineFinding(name, ok, needed, detail, "" if ok else mend)


def _python() -> MachineFinding:
    wanted = ".".join(map(str, PYTHON_AT_LEAST))
    ok = sys.version_info[:2] >= PYTHON_AT_LEAST
    return _finding("python", ok, platform.python_version(), f"apt-get install python{wanted}-venv")


def _java() -> MachineFinding:
    version = java_version()
    if version is None:
        return _finding("java", False, "there is no java on PATH that runs", JAVA_PACKAGE)
    return _finding("java", version >= JAVA_AT_LEAST, f"version {version}", JAVA_PACKAGE)


def java_version() -> int | None:
    """Return the feature version of the java on PATH, e.g. 17; None where PATH has no java."""
    answer = _output("java", "-version")
    found = re.search(r'version "(?:1\.)?(\d+)', answer or "")
    return int(found.group(1)) if found else None


def _maven() -> MachineFinding:
    # needed only until the servers' jars are in the cache
    needed = servers.installed() is None
    answer = _output("mvn", "--version")
    found = re.search(r"Apache Maven (\S+?)[\s(\x1b]", answer or "")
    detail = f"version {found.group(1)}" if found else "there is no mvn on PATH that runs"
    return _finding("maven", found is not None, detail, "apt-get install maven", needed=needed)


def _memory() -> MachineFinding:
    available = psutil.virtual_memory().available
    detail = f"{available / 1024**3:.1f} GiB available, {MEMORY_NEEDED_BYTES / 1024**3:.0f} GiB needed"
    return _finding("memory", available >= MEMORY_NEEDED_BYTES, detail, "end other programs")


def _disk() -> MachineFinding:
    folder = servers.cache_folder()
    existing = next(p for p in (folder, *folder.parents) if p.exists())
    free = shutil.disk_usage(existing).free
    needed = 0 if servers.installed() else servers.DISK_NEEDED_BYTES
    detail = f"{free / 1e9:.1f} GB free at {existing}"
    if not os.access(existing, os.W_OK):
        detail, mend = f"{existing} cannot be written to", "set XDG_CACHE_HOME to a folder of yours"
        return _finding("disk", False, detail, mend)
    return _finding("disk", free >= needed, detail, "free some space, or set XDG_CACHE_HOME to another disk")


def _servers() -> MachineFinding:
    homes = servers.installed()
    detail = str(homes.root) if homes else "not in the cache yet; the first run fetches them"
    if homes is not None:
        try:
            require_pinned(homes.root, pinned("storm-kafka"))
        except HarnessError as changed:
            return _finding("servers", False, changed.message, changed.hint)
    return _finding("servers", homes is not None, detail, "harness doctor --install", needed=False)


def _influxdb() -> MachineFinding:
    program, obstacle = optional_servers.influxd(), optional_servers.influxdb_obstacle()
    version = optional_servers.influxd_version(program) if program else None
    return _optional("influxdb", version or optional_servers.INFLUXDB_VERSION, program, obstacle)


def _neo4j() -> MachineFinding:
    home, obstacle = optional_servers.neo4j_home(), optional_servers.neo4j_obstacle()
    return _optional("neo4j", optional_servers.NEO4J_VERSION, home, obstacle)


def _optional(
    name: str, version: str, path: Path | None, obstacle: optional_servers.Obstacle | None
) -> MachineFinding:
    if path is not None:
        return MachineFinding(name, True, False, f"version {version}, {path}")
    detail = "not installed (optional)"
    if obstacle is None:
        return MachineFinding(name, False, False, detail, "make servers")
    return MachineFinding(
        name, False, False, f"{detail}; {obstacle.reason}", f"{obstacle.mend}; make servers"
    )


def _namespaces() -> MachineFinding:
    reason = None if sandbox.inside() else sandbox.obstacle()
    detail = f"not allowed: {reason}" if reason else "a private network and private processes are allowed"
    return _finding("sandbox", reason is None, detail, _namespaces_mend(), needed=False)


def _namespaces_mend() -> str:
    """Return the command that allows user namespaces, where one of the usual switches forbids them."""
    for name, value in (
        ("user.max_user_namespaces", "15000"),
        ("kernel.unprivileged_userns_clone", "1"),
        ("kernel.apparmor_restrict_unprivileged_userns", "0"),
    ):
        switch = Path("/proc/sys") / name.replace(".", "/")
        forbids = "1" if "restrict" in name else "0"
        if switch.exists() and switch.read_text().strip() == forbids:
            return f"sysctl -w {name}={value}"
    return "run outside the container, or start it with the right to make namespaces"


def _quotas() -> MachineFinding:
    reason = cgroups.obstacle()
    detail = f"not allowed: {reason}" if reason else "CPU quotas for worker nodes are allowed"
    mend = "run as root, or in a delegated cgroup"
    return _finding("cpu quota", reason is None, detail, mend, needed=False)


def _hosts() -> MachineFinding:
    """Return whether ``harness provision`` can make hosts that are namespaces of this machine."""

    def without(what: str, mend: str) -> MachineFinding:
        return MachineFinding(
            "hosts", False, False, f"hosts of this machine (harness provision) need {what}", mend
        )

    try:
        terraform.tool()
        ansible.search_path()
    except MissingTool as error:
        return without("Terraform and Ansible", error.hint)
    if missing := host_network.missing_packages():
        return without(", ".join(missing), f"apt-get install {' '.join(missing)}")
    if lacks := host_network.obstacle():
        return without(lacks, "run as root, outside any sandbox")
    return MachineFinding("hosts", True, False, "hosts of this machine can be made")


def _output(*command: str) -> str | None:
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
