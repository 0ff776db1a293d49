"""From a network to the flat arrays that compiled code works on."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from harness.errors import ModelDeclined
from harness.models.contract.answers import Saturated
from harness.models.contract.layout import FloatArray, IntArray, Output, outputs
from harness.models.network import Atoms, Input, Network, hop_kinds
from harness.models.quotas import PERIOD_MS
from harness.models.simulator.draws import Drawables
from harness.models.simulator.kinds import (
    ACKER,
    BOLT,
    COMPONENT,
    COUNT_WINDOW,
    EXECUTOR,
    FAN,
    HOST,
    INPUT,
    NAN,
    NONE,
    SPOUT,
    STREAM,
    TASK,
    TIME_WINDOW,
    TURN,
    Counters,
    Floats,
    Indices,
    Records,
)
from harness.models.simulator.relief_records import ReliefRecords, relief_records, require_playable
from harness.plans import BatchSize, Stream

ROUND_SIZE = 1000
"""Storm's load-aware shuffle prepares that many choices by the tasks' weights."""


@dataclass(frozen=True)
class Parts:
    """The part of a world that comes of the network; attributes as in ``World``.

    Attributes
    ----------
    identifiers : array (tasks)
        Storm's numbers of the tasks.
    relief : ReliefRecords
    inputs_by_number : list of Input
        The names of the records of ``inputs``.
    boxes : int
        Batches of rows.
    """

    tables: Records
    cells: Records
    components: Records
    inputs: Records
    fans: Records
    streams: Records
    routes: Indices
    turns: Records
    turn_tasks: Indices
    executors: Records
    tasks: Records
    hosts: Records
    hops: Indices
    batch: Floats
    ackers: Counters
    identifiers: IntArray
    relief: ReliefRecords
    inputs_by_number: list[Input] = field(default_factory=list)
    boxes: int = 0


def build(network: Network) -> Parts:
    """Lay a network out.

    Raises
    ------
    ModelDeclined
        When the network lacks something or has what cannot be: it names which.
    """
    if network.row_batches and max(network.batch, network.transfer_batch) > 1:
        raise ModelDeclined("batches of the rewriting layer beside Storm's own are not played")
    require_playable(network)
    return _Builder(network).parts()


class _Builder:
    def __init__(self, network: Network) -> None:
        self.network = network
        self.layout = network.layout
        self.plan = network.layout.plan.query_plan
        self.number = {name: i for i, name in enumerate(self.layout.order)}
        self.draws = Drawables()
        self.inputs: list[tuple[int, ...]] = []
        self.input_number: dict[Input, int] = {}
        self.fans: list[tuple[int, ...]] = []
        self.streams: list[tuple[float, ...]] = []
        self.boxes = 0
        self.watched = list(network.marks)
        self.helpers = network.helpers
        self.help_inputs: dict[str, int] = {}
        self.routes: list[int] = []
        self.turns: list[IntArray] = []
        firsts = np.cumsum([0] + [len(self.layout.tasks[c]) for c in self.layout.order])
        self.first_task = dict(zip(self.layout.order, firsts[:-1].tolist(), strict=True))
        # Every input has a number before any output names it.
        for name in self.layout.order:
            for s in self.plan.inputs(name):
                self.input_number[Input(name, s.source, s.stream)] = len(self.input_number)

    def parts(self) -> Parts:
        network, layout = self.network, self.layout
        fans_of = {name: self._streams(name) for name in layout.order}
        for key in self.input_number:
            made = (0, 0) if key.component in network.windows else self._fans(key, fans_of[key.component])
            self.inputs.append((*self._service(key), *made))
        components = np.array([self._component(n, fans_of[n]) for n in layout.order], dtype=COMPONENT)
        for helped, helper in self.helpers.items():
            (s,) = self.plan.inputs(helped)
            key = Input(helped, s.source, s.stream)
            made = self._fans(key, self._streams(helped, helper))
            self.help_inputs[helped] = len(self.inputs)
            self.inputs.append((*self._service(key), *made))
        ackers = layout.ackers
        count = ackers.stop - ackers.start if network.acks else 0
        acker_service = self._atoms(network.acker_service_ms, "the ackers' service")
        components = np.append(components, np.zeros(1, dtype=COMPONENT))
        components[-1]["kind"] = ACKER
        components[-1]["first_executor"], components[-1]["executors"] = ackers.start, count
        components[-1]["input"] = components[-1]["send"] = NONE
        kinds, between = hop_kinds(layout, network.hops)
        hops = np.array([self._atoms(a, "hops") for a in kinds], dtype=np.int32)[between]
        inputs = np.array(self.inputs, dtype=INPUT)
        tables, cells = self.draws.arrays()
        executors, tasks = self._executors(components), self._tasks()
        hosts = self._share(executors, components, inputs, (tables, cells), acker_service if count else NONE)
        return Parts(
            tables=tables,
            cells=cells,
            components=components,
            inputs=inputs,
            fans=np.array(self.fans, dtype=FAN),
            streams=np.array(self.streams, dtype=STREAM),
            routes=np.array(self.routes, dtype=np.int32),
            turns=_turns(self.turns),
            turn_tasks=np.concatenate([np.empty(0, dtype=np.int32), *self.turns]).astype(np.int32),
            executors=executors,
            tasks=tasks,
            hosts=hosts,
            hops=hops,
            batch=np.array([network.batch, network.flush_ms, network.transfer_batch], dtype=np.float64),
            ackers=np.array([ackers.start, count, acker_service], dtype=np.int64),
            identifiers=np.concatenate([layout.tasks[c] for c in layout.order]),
            inputs_by_number=list(self.input_number),
            boxes=self.boxes,
            relief=relief_records(network, self.help_inputs),
        )

    def _atoms(self, atoms: Atoms, what: str) -> int:
        if np.any(np.asarray(atoms.values_ms) < 0):
            raise ModelDeclined(f"{what}: a time is negative ({np.min(atoms.values_ms):g} ms)")
        try:
            return self.draws.add(atoms.values_ms, atoms.probabilities)
        except ValueError as why:
            raise ModelDeclined(f"{what}: {why}") from None

    def _service(self, key: Input) -> tuple[int, int]:
        if key not in self.network.service:
            raise ModelDeclined(f"no service of {key.component} on {key.source}:{key.stream} is known")
        service, what = self.network.service[key], f"service of {key.component}"
        return self._atoms(service.cpu_ms, what), self._atoms(service.wait_ms, what)

    def _streams(self, name: str, sender: str = "") -> list[tuple[Output, int, int]]:
        """Add the streams that leave a component; return its outputs with their part of the streams.

        With a ``sender`` they are those on which it sends what it makes in the component's place.
        """
        sender = sender or name
        found = []
        for output in outputs(self.plan, name):
            first = len(self.streams)
            for s in self.plan.outputs(name):
                if s.stream == output.stream:
                    key = Input(s.target, s.source, s.stream)
                    in_turn = s in self.network.round_robin
                    route = NONE if s.grouping == "all" else len(self.routes)
                    rows = self.network.row_batches.get(s, BatchSize(size=1))
                    numbers = (self.number[s.target], self.input_number[key], route, int(in_turn))
                    row_ms = self.network.row_ms.get(s, 0.0)
                    help_ = self.watched.index(s.target) if s.target in self.helpers else NONE
                    sizes = (rows.size, self.boxes, help_, 0, rows.flush_ms, row_ms)
                    self.streams.append((*numbers, *sizes))
                    if rows.size > 1:
                        self.boxes += len(self.layout.tasks[sender]) * len(self.layout.tasks[s.target])
                    if route != NONE:
                        self.routes += self._rows(s, in_turn, sender)
            found.append((output, first, len(self.streams) - first))
        return found

    def _rows(self, stream: Stream, in_turn: bool, sender: str) -> list[int]:
        """Return, for each executor of the sender, the table or the round of its targets' tasks."""
        known = self.network.routing if sender == stream.source else self.network.help_routing
        rows = np.asarray(known[stream], dtype=np.float64)
        sources = self.layout.of[sender]
        wanted = (sources.stop - sources.start, len(self.layout.tasks[stream.target]))
        if rows.shape != wanted:
            raise ModelDeclined(f"routing of {stream.label} has the shape {rows.shape}, not {wanted}")
        targets = self.first_task[stream.target] + np.arange(wanted[1])
        found = []
        for row in rows:
            if not np.nansum(row) > 0:
                found.append(NONE)
                continue
            try:
                table = self.draws.add(targets[row != 0], row[row != 0])
            except ValueError as why:
                raise ModelDeclined(f"routing of {stream.label}: {why}") from None
            if in_turn:
                found.append(len(self.turns))
                self.turns.append(np.repeat(targets, _shares_of_a_round(row)))
            else:
                found.append(table)
        return found

    def _fans(self, key: Input, made: list[tuple[Output, int, int]]) -> tuple[int, int]:
        first = len(self.fans)
        for output, stream, streams in made:
            try:
                probabilities = self.network.fanout[key][output]
            except KeyError:
                source = f"{key.source}:{key.stream}" if key.source else "a window"
                raise ModelDeclined(
                    f"what {key.component} makes of {source} on {output.stream} is not known"
                ) from None
            try:
                table = self.draws.counts(probabilities)
            except ValueError as why:
                raise ModelDeclined(f"fan-out of {key.component} on {output.stream}: {why}") from None
            self.fans.append((table, stream, streams, 0))
        return first, len(self.fans) - first

    def _component(self, name: str, made: list[tuple[Output, int, int]]) -> tuple[float, ...]:
        network, own = self.network, Input(name, "", "")
        mine = self.layout.of[name]
        length, slide, poll, kind, input_ = 0.0, 0.0, 0.0, BOLT, NONE
        fan, fans = len(self.fans), 0
        if name in network.input_tps:
            kind, poll = SPOUT, float(network.poll_ms[name])
            if own in network.fanout:
                fan, fans = self._fans(own, made)
            else:
                one = self.draws.sure(1.0)
                self.fans += [(one, stream, streams, 0) for _, stream, streams in made]
                fans = len(made)
            if own in network.service:
                input_ = len(self.inputs)
                self.inputs.append((*self._service(own), 0, 0))
        elif window := network.windows.get(name):
            kind = COUNT_WINDOW if window.kind == "count" else TIME_WINDOW
            length, slide = float(window.length), float(window.slide)
            fan, fans = self._fans(own, made)
        send = self._atoms(network.send_ms[name], f"send of {name}") if name in network.send_ms else None
        return (
            *(length, slide, poll),
            *(kind, int(not made), mine.start, mine.stop - mine.start),
            *(self.first_task[name], len(self.layout.tasks[name]), fan, fans, input_),
            self.draws.sure(0.0) if send is None else send,
        )

    def _executors(self, components: Records) -> Records:
        network, layout = self.network, self.layout
        nodes = {n.name: i for i, n in enumerate(layout.plan.nodes)}
        worker_node = np.array([nodes[w.node] for w in layout.plan.workers])
        found = np.zeros(len(layout), dtype=EXECUTOR)
        for name in ("head", "tail", "item", "help", "help_end", "whole", "signal", "signal_end"):
            found[name] = NONE
        found["parked"] = NAN
        for c, component in enumerate(components):
            mine = slice(component["first_executor"], component["first_executor"] + component["executors"])
            found["component"][mine], found["kind"][mine] = c, component["kind"]
            found["row"][mine] = np.arange(component["executors"])
        for e, executor in enumerate(layout.executors):
            if executor.component in self.first_task:
                held = layout.tasks[executor.component].searchsorted(executor.first_task)
                found["first_task"][e] = self.first_task[executor.component] + held
                found["tasks"][e] = len(executor.tasks)
        unused = layout.ackers if not network.acks else slice(0, 0)
        found["kind"][unused], found["component"][unused] = ACKER, len(components) - 1
        stretch = np.ones(len(layout)) if network.stretch is None else network.stretch
        columns = {"idle": network.idle_ms, "stretch": stretch}
        for column, values in columns.items():
            if np.shape(values) != (len(layout),) or not np.all(np.asarray(values) >= 0):
                raise ModelDeclined(f"{column} of the executors is not a number of at least 0 for each")
            found[column] = values
        if np.isinf(found["stretch"]).any():
            raise Saturated("a host's executors need more cores than it has")
        found["worker"], found["node"] = layout.worker, worker_node[layout.worker]
        found["host"] = network.host[layout.worker]
        found["asleep"], found["wake"] = 1, NAN  # no look is planned
        return found

    def _tasks(self) -> Records:
        layout = self.layout
        found = np.zeros(sum(len(t) for t in layout.tasks.values()), dtype=TASK)
        for name in ("head", "fresh", "tail"):
            found[name] = NONE
        for c, name in enumerate(layout.order):
            mine = slice(self.first_task[name], self.first_task[name] + len(layout.tasks[name]))
            found["component"][mine] = c
            found["executor"][mine] = layout.of[name].start + layout.membership[name].argmax(axis=0)
        return found

    def _share(
        self,
        executors: Records,
        components: Records,
        inputs: Records,
        tables: tuple[Records, Records],
        acker_service: int,
    ) -> Records:
        """Find the hosts on which more executors may compute than there are cores for."""

        def computes(table: int) -> bool:
            first, size = tables[0][table]
            return bool((tables[1]["value"][first : first + size] > 0).any())

        computing = np.zeros(len(components), dtype=bool)
        computing[-1] = acker_service != NONE and computes(acker_service)
        for key, record in zip(self.input_number, inputs, strict=False):
            computing[self.number[key.component]] |= computes(record["cpu"])
        for helped, number in self.help_inputs.items():
            computing[self.number[self.helpers[helped]]] |= computes(inputs["cpu"][number])
        for c, component in enumerate(components):
            if component["input"] != NONE:
                computing[c] |= computes(inputs["cpu"][component["input"]])
        network = self.network
        hosts = np.zeros(network.cores.size, dtype=HOST)
        hosts["cores"], hosts["other"], hosts["due"] = network.cores, network.background_cores, NAN
        if network.stretch is not None:
            hosts["other"] = 0.0
            return hosts
        demanding = computing[executors["component"]]
        threads = np.bincount(executors["host"][demanding], minlength=hosts.size)
        if (none := (threads > 0) & (hosts["other"] >= hosts["cores"])).any():
            raise Saturated(f"host {int(none.argmax())} has no core left beside what else it runs")
        hosts["quota"] = hosts["left"] = network.by_quota * PERIOD_MS
        limited = np.isfinite(hosts["quota"])
        if (none := (threads > 0) & (hosts["quota"] <= 0)).any():
            raise Saturated(f"host {int(none.argmax())} has used up its CPU quota by what else it runs")
        shared = (threads > 0) & ((threads > hosts["cores"]) | (hosts["other"] > 0) | limited)
        hosts["other"] = np.where(shared, hosts["other"], 0.0)
        executors["shared"] = shared[executors["host"]]
        return hosts


def _shares_of_a_round(row: FloatArray) -> IntArray:
    """Return how often each task is in a round: once where the shares are equal, else of about 1000 times."""
    used = row[row > 0]
    if np.allclose(used, used[0]):
        return (row > 0).astype(np.int64)
    return np.asarray(np.maximum(np.rint(row * ROUND_SIZE), row > 0), dtype=np.int64)


def _turns(rounds: list[IntArray]) -> Records:
    sizes = np.array([r.size for r in rounds], dtype=np.int64)
    found = np.zeros(sizes.size, dtype=TURN)
    found["first"], found["size"] = np.cumsum(sizes) - sizes, sizes
    return found
