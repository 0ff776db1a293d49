"""Joining sent and received: values computed by hand, and nothing left out or altered."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.experiments.assemble import assemble
from harness.experiments.workload_tables import RECEIVED, SENT
from harness.schemas import LATENCY

COMPONENTS = {1: "spout", 20: "bolt-a", 40: "sender"}


def sent(message_id: int, scheduled_ns: int, append_ms: int | None = 100) -> dict[str, object]:
    return {
        "message_id": message_id,
        "scheduled_ns": scheduled_ns,
        "sent_ns": scheduled_ns + 7,
        "partition": 0,
        "offset": None if append_ms is None else message_id,
        "append_ms": append_ms,
        "error": "gone" if append_ms is None else None,
    }


def received(
    message_id: int, entered_ns: int, left_ns: int, tasks: tuple[int, ...] = (1, 20, 40)
) -> dict[str, object]:
    times = np.linspace(entered_ns, left_ns, len(tasks)).astype(np.int64).tolist()
    return {
        "message_id": message_id,
        "child": 0,
        "entered_ns": entered_ns,
        "left_ns": left_ns,
        "thesis_entered_ns": entered_ns - 500_000,
        "output_partition": 3,
        "output_offset": message_id,
        "append_ms": 112,
        "sink": "sender",
        "record_path": f"spout:{tasks[0]}" if tasks else "",
        "hops": [{"task": t, "received_ns": x, "emitted_ns": x} for t, x in zip(tasks, times, strict=True)],
    }


def tables(s: list[dict[str, object]], r: list[dict[str, object]]) -> tuple[pa.Table, pa.Table]:
    return pa.Table.from_pylist(s, schema=SENT), pa.Table.from_pylist(r, schema=RECEIVED)


def test_an_output_of_a_jar_has_its_times_and_no_way() -> None:
    """As harness.workload.named gives it: no hops and no entry by the thesis's protocol."""
    output = received(5, 3_000_000, 9_500_000, tasks=()) | {"entered_ns": None, "thesis_entered_ns": None}
    both = tables([sent(5, 1_000_000), sent(6, 2_000_000)], [output, output | {"message_id": 6}])
    done = assemble(*both, COMPONENTS, (0, 10**9), {1: "h", 40: "h"})
    assert done.complaints == ()
    for row in done.latency.to_pylist():
        assert (row["ground_truth_ms"], row["broker_ms"]) == (12, 12)  # appended at 100 and 112 ms
        assert (row["entered_ns"], row["left_ns"]) == (-2_500_000, 9_500_000)
        assert (row["thesis_ground_truth_ms"], row["path"], row["hops"]) == (None, "", [])
    apart = assemble(*both, COMPONENTS, (0, 10**9), {1: "h", 40: "other"})
    assert apart.latency["ground_truth_ms"].to_pylist() == [12, 12]  # both times are the broker's


def test_one_message_by_hand() -> None:
    done = assemble(
        *tables([sent(5, 1_000_000)], [received(5, 3_000_000, 9_500_000)]), COMPONENTS, (0, 10**9)
    )
    assert done.complaints == ()
    assert done.latency.schema == LATENCY
    (row,) = done.latency.to_pylist()
    assert row["ground_truth_ms"] == 6.5  # 9.5 - 3
    assert row["thesis_ground_truth_ms"] == 7.0  # 9.5 - 2.5
    assert row["scheduled_ms"] == 8.5  # 9.5 - 1
    assert row["broker_ms"] == 12.0  # 112 - 100
    assert row["path"] == "spout:1/bolt-a:20/sender:40"
    assert row["in_interval"] is True
    assert (row["scheduled_ns"], row["sent_ns"]) == (1_000_000, 1_000_007)
    assert (row["sink"], row["output_partition"], row["output_offset"]) == ("sender", 3, 5)
    assert len(row["hops"]) == 3


@given(
    st.lists(st.tuples(st.integers(0, 30), st.sampled_from([(1, 40), (1, 20, 40)])), max_size=40),
    st.randoms(),
)
@settings(deadline=None)
def test_rows_stay_in_order_and_get_their_own_messages_values(
    arrivals: list[tuple[int, tuple[int, ...]]], random: object
) -> None:
    outgoing = [sent(n, 1_000 * n) for n in range(31)]
    random.shuffle(outgoing)  # type: ignore[attr-defined]
    incoming = [received(n, 100_000, 200_000, tasks) for n, tasks in arrivals]
    done = assemble(*tables(outgoing, incoming), COMPONENTS, (5_000, 20_000))
    assert done.complaints == ()
    for row, (n, tasks) in zip(done.latency.to_pylist(), arrivals, strict=True):
        assert row["message_id"] == n
        assert row["scheduled_ns"] == 1_000 * n
        assert row["in_interval"] == (5 <= n < 20)
        assert row["path"] == "/".join(f"{COMPONENTS[t]}:{t}" for t in tasks)
        assert [h["task"] for h in row["hops"]] == list(tasks)


def test_impossible_values_stand_and_are_named() -> None:
    done = assemble(*tables([sent(5, 0)], [received(5, 2_000_000, 1_000_000)]), COMPONENTS, (0, 1))
    assert done.latency["ground_truth_ms"].to_pylist() == [-1.0]
    text = "; ".join(done.complaints)
    assert "ground_truth_ms: 1 negative rows (worst: -1.000000 of message 5)" in text
    assert "received before the hop before them" in text


