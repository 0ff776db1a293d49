"""Cost of a message on a machine: measured as an experiment, fitted, and kept for tuners.

The experiment is a topology of two executors in different workers that do nothing but send and receive, and
as much user code as asked for. Every batch size, tuple size and time of user code is a stream of its own
(``SaturatedPair`` of the topologies' jar). The streams take turns within one submission, so that disturbances
of the machine are spread over all of them.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from harness.analysis.judge.predicting import observation
from harness.app.jars import jars
from harness.errors import UsageError
from harness.experiments.config import Experiment
from harness.experiments.loading import load
from harness.machine.companions import data_folder
from harness.machine.whole_files import write_atomically
from harness.protocols import Observation, Settings
from harness.runs import Run
from harness.schemas import Metric, MetricField
from harness.topologies.jar import ACKERS
from harness.tuning.message_fit import FittedMessageCost, ThroughputRow, fit_message_cost

NAME = "message-costs"
MAIN = "harness.storm.topologies.SaturatedPair"
SENDER, RECEIVER = "sender", "receiver"
WARM_UP_S = 10
IN_FLIGHT = 20
"""Most batches that are not acked; those of fewer than 50 tuples count as 50."""
HEAP_MB = 768
"""Heap of each worker: waiting tuples are no reason to collect garbage."""
LEAST_PHASE_S = 4
"""Wherever it begins there is a bucket of a second whose neighbours are its stream's as well."""
TURN_S = 0.5
"""Time that draining adds to a phase, about."""
MATTERS: Mapping[str, object] = {
    "topology.producer.batch.size": 1,
    "topology.transfer.batch.size": 1,
    "topology.tuple.serializer": "org.apache.storm.serialization.types.ListDelegateSerializer",
    "topology.kryo.factory": "org.apache.storm.serialization.DefaultKryoFactory",
}
"""Settings of Storm by which a message costs something else, beside whether there are ackers.

The values are Storm 2.8.3's own (its ``defaults.yaml``), in force unless set. How a tuple's receiver is
chosen is not among them: it is a tuple's cost, which tuners take from the step.
"""


class StreamSizes(NamedTuple):
    """Tuples in a message, bytes of a tuple's payload, and microseconds of user code for each tuple."""

    batch: int
    payload_bytes: int
    work_us: int

    @classmethod
    def of(cls, stream: str) -> StreamSizes:
        """Return the sizes that a stream's name says.

        Examples
        --------
        >>> StreamSizes.of("b10-t100-w50")
        StreamSizes(batch=10, payload_bytes=100, work_us=50)
        """
        return cls(*(int(part[1:]) for part in stream.split("-")))

    @property
    def stream(self) -> str:
        """Name of the stream, as ``SaturatedPair`` has it."""
        return f"b{self.batch}-t{self.payload_bytes}-w{self.work_us}"


class MeasuredStream(NamedTuple):
    """Throughputs of one batch size, tuple size and time of user code.

    Attributes
    ----------
    batch : int
    payload_bytes : int
        As it was asked for.
    work_us : int
        User code in the sender, a tuple.
    tuple_bytes : float
        As it was serialised in batches.
    throughputs_tps : tuple of float
        One a phase.
    """

    batch: int
    payload_bytes: int
    work_us: int
    tuple_bytes: float
    throughputs_tps: tuple[float, ...]


