"""Line protocol in, columns out: against influxdb-client's writer, and over real HTTP."""

from __future__ import annotations

import pytest
from budgets import budget
from hypothesis import given, settings
from hypothesis import strategies as st
from influxdb_client import Point, WritePrecision

from harness.backends.metrics.rows import MetricRows
from harness.schemas import METRICS

LINE = (
    "transferred,topology=t,component=bolt-a,task=20,host=127.0.0.2,port=6700,stream=default,peer=41"
    " count=37i 1700000000000000000"
)


def line(**changes: str) -> str:
    parts = {"component": "c", "task": "1", "fields": "count=1i", "time": "1700000000000000000", **changes}
    tags = f"topology=t,component={parts['component']},task={parts['task']},host=h,port=1"
    return f"m,{tags} {parts['fields']} {parts['time']}"


def test_a_line_by_hand() -> None:
    rows = MetricRows()
    assert rows.add(LINE, 1) == []
    table = rows.rows(0, 2 * 10**12)
    assert table.schema == METRICS
    assert table.to_pylist() == [
        {
            "bucket_end_ms": 1_700_000_000_000,
            "measurement": "transferred",
            "component": "bolt-a",
            "task": 20,
            "worker": "127.0.0.2:6700",
            "stream": "default",
            "peer": "41",
            "field": "count",
            "value": 37.0,
        }
    ]


# What the writer cannot express in a line of its own is left out: line feeds in text and names, and
# backslashes in names, which the protocol does not escape (before "=", "," or a space they are ambiguous).
names = st.text(
    st.characters(blacklist_characters="\n\r\t\0\\", blacklist_categories=("Cs", "Cc")),
    min_size=1,
    max_size=12,
).filter(lambda s: not s.startswith("#") and s.strip() == s and s)
numbers = st.integers(-(2**63), 2**63 - 1) | st.floats(
    allow_nan=False, allow_infinity=False, allow_subnormal=False
)
texts = st.text(st.characters(blacklist_characters="\n\r\0", blacklist_categories=("Cs", "Cc")), max_size=20)


@given(
    measurement=names,
    component=names,
    stream=st.none() | names,
    fields=st.dictionaries(names, numbers | texts, min_size=1, max_size=5),
    time_ns=st.integers(0, 2**62),
)
@settings(max_examples=budget(300), deadline=None)
def test_what_influxdb_clients_writer_writes_is_read_back(
    measurement: str, component: str, stream: str | None, fields: dict[str, float | str], time_ns: int
) -> None:
    point = Point(measurement).tag("topology", "t").tag("component", component).tag("task", "3")
    point = point.tag("host", "h").tag("port", "1").time(time_ns, WritePrecision.NS)
    if stream is not None:
        point = point.tag("stream", stream)
    for name, value in fields.items():
        point = point.field(name, value)
    rows = MetricRows()
    assert rows.add(point.to_line_protocol(), 1) == []
    end_ms = time_ns // 10**6
    read = {r["field"]: r["value"] for r in rows.rows(end_ms - 1, end_ms).to_pylist()}
    assert read == {n: float(v) for n, v in fields.items() if not isinstance(v, str)}
    said = rows.texts(measurement, end_ms - 1)
    assert {t["field"]: t["value"] for t in said} == {n: v for n, v in fields.items() if isinstance(v, str)}
    for row in rows.rows(end_ms - 1, end_ms).to_pylist():
        assert (row["measurement"], row["component"], row["stream"]) == (measurement, component, stream or "")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("nonsense", "line 1: "),
        (line(time=""), "no timestamp"),
        (line(task="x"), "task 'x' is not a number"),
        (line(fields="a=true"), "true or false"),
        ("m,component=c,task=1,host=h,port=1 a=1 5", "no tag topology"),
        ("m,topology=t,component=c,task=1,host=h a=1 5", "no tag port"),
        (line(fields="a=nan"), "line 1: "),
        (line(time="5 6"), "line 1: "),
    ],
)
def test_a_malformed_line_is_named_and_the_others_are_kept(text: str, says: str) -> None:
    rows = MetricRows()
    (complaint,) = rows.add(f"{text}\n{LINE}\n\n# comment", 1)
    assert says in complaint
    assert (rows.malformed, rows.complaints) == (1, [complaint])
    assert rows.rows(0, 2 * 10**12).num_rows == 1


