"""The client of Nimbus on answers that a real Nimbus sent (``nimbus-2.8.3/README.md``)."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest
from recorded_nimbus import ANSWERS, nimbus_that_sends

from harness.errors import ClusterError
from harness.experiments.loading import load
from harness.plans import ACKER, TopologyConfiguration, WorkerNode
from harness.storm import nimbus as nimbus_module
from harness.storm.nimbus import Nimbus, NimbusBusy, Supervisor
from harness.storm.topology_state import Rebalance, TopologyState, physical_plan

CONSUMER = "__metrics_harness.storm.instrument.LineProtocolConsumer"
QUERY_PLAN = load("quick", ()).topology.query_plan()
COMPONENTS = ("spout", "bolt-a", "bolt-b", "sender")
NODES = tuple(
    WorkerNode(name=f"node-{i + 1}", address=f"127.0.0.{i + 2}", host="h", cores=2, slots=(6700 + 100 * i,))
    for i in range(2)
)


def topology(name: str) -> TopologyState:
    with nimbus_that_sends((ANSWERS / f"topology-{name}.bin").read_bytes()) as nimbus:
        return nimbus.topology("recorded")


def asked(executors: int, workers: int) -> TopologyConfiguration:
    return TopologyConfiguration(
        executors={**dict.fromkeys(COMPONENTS, executors), ACKER: 2}, workers=workers
    )


def test_cluster_summaries() -> None:
    with nimbus_that_sends((ANSWERS / "cluster-empty.bin").read_bytes()) as nimbus:
        empty = nimbus.cluster_summary()
    assert empty.version == "2.8.3"
    assert empty.supervisors == (
        Supervisor("127.0.0.2", 2, 0, 4.0),
        Supervisor("127.0.0.3", 2, 0, 4.0),
    )
    assert empty.topologies == {}
    with nimbus_that_sends((ANSWERS / "cluster-with-topology.bin").read_bytes()) as nimbus:
        busy = nimbus.cluster_summary()
    assert busy.supervisors == (Supervisor("127.0.0.2", 2, 2, 4.0), Supervisor("127.0.0.3", 2, 2, 4.0))
    assert busy.topologies == {"recorded": "ACTIVE"}


def test_the_plan_of_one_executor_a_component() -> None:
    state = topology("one-executor-each")
    plan = physical_plan(state, QUERY_PLAN, NODES)
    configuration = plan.configuration()
    assert configuration.workers == 2
    assert configuration.executors == {**asked(1, 2).executors, CONSUMER: 1}
    # tasks 1-2 are ackers, 3 the metrics consumer, then 16 a component in the order of their names
    assert [(e.component, e.first_task, e.last_task) for e in plan.executors] == [
        (ACKER, 1, 1),
        (ACKER, 2, 2),
        (CONSUMER, 3, 3),
        ("bolt-a", 4, 19),
        ("bolt-b", 20, 35),
        ("sender", 36, 51),
        ("spout", 52, 67),
    ]
    # no two workers of one slot, and nodes by their addresses
    assert {w.label for w in plan.workers} == {"node-1:6700", "node-2:6800"}


def test_the_plan_of_two_executors_a_component() -> None:
    plan = physical_plan(topology("two-executors-each"), QUERY_PLAN, NODES)
    assert plan.configuration().executors == {**asked(2, 4).executors, CONSUMER: 1}
    assert plan.configuration().workers == 4
    assert all(len(e.tasks) == 8 for c in COMPONENTS for e in plan.of(c))


def test_complete_latency_is_the_spouts_and_counts_every_message() -> None:
    state = topology("one-executor-each")
    (spout,) = [e for e in state.executors if e.is_spout]
    assert spout.label == "spout[52-67]"
    assert (spout.acked, spout.failed) == (200, 0)  # the messages it was given, sample rate 1
    assert spout.complete_latency_ms is not None
    assert spout.complete_latency_ms > 0
    assert all(e.complete_latency_ms is None and e.acked == 0 for e in state.executors if not e.is_spout)


def test_without_a_message_there_is_no_complete_latency() -> None:
    spouts = [e for e in topology("two-executors-each").executors if e.is_spout]
    assert [(e.acked, e.complete_latency_ms) for e in spouts] == [(0, None), (0, None)]


def test_nothing_is_up_before_it_was_reported() -> None:
    starting = topology("starting")
    assert (starting.status, starting.executors, starting.all_up) == ("ACTIVE", (), False)
    half = topology("half-up")
    assert half.status == "ACTIVE"
    assert not half.all_up
    assert topology("one-executor-each").all_up
    with pytest.raises(ClusterError, match="no executor of bolt-a, bolt-b, sender, spout is assigned"):
        physical_plan(starting, QUERY_PLAN, NODES)


def test_an_executor_on_no_known_node_is_an_error() -> None:
    state = topology("one-executor-each")
    with pytest.raises(ClusterError, match=r"runs on 127\.0\.0\.3, which is no worker node"):
        physical_plan(state, QUERY_PLAN, NODES[:1])


def test_a_rebalance_is_whole_when_its_last_worker_is() -> None:
    before = topology("one-executor-each")
    rebalance = Rebalance(before, asked(2, 4), started=0.0)
    assert not rebalance.whole(topology("rebalancing"))
    assert not rebalance.whole(topology("half-up"))
    assert rebalance.whole(topology("two-executors-each"))


def test_another_plan_than_asked_is_never_whole(figure: Callable[[str], None]) -> None:
    before = topology("one-executor-each")
    after = topology("two-executors-each")
    assert not Rebalance(before, asked(3, 4), started=0.0).whole(after)
    assert not Rebalance(before, asked(2, 3), started=0.0).whole(after)
    figure("asked 3 executors each or 3 workers, found 2 and 4")


def test_reported_errors_name_worker_and_cause_in_one_line() -> None:
    (error,) = topology("with-error").errors
    assert error.text.startswith("127.0.0.3:6800: harness.storm.topologies.MalformedMessageException: ")
    assert "\n" not in error.text
    assert error.epoch_s > 1_700_000_000  # the answer was recorded after 2023


@pytest.mark.parametrize(
    ("answer", "ask", "message"),
    [
        (
            "topology-unknown",
            lambda n: n.topology("nowhere"),
            "there is no topology nowhere (it was killed, or never submitted)",
        ),
        (
            "rebalance-refused",
            lambda n: n._ask(lambda nimbus: nimbus.rebalance("recorded", None), most_ms=30_000),
            "Invalid component nothing for topology recorded, valid values are bolt-a,bolt-b,sender,spout",
        ),
    ],
)
def test_refusals_are_one_line(
    answer: str, ask: Callable[[Nimbus], object], message: str, figure: Callable[[str], None]
) -> None:
    with (
        nimbus_that_sends((ANSWERS / f"{answer}.bin").read_bytes()) as nimbus,
        pytest.raises(ClusterError) as e,
    ):
        ask(nimbus)
    assert str(e.value) == f"nimbus at 127.0.0.1:{nimbus.port}: {message}"
    figure(message)


def test_a_nimbus_that_is_not_there_or_hangs_up_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(ClusterError, match=rf"^nimbus at 127\.0\.0\.1:{port}") as gone:
        Nimbus("127.0.0.1", port).cluster_summary()
    assert "\n" not in str(gone.value)
    with nimbus_that_sends(b"") as nimbus, pytest.raises(ClusterError, match="nimbus at") as mute:
        nimbus.cluster_summary()
    assert "\n" not in str(mute.value)


def test_a_busy_nimbus_is_asked_again_within_a_stated_time(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, figure: Callable[[str], None]
) -> None:
    monkeypatch.setattr(nimbus_module, "ANSWER_TIMEOUT_MS", 50)
    answer = (ANSWERS / "cluster-empty.bin").read_bytes()
    with nimbus_that_sends(answer, busy_for=2) as nimbus:
        assert nimbus.cluster_summary().version == "2.8.3"
    assert [r.message for r in caplog.records] == [
        f"nimbus at 127.0.0.1:{nimbus.port} does not answer: timed out; asked again"
    ] * 2
    figure(f"{len(caplog.records)} answers missed")
    with nimbus_that_sends(answer, busy_for=1) as nimbus:
        with pytest.raises(NimbusBusy, match="does not answer: timed out"):
            Nimbus(nimbus.host, nimbus.port, patience_s=0.04).cluster_summary()
        monkeypatch.setattr(nimbus_module, "ANSWER_TIMEOUT_MS", 30_000)
        assert nimbus.cluster_summary().version == "2.8.3"