def message_experiment(
    batches: Sequence[int],
    sizes: Sequence[int],
    works_us: Sequence[int],
    rounds: int,
    phase_s: int,
    overrides: Mapping[str, object],
) -> Experiment:
    """Return the experiment that measures throughputs of all batch sizes, tuple sizes and times of user code.

    Parameters
    ----------
    batches, sizes : sequence of int
        Tuples in a message, and bytes of a tuple's payload: two of each at least.
    works_us : sequence of int
        User code in the sender, microseconds a tuple.
    rounds, phase_s : int
        How often each stream has a phase, and of how many seconds.
    overrides : mapping
        Keys of the experiment's ``cluster``.

    Raises
    ------
    UsageError
        For fewer sizes, sizes that are no sizes, or phases too short to hold a whole bucket.
    """
    for name, listed in (("batches", batches), ("sizes", sizes)):
        if len(set(listed)) < 2 or min(listed) < 1:
            raise UsageError(f"--{name} {','.join(map(str, listed))}: give two or more, of at least 1")
    if min(works_us) < 0:
        raise UsageError(f"--work-us {','.join(map(str, works_us))}: give no times below 0")
    if phase_s < LEAST_PHASE_S or rounds < 1:
        raise UsageError(f"a phase has {LEAST_PHASE_S} seconds at least, and there is one round at least")
    cells = itertools.starmap(StreamSizes, product(batches, sizes, works_us))
    streams = {f"{SENDER}:{cell.stream}": cell.batch for cell in cells}
    interval_s = round(rounds * len(streams) * (phase_s + TURN_S))
    lists = [",".join(map(str, dict.fromkeys(listed))) for listed in (batches, sizes, works_us)]
    return Experiment.model_validate(
        {
            "name": NAME,
            "topology": {
                "jar": jars() / "topologies.jar",
                "main": MAIN,
                "args": ["{name}", *lists, str(1000 * phase_s), str(IN_FLIGHT)],
                "ackers": 1,
                "batching": streams,
            },
            "cluster": {"nodes": 2, "slots_per_node": 1, "worker_heap_mb": HEAP_MB, **overrides},
            "measure": {
                "bucket_s": 1,
                "attempts": 1,
                "burn_in": {"least_s": WARM_UP_S, "most_s": WARM_UP_S, "drift_pct": 1000},
                "interval": {
                    "precision_pct": 1000,
                    "least_s": interval_s,
                    "most_s": interval_s,
                    "looks": 1,
                },
            },
            "steps": {"plan": [{"executors": 1, "workers": 2}]},
        }
    )


def measured_streams(run: Run) -> tuple[MeasuredStream, ...]:
    """Return the throughputs that a run of the experiment measured.

    Raises
    ------
    UsageError
        When it is no such run, or sender and receiver were in one worker.
    """
    experiment = load(run.path / "experiment.yaml")
    if experiment.name != NAME or not run.finished_steps:
        raise UsageError(f"{run.path}: no measurement of messages", "make one with: harness measure-messages")
    plan = run.plan(0).start
    if plan.of(SENDER)[0].worker == plan.of(RECEIVER)[0].worker:
        raise UsageError(f"{run.path}: sender and receiver are in one worker, where nothing is serialised")
    seen = observation(run, experiment, 0)
    sizes = tuple_bytes(seen)
    return tuple(
        MeasuredStream(*cell, sizes[cell.payload_bytes], measured)
        for cell, measured in sorted(throughputs(seen).items())
        if cell.payload_bytes in sizes
    )


def lost_streams(run: Run, measured: Sequence[MeasuredStream]) -> tuple[str, ...]:
    """Return the names of the streams of which no whole bucket was measured, in the order asked."""
    found = {StreamSizes(s.batch, s.payload_bytes, s.work_us).stream for s in measured}
    asked = asked_streams(load(run.path / "experiment.yaml"))
    return tuple(stream for stream in asked if stream not in found)


def asked_streams(experiment: Experiment) -> tuple[str, ...]:
    """Return the names of the streams that an experiment of ``message_experiment`` measures."""
    return tuple(str(key).partition(":")[2] for key in experiment.topology.batching)


def fit_streams(streams: Sequence[MeasuredStream]) -> FittedMessageCost:
    """Fit n, s and ppt to measured throughputs, each phase a row.

    Raises
    ------
    UsageError
        When they do not tell the three apart.
    """
    return fit_message_cost(
        [ThroughputRow(s.batch, s.tuple_bytes, tps, s.work_us) for s in streams for tps in s.throughputs_tps]
    )