def test_a_batch_delivered_twice_counts_once_and_the_later_value_stands() -> None:
    rows = MetricRows()
    rows.add(f"{LINE}\n{line(fields='a=1i,b=2i')}", 1)
    rows.add(f"{LINE}\n{line(fields='a=5i')}", 1)
    read = {(r["measurement"], r["field"]): r["value"] for r in rows.rows(0, 2 * 10**12).to_pylist()}
    assert read == {("transferred", "count"): 37.0, ("m", "a"): 5.0, ("m", "b"): 2.0}


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 3)), max_size=40),
    st.integers(-1, 21),
    st.integers(-1, 21),
)
@settings(deadline=None)
def test_rows_are_those_of_the_span_and_can_be_forgotten(
    buckets: list[tuple[int, int]], since: int, until: int
) -> None:
    rows = MetricRows()
    for ms, task in buckets:
        rows.add(line(task=str(task), time=str(ms), fields='a=1i,members="1/0"'), 10**6)
    within = {(ms, task) for ms, task in buckets if since < ms <= until}
    read = [(r["bucket_end_ms"], r["task"]) for r in rows.rows(since, until).to_pylist()]
    assert sorted(read) == sorted(within)
    rows.forget(until)
    left = {(ms, task) for ms, task in buckets if ms > until}
    assert {(r["bucket_end_ms"], r["task"]) for r in rows.rows(-1, 100).to_pylist()} == left
    assert {(t["bucket_end_ms"], t["task"]) for t in rows.texts("m", -1)} == left


def test_topologies_can_be_told_apart() -> None:
    rows = MetricRows()
    rows.add(f"{LINE}\n{LINE.replace('topology=t', 'topology=u').replace('37i', '3i')}", 1)
    assert rows.rows(0, 2 * 10**12, topology="u")["value"].to_pylist() == [3.0]
    assert rows.rows(0, 2 * 10**12, topology="none").num_rows == 0


@pytest.mark.parametrize(
    ("poison", "says"),
    [
        (line(task="99999999999"), "task 99999999999"),
        (line(task="-1"), "task -1"),
        (line(task="9" * 5000), "task '999"),
        (line(time="-5"), "timestamp -5"),
        (line(time="99999999999999999999999"), "line 2: "),
        (line(fields="a=99999999999999999999i"), "line 2: "),
        (line(fields='a="\udcff"'), "line 2: "),  # a byte that is no UTF-8, as the receiver hands it on
        ("\x00" * 40, "line 2: "),
    ],
)
def test_a_poisoned_line_spoils_no_other(poison: str, says: str) -> None:
    rows = MetricRows()
    (complaint,) = rows.add(f"{LINE}\n{poison}\n{line()}", 1)
    assert complaint.startswith("line 2: ")
    assert says in complaint
    assert (rows.lines, rows.malformed) == (2, 1)
    assert rows.rows(0, 2 * 10**12)["value"].to_pylist() == [37.0, 1.0]


def test_seconds_that_no_millisecond_can_hold_are_refused() -> None:
    rows = MetricRows()
    assert "timestamp 10000000000000000 is not" in rows.add(line(time=str(10**16)), 10**9)[0]


@settings(max_examples=budget(500), deadline=None)
@given(
    garbage=st.text(max_size=200).map(lambda t: t.replace("\n", " ").replace("\0", " "))
    | st.builds(
        lambda task, fields, time: line(task=task, fields=fields, time=time),
        st.text(max_size=12).map(lambda t: t.replace("\n", " ")),
        st.text('abi=,."\\ 0123456789eunft-', max_size=30),
        st.integers().map(str),
    ),
    unit=st.sampled_from([1, 10**9]),
)
def test_no_line_raises_or_shifts_the_rows_of_others(garbage: str, unit: int) -> None:
    rows = MetricRows()
    rows.add(f"{LINE}\n{garbage}\n{line()}", 1)
    rows.add(garbage, unit)
    known = {(r["measurement"], r["task"], r["value"]) for r in rows.rows(0, 2 * 10**12).to_pylist()}
    assert ("transferred", 20, 37.0) in known
    assert rows.lines >= 2