def test_missing_values_are_null_and_named() -> None:
    done = assemble(
        *tables([sent(1, 0), sent(2, 0, append_ms=None)], [received(2, 1, 2), received(9, 1, 2)]),
        COMPONENTS,
        (0, 1),
    )
    assert done.latency["broker_ms"].to_pylist() == [None, None]
    assert done.latency["scheduled_ns"].to_pylist() == [0, None]
    assert done.latency["in_interval"].to_pylist() == [True, False]
    assert done.complaints == (
        "1 rows of messages that were not sent (first: 9)",
        "broker_ms: 1 rows of messages that the broker did not confirm",
    )


def test_what_a_window_held_from_before_the_step_is_kept_and_not_amiss() -> None:
    # Seen on a cluster: a step measured again without a change of plan, 79 rows of the first attempt.
    done = assemble(
        *tables([sent(6, 0), sent(5, 0)], [received(4, 1, 2), received(5, 1, 2)]), COMPONENTS, (0, 1)
    )
    assert done.complaints == ()
    assert done.latency["scheduled_ns"].to_pylist() == [None, 0]
    assert done.latency["in_interval"].to_pylist() == [False, True]


def test_a_task_of_no_component_is_named() -> None:
    done = assemble(*tables([sent(1, 0)], [received(1, 1, 2, (1, 77))]), COMPONENTS, (0, 1))
    assert done.latency["path"].to_pylist() == ["spout:1/?:77"]
    assert done.complaints == ("tasks of no known component in the hop records: [77]",)


def test_ends_that_differ_from_the_hops_are_named() -> None:
    row = received(1, 10, 20) | {"entered_ns": 9}
    done = assemble(*tables([sent(1, 0)], [row]), COMPONENTS, (0, 1))
    assert done.complaints == ("hops: 1 rows whose first and last hop are not entered_ns and left_ns",)


def test_without_a_shared_clock_ground_truth_is_null() -> None:
    incoming = [received(1, 10, 20), received(1, 10, 20, (1, 41))]
    done = assemble(
        *tables([sent(1, 0)], incoming),
        {**COMPONENTS, 41: "sender"},
        (0, 1),
        hosts={1: "a", 20: "b", 40: "a", 41: "b"},
    )
    assert done.latency["ground_truth_ms"].to_pylist() == [1e-05, None]
    assert done.latency["thesis_ground_truth_ms"].null_count == 1
    assert done.latency["broker_ms"].to_pylist() == [12.0, 12.0]


def test_where_only_the_broker_shares_our_clock_the_hops_tell_what_passed_within_a_host() -> None:
    """As of workers with clocks of their own: hosts a and b are apart by an hour, the entry is not known.

    By hand: appended at 100 and 112 ms; on host a from 10 to 16 ms, on both 10 ms and an hour later.
    """
    hour_ns = 3600 * 10**9
    by_broker = {"entered_ns": None, "left_ns": 112_500_000}
    within, across = (received(1, 10_000_000, 16_000_000, tasks) for tasks in ((1, 20, 40), (1, 20, 41)))
    across["hops"][2] |= dict.fromkeys(("received_ns", "emitted_ns"), 10_000_000 + hour_ns)  # type: ignore[index]
    back = received(2, 10_000_000, 16_000_000)
    back["hops"][1] |= {"received_ns": hour_ns, "emitted_ns": hour_ns}  # type: ignore[index]
    hosts = {1: "a", 20: "a", 40: "a", 41: "b"}
    components = {**COMPONENTS, 41: "sender"}
    done = assemble(
        *tables([sent(1, 90_000_000)], [within | by_broker, across | by_broker]), components, (0, 1), hosts
    )
    assert done.complaints == ()  # neither of what runs backwards from a to b, nor of ends
    assert done.latency["ground_truth_ms"].to_pylist() == [6.0, None]
    assert done.latency["broker_ms"].to_pylist() == [12.0, 12.0]
    assert done.latency["entered_ns"].to_pylist() == [100_500_000] * 2
    assert done.latency["scheduled_ms"].to_pylist() == [22.5] * 2
    # on one host time runs forward, whoever knows the ends
    late = assemble(*tables([sent(2, 0)], [back | by_broker]), components, (0, 1), hosts)
    assert late.complaints == ("hops: 1 were received before the hop before them was emitted",)
    # by way of another host it cannot be told
    other = assemble(*tables([sent(2, 0)], [back | by_broker]), components, (0, 1), {**hosts, 20: "b"})
    assert other.complaints == ()


def test_a_windows_latency_by_the_thesis_is_of_the_path_that_its_record_is_of() -> None:
    """Two members of one record, on host a from end to end; the chosen path began on a, then on b."""
    by_broker = {"entered_ns": None, "left_ns": 112_500_000, "thesis_entered_ns": 106_500_000}
    member = received(1, 10_000_000, 16_000_000, (1, 20, 40)) | by_broker
    hosts = {1: "a", 2: "b", 20: "a", 40: "a"}
    incoming = [member | {"record_path": path} for path in ("spout:1/bolt-a:20", "spout:2/bolt-a:20", "?")]
    done = assemble(*tables([sent(1, 0)], incoming), {**COMPONENTS, 2: "spout"}, (0, 1), hosts)
    assert done.latency["thesis_ground_truth_ms"].to_pylist() == [6.0, None, None]
    assert done.latency["ground_truth_ms"].to_pylist() == [6.0] * 3
    assert done.complaints == ()


def test_nothing_received() -> None:
    done = assemble(*tables([sent(1, 0)], []), COMPONENTS, (0, 1))
    assert done.latency.num_rows == 0
    assert done.complaints == ()
    assert assemble(*tables([], []), COMPONENTS, (0, 1)).latency.num_rows == 0
