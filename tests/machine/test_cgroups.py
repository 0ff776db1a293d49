"""CPU quotas with real control groups, where this machine allows them."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import psutil
import pytest
from waiting import until

from harness.errors import UsageError
from harness.machine import cgroups
from harness.machine.cgroups import CpuQuotas


def groups() -> set[Path]:
    return set(cgroups._base().glob(f"{cgroups.PREFIX}*"))


@pytest.mark.skipif(cgroups.obstacle() is not None, reason=f"no quotas: {cgroups.obstacle()}")
def test_a_process_and_its_children_are_under_their_nodes_quota() -> None:
    before = groups()
    quotas = CpuQuotas({"node-2": 0.25})
    (folder,) = groups() - before
    v2, v1 = folder / "node-2" / "cpu.max", folder / "node-2" / "cpu.cfs_quota_us"
    assert (v2.read_text() if v2.exists() else v1.read_text()).split()[0] == "25000"  # of 100 ms
    with subprocess.Popen(
        ["sh", "-c", "read go; sleep 1000 & echo; wait"], stdin=-1, stdout=-1
    ) as supervisor:
        assert supervisor.stdin is not None
        assert supervisor.stdout is not None
        quotas.add("node-1", supervisor.pid)  # has a group and no quota
        assert str(supervisor.pid) in (folder / "node-1" / "cgroup.procs").read_text().split()
        assert str(supervisor.pid) not in (folder / "node-2" / "cgroup.procs").read_text().split()
        quotas.add("node-2", supervisor.pid)
        supervisor.stdin.write(b"\n")
        supervisor.stdin.flush()
        supervisor.stdout.readline()
        pids = (folder / "node-2" / "cgroup.procs").read_text().split()
        assert str(supervisor.pid) in pids
        assert len(pids) == 2
        for pid in pids:
            os.kill(int(pid), 9)
    while folder.exists():
        quotas.remove()  # as soon as the kernel has taken note of the ends
    assert groups() == before


SPINNING = "import os; os.sched_setaffinity(0, {0}); print(flush=True)\nwhile True: pass"


@pytest.mark.skipif(cgroups.obstacle() is not None, reason=f"no quotas: {cgroups.obstacle()}")
def test_nodes_with_a_quota_give_way() -> None:
    """On one core an idle group, of weight 3, gets 3 / (1024 + 3) of what both use; an ordinary one half."""
    quotas = CpuQuotas({"node-1": 1.0})
    with ExitStack() as ending:
        ending.callback(until, partial(_removed, quotas), "the end of its groups")
        free, node = (
            ending.enter_context(subprocess.Popen([sys.executable, "-c", SPINNING], stdout=subprocess.PIPE))
            for _ in range(2)
        )
        ending.callback(lambda: [p.kill() or p.wait() for p in (free, node)])
        for process in (free, node):
            assert process.stdout is not None
            process.stdout.readline()
        quotas.add("node-1", node.pid)
        if cgroups.kind_of_groups() != "idle":
            pytest.skip("this kernel has no idle groups")
        used = [_cpu_s(p.pid) for p in (free, node)]
        until(lambda: _cpu_s(free.pid) > used[0] + 2, "two seconds of CPU time")
        of_free, of_node = (_cpu_s(p.pid) - before for p, before in zip((free, node), used, strict=True))
        assert of_node / (of_free + of_node) < 0.05


def _removed(quotas: CpuQuotas) -> bool:
    quotas.remove()
    return not quotas._folder.exists()


def _cpu_s(pid: int) -> float:
    return sum(psutil.Process(pid).cpu_times()[:2])


@pytest.mark.skipif(cgroups.obstacle() is not None, reason=f"no quotas: {cgroups.obstacle()}")
def test_a_process_that_ended_needs_no_quota() -> None:
    quotas = CpuQuotas({"node-1": 0.5})
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    quotas.add("node-1", ended.pid)
    quotas.remove()


@pytest.mark.skipif(cgroups.obstacle() is not None, reason=f"no quotas: {cgroups.obstacle()}")
def test_a_quota_that_the_kernel_refuses_leaves_nothing() -> None:
    before = groups()
    with pytest.raises(UsageError, match="cpu_quota_cores"):
        CpuQuotas({"node-1": 0.0001})  # the least is a millisecond a period
    assert groups() == before


def test_without_the_right_to_make_groups_the_reason_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroups, "obstacle", lambda: "/sys/fs/cgroup: Read-only file system")
    with pytest.raises(UsageError, match=r"cpu_quota_cores: /sys/fs/cgroup: Read-only file system"):
        CpuQuotas({"node-1": 1})