def throughputs(seen: Observation) -> dict[StreamSizes, tuple[float, ...]]:
    """Return tuples a second by stream and phase: of buckets that are one stream's as are those beside."""
    mine = seen.metrics[
        (seen.metrics["measurement"] == Metric.TRANSFERRED) & (seen.metrics["component"] == SENDER)
    ]
    table = mine.pivot_table(
        index="bucket_end_ms", columns="stream", values="value", aggfunc="sum", observed=True
    ).fillna(0.0)
    counts = table.to_numpy()
    busy = np.where(counts > 0, 1, 0).sum(axis=1) == 1
    stream = np.where(busy, counts.argmax(axis=1), -1)
    seconds = np.diff(table.index.to_numpy()) / 1000
    found: dict[StreamSizes, list[list[float]]] = {}
    inner_before = False
    for i in range(1, len(stream) - 1):
        inner = stream[i] >= 0 and stream[i - 1] == stream[i] == stream[i + 1]
        if inner:
            phases = found.setdefault(StreamSizes.of(str(table.columns[stream[i]])), [])
            if not inner_before:
                phases.append([])
            phases[-1].append(float(counts[i, stream[i]] / seconds[i - 1]))
        inner_before = inner
    return {key: tuple(float(np.mean(phase)) for phase in phases) for key, phases in found.items()}


def tuple_bytes(seen: Observation) -> dict[int, float]:
    """Return the bytes of a tuple in batches, by payload; a batch's own part is a message's."""
    rows = seen.metrics[seen.metrics["measurement"] == Metric.BATCH]
    sums: pd.Series[float] = rows.groupby(["stream", "field"], observed=True)["value"].sum()
    found: dict[int, tuple[int, float]] = {}
    for stream in sums.index.get_level_values("stream").unique():
        batch, payload, _ = StreamSizes.of(str(stream))
        written = sums.get((stream, MetricField.BYTES), 0.0)
        tuples = sums.get((stream, MetricField.BYTES_TUPLES), 0.0)
        if tuples > 0 and batch > found.get(payload, (0, 0.0))[0]:
            found[payload] = batch, float(written / tuples)
    return {payload: size for payload, (_, size) in found.items()}


def keep(run: Run, fit: FittedMessageCost) -> Path | None:
    """Keep a fit for its machine and settings, in the user's data; return the file.

    Of a run whose sender had user code none is kept (None): it hides what a message costs.

    Raises
    ------
    UsageError
        When it cannot be written.
    """
    experiment = load(run.path / "experiment.yaml")
    if any(StreamSizes.of(stream).work_us for stream in asked_streams(experiment)):
        return None
    circumstances = circumstances_of(run, experiment.storm_settings())
    path = _file(circumstances)
    kept = {
        **circumstances,
        "measured": run.environment.get("started", ""),
        "run": run.path.name,
        **fit.as_json(),
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(kept, indent=1))
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}", "set XDG_DATA_HOME") from None
    return path


def measured_parameters(run: Run, settings: Settings) -> dict[str, dict[str, object]]:
    """Return, by tuner, parameters that were measured on a run's machine under its settings.

    n and s of a message are known where ``harness measure-messages`` was run there.

    Raises
    ------
    UsageError
        When what is kept cannot be read.
    """
    path = _file(circumstances_of(run, settings.storm))
    if not path.is_file():
        return {}
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        n, s = kept["overhead_us"], kept["per_byte_ns"]
        origin = (
            f"measured {kept['measured']} on the run's machine: n {n['low']:.3g} to {n['high']:.3g} us,"
            f" s {s['low']:.3g} to {s['high']:.3g} ns a byte"
        )
        message = {"n_us": float(n["value"]), "s_ns_per_byte": float(s["value"]), "origin": origin}
    except (OSError, ValueError, KeyError, TypeError):
        raise UsageError(f"{path}: not what harness measure-messages keeps", "remove it") from None
    return {tuner: {"message": message} for tuner in ("aeolus", "model-guided")}


def circumstances_of(run: Run, storm: Mapping[str, object]) -> dict[str, object]:
    """Return what a message's cost depends on, of a run and its Storm settings."""
    machine = run.environment.get("machine", {})
    tracked = storm.get(ACKERS) != 0  # without the setting a worker has one
    settings: dict[str, object] = {ACKERS: tracked, **{key: storm.get(key, MATTERS[key]) for key in MATTERS}}
    shape = load(run.path / "experiment.yaml").cluster
    return {
        "machine": {"cpu": machine.get("cpu"), "cores": machine.get("cores")},
        "storm": run.environment.get("cluster", {}).get("storm"),
        "worker_jit": shape.worker_jit,
        "settings": settings,
    }


def _file(circumstances: Mapping[str, object]) -> Path:
    name = sha256(json.dumps(circumstances, sort_keys=True).encode()).hexdigest()[:16]
    return data_folder(NAME) / f"{name}.json"
