"""Worker nodes of every kind of file that may say them."""

from __future__ import annotations

from pathlib import Path

import pytest

import harness
from harness.app.given_nodes import read_nodes
from harness.errors import UsageError
from harness.plans import WorkerNode

ROOT = Path(__file__).resolve().parents[2]
RUN = ROOT / "reports" / "runs" / "loaded-workers" / "20261123T170830Z"
CLUSTERS = ROOT / "configs" / "clusters"


def node(name: str, host: str, cores: float = 2.0) -> WorkerNode:
    return WorkerNode(name=name, address=f"address-of-{name}", host=host, cores=cores, slots=(6700,))


HERE = (node("node-1", "vm"), node("node-2", "vm"))


def test_a_plan_has_its_nodes_as_they_were() -> None:
    given = read_nodes(RUN / "steps" / "02" / "plan.json", HERE)
    assert given == (harness.load_run(RUN).plan(2).nodes, "")


def test_a_cluster_s_file_has_its_supervisors_on_this_machine_s_cores() -> None:
    """namespaces-5 has four of two slots; node-1 and node-2 are where they were, the others beside them."""
    nodes, assumed = read_nodes(CLUSTERS / "namespaces-5.yaml", HERE)
    assert [n.name for n in nodes] == ["node-1", "node-2", "node-3", "node-4"]
    assert {n.slots for n in nodes} == {(6700, 6701)}
    assert {(n.host, n.cores, n.cpu_quota_cores) for n in nodes} == {("vm", 2.0, None)}
    assert [n.address for n in nodes] == ["address-of-node-1", "address-of-node-2", "", ""]
    assert assumed == ""


def test_hosts_of_their_own_have_cores_that_are_said_to_be_assumed(tmp_path: Path) -> None:
    (tmp_path / "key").touch()
    text = (CLUSTERS / "existing-3.yaml").read_text().replace("~/.ssh/id_ed25519", str(tmp_path / "key"))
    (tmp_path / "existing.yaml").write_text(text)
    nodes, assumed = read_nodes(tmp_path / "existing.yaml", HERE)
    assert [(n.name, n.host, n.cores) for n in nodes] == [
        ("node-1", "existing-3/node-1", 2.0),
        ("node-2", "existing-3/node-2", 2.0),
    ]
    assert assumed == "node-1, node-2: 2 cores are assumed, those of the step's smallest node"
    there = (node("node-1", "existing-3/node-1", 8.0), node("node-2", "existing-3/node-2", 4.0))
    nodes, assumed = read_nodes(tmp_path / "existing.yaml", there)
    assert ([n.cores for n in nodes], assumed) == ([8.0, 4.0], "")
    assert nodes[0].address == "address-of-node-1"


@pytest.mark.parametrize(
    ("text", "slots", "quotas"),
    [
        ("{kind: local, nodes: 3, slots_per_node: 1, cpu_quota_cores: {node-3: 0.5}}", 1, [None, None, 0.5]),
        ("name: x\ncluster: {nodes: 2, slots_per_node: 3}\nsteps: {}\n", 3, [None, None]),
        ("name: x\nsteps: {}\n", 2, [None, None]),  # as an experiment without the key has it
        (
            f"{{file: {CLUSTERS / 'namespaces-4.yaml'}, cpu_quota_cores: {{node-1: 0.3}}}}",
            1,
            [0.3, None, None],
        ),
        (f"name: x\nsteps: {{}}\ncluster: {CLUSTERS / 'namespaces-3.yaml'}\n", 2, [None, None]),
    ],
)
def test_the_cluster_of_an_experiment_has_nodes_slots_and_quotas(
    tmp_path: Path, text: str, slots: int, quotas: list[float | None]
) -> None:
    (tmp_path / "given.yaml").write_text(text)
    nodes, _ = read_nodes(tmp_path / "given.yaml", HERE)
    assert [n.cpu_quota_cores for n in nodes] == quotas
    assert [n.name for n in nodes] == [f"node-{i + 1}" for i in range(len(quotas))]
    assert {len(n.slots) for n in nodes} == {slots}


def test_a_shipped_experiment_says_its_nodes() -> None:
    nodes, _ = read_nodes(ROOT / "configs" / "experiments" / "schedulers-unequal.yaml", HERE)
    assert [n.cpu_quota_cores for n in nodes] == [0.3, 0.6, 1.0]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("plan.json", "{}", "not a step's plan.json"),
        ("a.yaml", "- 1", "no cluster: it is no mapping of keys"),
        ("a.yaml", "{nodes: [}", "not readable as YAML"),
        ("a.yaml", "{nodes: 2, nodse: 3}", "unknown key 'nodse'"),
        ("a.yaml", "cluster: nowhere.yaml", "cluster: there is no file nowhere.yaml"),
        ("a.yaml", "{name: x, hosts: {kind: local, machines: []}}", "hosts.machines"),
        ("a.yaml", "{kind: running, nimbus: 'h:1', kafka: 'h:2'}", "its worker nodes are not in the file"),
    ],
)
def test_a_file_that_says_no_nodes_is_one_line(tmp_path: Path, name: str, text: str, said: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(UsageError) as refused:
        read_nodes(tmp_path / name, HERE)
    assert refused.value.message.startswith(f"--nodes {tmp_path / name}")
    assert said in refused.value.message
    assert "\n" not in refused.value.message
