"""Machine and software of a run, recorded beside its results and shown as provenance in the report."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path

import psutil

from harness.machine.masking import SecretMask
from harness.machine.version import HARNESS_VERSION
from harness.schemas.environment import Environment

PACKAGES = ("kafka-python", "numpy", "pandas", "pyarrow", "pyspark", "scipy", "statsmodels", "thriftpy2")


def describe(cluster_kind: str, cluster: Mapping[str, object]) -> Environment:
    """Return the contents of ``environment.json`` but for the schema number.

    Parameters
    ----------
    cluster_kind : str
        ``local`` for real servers on this machine, ``remote`` for those on provisioned hosts; anything but
        real servers is never measured.
    cluster : mapping
        What the cluster says of itself (server versions, isolation). In it and in the command's arguments
        what looks like a secret is masked.
    """
    mask = SecretMask()
    memory = psutil.virtual_memory()
    return {
        "cluster_kind": cluster_kind,
        "cluster": {key: mask.tree(value, key) for key, value in cluster.items()},
        "harness": HARNESS_VERSION,
        "commit": commit(),
        "python": platform.python_version(),
        "packages": _versions(),
        "machine": {
            "cores": os.cpu_count() or 1,
            "memory_bytes": memory.total,
            "memory_available_bytes": memory.available,
            "cpu": _cpu_model(),
            "kernel": platform.release(),
            "system": platform.platform(),
            "load_1min": round(os.getloadavg()[0], 2),
        },
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "arguments": mask.arguments(sys.argv[1:]),
    }


def _versions() -> dict[str, str]:
    """Return the versions of those of ``PACKAGES`` that are installed: some belong to extras."""
    present = {d.name for d in metadata.distributions()}
    return {name: metadata.version(name) for name in PACKAGES if name in present}


@cache
def commit() -> str:
    """Return the checkout's commit, marked when files differ from it; empty outside a checkout.

    As it was when this process first asked.
    """
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return ""
    try:
        head = _git(root, "rev-parse", "--short=12", "HEAD")
        changed = _git(root, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.CalledProcessError):
        return ""
    return head + ("+changes" if changed else "")


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")
