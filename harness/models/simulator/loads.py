"""Mean rates and loads of a network, by its traffic equations: for sizes, warm-ups and random plans.

Exact in the mean but for time windows, whose share of windows that are not empty is taken as for Poisson
arrivals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from harness.models.contract.layout import FloatArray, Output, outputs
from harness.models.network import Input, Network
from harness.plans import Window


@dataclass(frozen=True)
class Loads:
    """Mean rates of a network's tuples, windows and acks, and the loads by them.

    Attributes
    ----------
    task_tps : mapping of component to array (tasks)
        Tuples a second that reach each task; of a spout, messages.
    executor_tps : mapping of Input to array (executors of the component)
        Tuples a second of each input.
    firing_tps : mapping of component to array (tasks)
        Windows a second with something in them.
    anchors : mapping of component to float
        Messages that a tuple of the component comes from: 1 before any window.
    emitted_tps : mapping of Output to array (executors of the component)
    acker_tps : float
        Messages a second to each acker.
    utilisation : array (executors)
        Share of the time that the executor is busy, but for waiting for cores that are played.
    host_cores : array (hosts)
        Cores that the executors need.
    """

    network: Network
    task_tps: Mapping[str, FloatArray]
    executor_tps: Mapping[Input, FloatArray]
    firing_tps: Mapping[str, FloatArray]
    anchors: Mapping[str, float]
    emitted_tps: Mapping[Output, FloatArray]
    acker_tps: float
    utilisation: FloatArray
    host_cores: FloatArray

    @property
    def host_load(self) -> FloatArray:
        """Share of each host's cores or quota that is needed by all; 0 where no cores are played."""
        network = self.network
        if network.stretch is not None:
            return np.zeros(network.cores.size)
        return np.maximum(
            (self.host_cores + network.background_cores) / network.cores, self.host_cores / network.by_quota
        )

    @property
    def busiest(self) -> float:
        """The highest load of an executor or host; from 1 on the network is saturated."""
        return float(max(self.utilisation.max(), self.host_load.max()))

    @property
    def visits_per_s(self) -> float:
        """Tuples that are served a second, messages at spouts included."""
        return float(sum(rate.sum() for rate in self.task_tps.values()))

    @property
    def slowest_batches_s(self) -> float:
        """Time that batches take to go, all on a message's way; 0 without batches.

        Of the rewriting layer's it is the longest flush; of those that Storm never flushes, the mean time to
        fill one, once for each component and twice for the acks.
        """
        flushed_s = max((rule.flush_ms / 1000 for rule in self.network.row_batches.values()), default=0.0)
        if self.network.batch == 1:
            return flushed_s
        layout, total, receivers = self.network.layout, 0.0, 0
        for stream, rows in self.network.routing.items():
            source, target = layout.of[stream.source], layout.of[stream.target]
            share = np.nan_to_num(rows) @ layout.membership[stream.target].T
            elsewhere = layout.worker[source][:, None] != layout.worker[target]
            far = self.emitted_tps[Output(stream.source, stream.stream)] @ (share * elsewhere)
            total, receivers = total + float(far.sum()), receivers + int(np.count_nonzero(far))
        filled_s = self.network.batch * receivers / total if total > 0 else 0.0
        return flushed_s + (len(layout.order) + 2) * filled_s

    def slowest_window_s(self) -> float:
        """Time until the slowest task's tuple has left its window and been acked; 0 without windows."""
        slowest = 0.0
        for name, window in self.network.windows.items():
            rates = self.task_tps[name]
            active = rates[rates > 0]
            if window.kind == "time":
                slowest = max(slowest, (window.length + window.slide) / 1000)
            elif active.size:
                slowest = max(slowest, float((window.length + window.slide) / active.min()))
        return slowest


def loads(network: Network) -> Loads:
    """Solve the traffic equations."""
    layout, plan = network.layout, network.layout.plan.query_plan
    task_tps: dict[str, FloatArray] = {}
    executor_tps: dict[Input, FloatArray] = {}
    firing_tps: dict[str, FloatArray] = {}
    anchors: dict[str, float] = {}
    emitted: dict[Output, FloatArray] = {}
    busy, cpu = np.zeros(len(layout)), np.zeros(len(layout))
    told = 0.0
    for name in layout.order:
        mine, membership = layout.of[name], layout.membership[name]
        made = outputs(plan, name)
        if name in network.input_tps:
            task_tps[name], anchors[name] = np.asarray(network.input_tps[name], dtype=np.float64), 1.0
            rate = membership @ task_tps[name]
            own = Input(name, "", "")
            entries = network.fanout.get(own, {})
            emitted |= {o: rate * _mean(entries.get(o, np.array([0.0, 1.0]))) for o in made}
            executor_tps[own] = rate
            told += float(rate.sum())
        else:
            task_tps[name] = np.zeros(len(layout.tasks[name]))
            anchors[name] = 1.0
            for s in plan.inputs(name):
                arriving = emitted[Output(s.source, s.stream)] @ np.nan_to_num(network.routing[s])
                task_tps[name] = task_tps[name] + arriving
                executor_tps[Input(name, s.source, s.stream)] = membership @ arriving
                anchors[name] = max(anchors[name], _anchors_made(network, s.source, task_tps, anchors))
            told += float(task_tps[name].sum()) * anchors[name]
        inputs = [i for i in executor_tps if i.component == name]
        if name in network.windows:
            firing_tps[name] = firings(network.windows[name], task_tps[name])
            whole = Input(name, "", "")
            for o in made:
                emitted[o] = membership @ firing_tps[name] * _mean(network.fanout[whole][o])
        elif name not in network.input_tps:
            for o in made:
                parts = [executor_tps[i] * _mean(network.fanout[i][o]) for i in inputs]
                emitted[o] = np.sum(parts, axis=0)
        for i in inputs:
            if i in network.service:
                service, per_ms = network.service[i], executor_tps[i] / 1000
                cpu[mine] += per_ms * service.cpu_ms.mean_ms
                stretch = 1.0 if network.stretch is None else network.stretch[mine]
                busy[mine] += per_ms * (service.cpu_ms.mean_ms * stretch + service.wait_ms.mean_ms)
            if not made and name in network.send_ms:
                busy[mine] += executor_tps[i] / 1000 * network.send_ms[name].mean_ms
    ackers = layout.ackers.stop - layout.ackers.start
    told = told / ackers if network.acks and ackers else 0.0
    cpu[layout.ackers] = told / 1000 * network.acker_service_ms.mean_ms
    busy[layout.ackers] = cpu[layout.ackers] * (
        1.0 if network.stretch is None else network.stretch[layout.ackers]
    )
    cores = np.zeros(network.cores.size)
    np.add.at(cores, network.host[layout.worker], cpu)
    return Loads(network, task_tps, executor_tps, firing_tps, anchors, emitted, told, busy, cores)


def firings(window: Window, task_tps: FloatArray) -> FloatArray:
    """Return the windows a second of each task."""
    if window.kind == "count":
        return task_tps / window.slide
    return 1000 / window.slide * -np.expm1(-task_tps * window.length / 1000)


def _anchors_made(
    network: Network, source: str, task_tps: Mapping[str, FloatArray], anchors: Mapping[str, float]
) -> float:
    """Messages that a tuple of a component comes from, at most: of all members of a window."""
    window = network.windows.get(source)
    if window is None:
        return anchors[source]
    if window.kind == "count":
        return anchors[source] * window.length
    return anchors[source] * (1 + window.length / 1000 * float(task_tps[source].max(initial=0.0)))


def _mean(probabilities: FloatArray) -> float:
    return float(np.arange(len(probabilities)) @ probabilities)
