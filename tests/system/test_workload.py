"""Generator and receiver on a real Kafka broker.

Nothing here depends on how fast the machine is: what is asserted are identities (what was sent is
what the broker has), and waits are for conditions.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import psutil
import pyarrow as pa
import pytest
import waiting
from made_steps import measured

from harness.backends.kafka.client import Consumer, Producer, Record, Topics
from harness.errors import ClusterError
from harness.experiments.assemble import assemble
from harness.experiments.ledger import LedgerEvidence, settle
from harness.experiments.measuring import MeasuredInterval
from harness.experiments.records import LATE_MOST_MS, on_schedule
from harness.experiments.schedule import Constant, Due, Poisson, Trace
from harness.workload.generator import Generator, Lateness
from harness.workload.load import KafkaLoad
from harness.workload.receiver import Receiver
from harness.workload.wire import Hop, Member, OwnWire, encode

pytestmark = pytest.mark.system

WAIT_S = 60.0
until = partial(waiting.until, within_s=WAIT_S)


def read_all(bootstrap: str, topic: str) -> list[Record]:
    consumer = Consumer(bootstrap, topic)
    ends = consumer.end_offsets()
    records: list[Record] = []
    while (consumer.positions < ends).any():
        records += consumer.poll(500)
    consumer.close()
    return records


# ---- generator ----


def send_at_least(generator: Generator, count: int) -> pa.Table:
    tables = []
    until(
        lambda: tables.append(generator.poll()) or sum(t.num_rows for t in tables) >= count, "messages sent"
    )
    tables.append(generator.stop())
    return pa.concat_tables(tables)


def test_what_it_says_it_sent_is_what_the_broker_has(
    kafka_bootstrap: str, topics: Topics, topic: str
) -> None:
    with Generator(kafka_bootstrap, {topic: 1}, OwnWire("päyload")) as generator:
        generator.start(Constant(200.0))
        first = send_at_least(generator, 100)
        generator.start(Poisson(400.0, seed=3))  # another rate; identifiers go on
        second = send_at_least(generator, 100)
        assert generator.next_id == first.num_rows + second.num_rows
    rows = pa.concat_tables([first, second]).to_pylist()
    assert [r["message_id"] for r in rows] == list(range(len(rows)))
    assert all(r["error"] is None and r["partition"] == r["message_id"] % 16 for r in rows)
    assert all(r["sent_ns"] >= r["scheduled_ns"] for r in rows)
    assert int(topics.end_offsets(topic).sum()) == len(rows)
    there = {(r.partition, r.offset): r for r in read_all(kafka_bootstrap, topic)}
    for r in rows:
        record = there[r["partition"], r["offset"]]
        assert record.append_ms == r["append_ms"]  # the broker's stamp, not ours
        assert json.loads(record.value) == {"message_id": r["message_id"], "payload": "päyload"}
    due = np.diff(first["scheduled_ns"].to_numpy())
    assert set(due.tolist()) == {5_000_000}  # 200 messages/s
    late = Lateness.of(first)
    assert late is not None
    print(f"\nlateness at 200/s: {late}")


def test_message_n_is_sent_no_earlier_than_the_schedule_says(kafka_bootstrap: str, topic: str) -> None:
    schedule = Poisson(300.0, seed=9)
    with Generator(kafka_bootstrap, {topic: 1}) as generator:
        generator.start(schedule, first_id=1000, skip=50)
        sent = send_at_least(generator, 100)
    assert sent["message_id"][0].as_py() == 1000
    expected = next(schedule.chunks(50))[: sent.num_rows]
    due = sent["scheduled_ns"].to_numpy()
    assert (np.diff(due) == np.diff(expected)).all()
    assert (sent["sent_ns"].to_numpy() >= due).all()


def test_falling_behind_is_visible_as_lateness(kafka_bootstrap: str, topics: Topics, topic: str) -> None:
    # Ten million messages a second are due: more than any Python process can send.
    with Generator(kafka_bootstrap, {topic: 1}) as generator:
        generator.start(Constant(1e7))
        sent = send_at_least(generator, 5_000)
    late_ns = sent["sent_ns"].to_numpy() - sent["scheduled_ns"].to_numpy()
    assert set(np.diff(sent["scheduled_ns"].to_numpy()).tolist()) == {100}  # the schedule did not give way
    assert late_ns[-1] > late_ns[0]
    seconds = (sent["sent_ns"][-1].as_py() - sent["sent_ns"][0].as_py()) / 1e9
    print(f"\nmost it could send: {sent.num_rows / seconds:.0f} messages/s")
    assert int(topics.end_offsets(topic).sum()) == sent.num_rows


def test_a_schedule_that_ends_says_so(kafka_bootstrap: str, topic: str) -> None:
    with Generator(kafka_bootstrap, {topic: 1}) as generator:
        generator.start(Trace(np.array([0, 1_000_000, 1_000_000, 5_000_000], dtype=np.int64)))
        tables = []
        until(lambda: tables.append(generator.poll()) or generator.exhausted, "the end of the trace")
        tables.append(generator.stop())
        assert pa.concat_tables(tables)["message_id"].to_pylist() == [0, 1, 2, 3]
        assert generator.stop().num_rows == 0


def measured_over(start_ns: int, end_ns: int) -> MeasuredInterval:
    return replace(measured(steady=True), start_ns=start_ns, end_ns=end_ns)


def test_a_generator_stopped_inside_an_interval_is_told_by_what_it_left_out(
    kafka_bootstrap: str,
    topic: str,
    out: str,
    monkeypatch: pytest.MonkeyPatch,
    figure: Callable[[str], None],
) -> None:
    """200 messages/s, from the first one on and for a second after the stall began: one every 5 ms.

    It is woken when it has been told to stop, as a stall that lasts until the end of a step is.
    """
    with KafkaLoad(kafka_bootstrap, {topic: 1}, out) as load:
        load.start(Constant(200.0))
        until(lambda: load.sent().num_rows >= 100, "messages sent")
        os.kill(load.generator.pid, signal.SIGSTOP)
        start_ns = load.sent()["scheduled_ns"][0].as_py()
        number = (time.monotonic_ns() - start_ns) // 5_000_000 + 200
        interval = measured_over(start_ns, start_ns + number * 5_000_000)
        until(lambda: time.monotonic_ns() > interval.end_ns, "the interval's end")
        tell = load.generator._process.tell

        def tell_and_wake(command: object) -> None:
            tell(command)
            os.kill(load.generator.pid, signal.SIGCONT)

        monkeypatch.setattr(load.generator._process, "tell", tell_and_wake)
        load.stop()
        due = load.due(interval.start_ns, interval.end_ns)
        found = on_schedule(load.sent(), interval, due)
        sent = load.sent().num_rows
    assert due == Due(number, ended=False)
    assert number - sent > 190  # the stall's second, but for what was under way when it began
    assert not found.ok
    assert found.detail.startswith(f"{sent} of the {number} messages due in the interval were sent")
    figure(found.detail.partition("; ")[0])


def test_a_generator_stalled_for_a_while_sends_all_and_is_late(
    kafka_bootstrap: str, topic: str, out: str
) -> None:
    with KafkaLoad(kafka_bootstrap, {topic: 1}, out) as load:
        load.start(Constant(200.0))
        until(lambda: load.sent().num_rows >= 100, "messages sent")
        os.kill(load.generator.pid, signal.SIGSTOP)
        stalled_ns = time.monotonic_ns()
        until(lambda: time.monotonic_ns() > stalled_ns + 1_000_000_000, "a second of stalling")
        os.kill(load.generator.pid, signal.SIGCONT)
        start_ns = load.sent()["scheduled_ns"][0].as_py()
        interval = measured_over(start_ns, stalled_ns + 1_000_000_000)
        until(lambda: load.sent()["scheduled_ns"][-1].as_py() >= interval.end_ns, "all that was due")
        load.stop()
        due = load.due(interval.start_ns, interval.end_ns)
        found = on_schedule(load.sent(), interval, due)
    assert not found.ok
    assert "messages due" not in found.detail
    assert float(found.detail.rsplit("all within ", 1)[1].removesuffix(" ms")) > 900


def test_a_trace_that_ends_inside_an_interval_is_told(
    kafka_bootstrap: str, topic: str, out: str, figure: Callable[[str], None]
) -> None:
    trace = Trace(np.arange(100, dtype=np.int64) * 2_000_000)
    with KafkaLoad(kafka_bootstrap, {topic: 1}, out) as load:
        load.start(trace)
        until(lambda: load.sent().num_rows == 100, "the whole trace")
        load.stop()
        start_ns = load.sent()["scheduled_ns"][0].as_py()
        interval = measured_over(start_ns, start_ns + 1_000_000_000)
        found = on_schedule(load.sent(), interval, load.due(interval.start_ns, interval.end_ns))
    assert not found.ok
    assert "the schedule ended in the interval, with 100 messages due until then" in found.detail
    figure(found.detail.partition("; ")[0])


def test_no_second_has_more_than_its_schedule_however_long_that_takes_to_draw(
    kafka_bootstrap: str, topic: str, figure: Callable[[str], None]
) -> None:
    """A random schedule taken up late draws all of its past first, here for a second at least.

    Were the start set before that, the messages of that time would come in one burst.
    """
    schedule, skip, drawn_s = Poisson(400.0, seed=7), 1_000_000, 0.0
    while drawn_s < 1.0:
        skip *= 2
        begun_ns = time.monotonic_ns()
        next(schedule.chunks(skip))
        drawn_s = (time.monotonic_ns() - begun_ns) / 1e9
    with Generator(kafka_bootstrap, {topic: 1}) as generator:
        generator.start(schedule, first_id=0, skip=skip)
        sent = send_at_least(generator, 2000)
        first_ns = sent["scheduled_ns"][0].as_py()
        second_ns, most_late_ns = 1_000_000_000, round(LATE_MOST_MS * 1e6)
        at_ns = sent["sent_ns"].to_numpy()
        for since_ns in range(first_ns, int(at_ns[-1]), second_ns):
            count = int(((at_ns >= since_ns) & (at_ns < since_ns + second_ns)).sum())
            due = generator.due(since_ns - most_late_ns, since_ns + second_ns).messages
            assert count <= due, (since_ns - first_ns, count, due)
    late = Lateness.of(sent)
    assert late is not None
    figure(f"drawn for {drawn_s:.1f} s: {late.messages} messages, the latest {late.max_ms:.0f} ms late")


def test_identifiers_only_grow(kafka_bootstrap: str, topic: str) -> None:
    with Generator(kafka_bootstrap, {topic: 1}) as generator:
        generator.start(Constant(100.0), first_id=7)
        with pytest.raises(ValueError, match="is sending"):
            generator.start(Constant(100.0))
        send_at_least(generator, 1)
        with pytest.raises(ValueError, match="message 7 was sent before"):
            generator.start(Constant(100.0), first_id=7)


# ---- receiver ----


def member(n: int, child: int = 0, t: int = 1_000_000, tasks: tuple[int, ...] = (1, 20, 40)) -> Member:
    times = [t + 100_000 * i for i in range(len(tasks))]
    return Member(n, child, t, [Hop(task, x, x) for task, x in zip(tasks, times, strict=True)])


def produce(bootstrap: str, topic: str, values: list[bytes]) -> None:
    producer = Producer(bootstrap, topic)
    for i, value in enumerate(values):
        producer.send(i % producer.partitions, value, i)
    done = producer.flush(30)
    producer.close()
    assert [d.error for d in done] == [None] * len(values)


def test_every_member_is_decoded_and_foreign_records_are_named(
    kafka_bootstrap: str, topics: Topics, topic: str
) -> None:
    values = [encode("sender", "p", 1, [member(n, c) for c in range(1, 11)]) for n in range(40)]
    values[5] = b"not one of ours"
    values[17] = values[17][:-3]
    produce(kafka_bootstrap, topic, values)
    ends = topics.end_offsets(topic)
    with Receiver(kafka_bootstrap, topic) as receiver:
        rows = receiver.read_to(ends, WAIT_S)
        assert (receiver.positions == ends).all()
        assert (receiver.records, receiver.foreign_records) == (40, 2)
        assert sorted((f.partition, f.offset) for f in receiver.foreign) == [(1, 1), (5, 0)]
    seen = sorted(zip(rows["message_id"].to_pylist(), rows["child"].to_pylist(), strict=True))
    assert seen == [(n, c) for n in range(40) if n not in (5, 17) for c in range(1, 11)]
    with Receiver(kafka_bootstrap, topic, ends - 1) as receiver:  # from given offsets: the last of each
        assert receiver.read_to(ends, WAIT_S).num_rows > 0
        assert receiver.records == 16


def test_decode_rate(kafka_bootstrap: str, topics: Topics, topic: str) -> None:
    # Not a threshold: the figure is printed. Windows of ten with four hops, as all-in-one has them.
    value = encode(
        "sender", "spout:1/m:20/w:30/sender:40", 1, [member(n, 1, 5, (1, 2, 3, 4)) for n in range(10)]
    )
    produce(kafka_bootstrap, topic, [value] * 8_000)
    ends = topics.end_offsets(topic)
    with Receiver(kafka_bootstrap, topic, ends - 1) as warm:
        warm.read_to(ends, WAIT_S)
    with Receiver(kafka_bootstrap, topic) as receiver:
        before = psutil.Process(receiver.pid).cpu_times()
        start = time.monotonic()
        rows = receiver.read_to(ends, WAIT_S)
        seconds = time.monotonic() - start
        after = psutil.Process(receiver.pid).cpu_times()
    assert rows.num_rows == 80_000
    cpu = after.user + after.system - before.user - before.system
    print(
        f"\n{rows.num_rows / seconds:.0f} members/s by wall clock, {rows.num_rows / cpu:.0f} by its CPU time"
    )


# ---- both, and the ledger ----


def answer(bootstrap: str, topic: str, out: str, drop: set[int], repeat: set[int]) -> None:
    """Stand in for the topology: answer messages, but not those to drop, and some twice, in no order."""
    now = time.monotonic_ns()
    values = []
    for record in read_all(bootstrap, topic):
        n = json.loads(record.value)["message_id"]
        times = 0 if n in drop else 2 if n in repeat else 1
        values += [encode("sender", "", now, [member(n, t=now)])] * times
    random.Random(1).shuffle(values)
    produce(bootstrap, out, values)


def test_the_ledger_sees_exactly_what_was_dropped_and_repeated_in_any_order(
    kafka_bootstrap: str, topic: str, out: str, figure: Callable[[str], None]
) -> None:
    with KafkaLoad(kafka_bootstrap, {topic: 1}, out) as load:
        load.start(Constant(300.0))
        until(lambda: load.sent().num_rows >= 150, "messages sent")
        load.stop()
        drop, repeat = {3, 50, 51, 120}, {0, 7, 130}
        answer(kafka_bootstrap, topic, out, drop, repeat)
        load.catch_up()
        sent, received, counts = load.sent(), load.received(), load.counts()
        due = sent["scheduled_ns"].to_numpy()
        ledger = settle(
            LedgerEvidence(sent, received, (int(due[0]), int(due[-1]) + 1), *counts, load.records_read)
        )
        assert counts == (sent.num_rows, sent.num_rows - len(drop) + len(repeat))
        assert (ledger.sent, ledger.lost, ledger.duplicates) == (sent.num_rows, 4, 3)
        assert set(ledger.lost_ids) == drop
        figure(f"of {ledger.sent} messages: lost {ledger.lost}, duplicates {ledger.duplicates}")
        assert ledger.balanced, ledger.problems
        assert not ledger.complete

        done = assemble(
            sent, received, {1: "spout", 20: "bolt", 40: "sender"}, (int(due[0]), int(due[-1]) + 1)
        )
        assert done.complaints == ()
        assert set(done.latency["ground_truth_ms"].to_pylist()) == {0.2}
        assert (done.latency["broker_ms"].to_numpy() >= 0).all()

        load.begin_step()  # a second step counts from nothing, and its identifiers go on
        assert load.counts() == (0, 0)
        load.start(Constant(300.0))
        until(lambda: load.sent().num_rows >= 20, "messages sent")
        load.stop()
        assert load.sent()["message_id"][0].as_py() == sent.num_rows
        assert load.counts() == (load.sent().num_rows, 0)


def test_records_that_come_after_the_last_look_are_in_no_count(
    kafka_bootstrap: str, topics: Topics, topic: str, out: str
) -> None:
    """A sliding window of time goes on firing, of no member: the broker has them, the step does not."""
    of_no_member = [encode("sender", "spout:1/window:20/sender:40", 1, [])] * 20

    def write() -> None:
        before = int(topics.end_offsets(out).sum())
        produce(kafka_bootstrap, out, of_no_member)
        assert int(topics.end_offsets(out).sum()) == before + 20

    with KafkaLoad(kafka_bootstrap, {topic: 1}, out) as load:
        write()
        load.catch_up()
        read = load.records_read
        assert load.counts() == (0, read) == (0, 20)
        write()
        assert load.counts() == (0, 20)
        assert load.records_read == 20
        load.catch_up()
        assert load.counts() == (0, 40)
        assert load.records_read == 40
        assert load.received().num_rows == 0
        write()
        load.begin_step()  # what was written by then is the last step's
        assert load.counts() == (0, 0)
        assert load.records_read == 0


# ---- trouble ----


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def test_no_broker_is_one_clear_line() -> None:
    address = f"127.0.0.1:{free_port()}"
    for start in (lambda: Topics(address), lambda: Generator(address, "t"), lambda: Receiver(address, "t")):
        with pytest.raises(ClusterError) as e:
            start()
        assert f"kafka at {address}: not reachable" in str(e.value)
        assert "\n" not in str(e.value)


def test_no_topic_is_one_clear_line(kafka_bootstrap: str) -> None:
    name = "none-of-that-name"
    for start in (lambda: Generator(kafka_bootstrap, {name: 1}), lambda: Receiver(kafka_bootstrap, name)):
        with pytest.raises(ClusterError, match=f"there is no topic {name}"):
            start()


def test_a_killed_generator_is_one_clear_line(kafka_bootstrap: str, topic: str) -> None:
    with Generator(kafka_bootstrap, {topic: 1}) as generator:
        generator.start(Constant(100.0))
        os.kill(generator.pid, signal.SIGKILL)
        with pytest.raises(ClusterError, match=r"generator process ended \(exit status -9\)"):
            until(lambda: generator.poll() is None, "the error")


PARENT = """
import sys, time
from harness.experiments.schedule import Constant
from harness.workload.generator import Generator
from harness.workload.receiver import Receiver

if __name__ == "__main__":
    bootstrap, topic = sys.argv[1:]
    generator, receiver = Generator(bootstrap, {topic: 1}), Receiver(bootstrap, topic)
    generator.start(Constant(100.0))
    print(generator.pid, receiver.pid, flush=True)
    time.sleep(600)
"""


def test_neither_process_outlives_a_parent_that_is_killed(
    kafka_bootstrap: str, topic: str, tmp_path: object
) -> None:
    script = f"{tmp_path}/parent.py"
    with open(script, "w", encoding="utf-8") as out:
        out.write(PARENT)
    parent = subprocess.Popen(
        [sys.executable, script, kafka_bootstrap, topic], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    children = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(children) == 2
    parent.kill()
    parent.wait()
    until(lambda: not any(_runs(pid) for pid in children), "the end of both processes")


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
