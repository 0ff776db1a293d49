"""Section 3 of Leron (Liu, Yu, Wang) by simulation: the gain when M bolts help the N behind them.

All bolts are alike: one serves X tuples in a time T0. Those of the second component ask for help when
``a X T0`` tuples are in a queue, until ``b X T0`` are left; a helper then does both services, at X / 2.

The paper's gain is (M - N) / 2. It sets the work of M helpers against that of one of the N bolts, so it holds
for N = 1. Every tuple takes two services of M + N bolts, so no more than (M + N) X / 2 can come out in T0,
where N X came out without help. So the gain cannot exceed (M - N) / (2 N).

Whether it is reached depends on the messages under way, K. Those are what queues can hold:

- up to N a X T0 no queue of the second component comes to its mark, so nobody asks
- from (M a + N b) X T0 on helpers' own queues come to theirs before help is over: then help ends
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from harness.models.contract.layout import Output, lay_out
from harness.models.network import Hops, Input, Network, Service, constant
from harness.models.simulator.kinds import PAUSE
from harness.models.simulator.simulation import SimulatedRun, simulate
from harness.plans import (
    ACKER,
    Backpressure,
    Component,
    Executor,
    Help,
    PhysicalPlan,
    QueryPlan,
    Relief,
    Stream,
    Worker,
    WorkerNode,
)

Mechanism = Literal["back-pressure", "helping", "helping-ratio"]
MECHANISMS: tuple[Mechanism, ...] = ("back-pressure", "helping", "helping-ratio")
"""Heron's pauses; with Leron back-pressure, as in section 3; with the ratio of section 4.3, too."""
SPEED_TPS = 100.0
"""X, with a T0 of one second."""
NO_LEARNING, DELTA = 1e-9, 0.1
HIGH_PCT = 50.0
WARM_UP_S, INTERVAL_S = 40.0, 80.0


@dataclass(frozen=True)
class HelpedStage:
    """Two components of equally fast bolts, the first helping the second.

    Attributes
    ----------
    helpers, helped : int
        M and N, executors of each.
    high, low : float
        a and b: the marks, by what a bolt serves in a T0.
    """

    helpers: int
    helped: int
    high: float
    low: float

    @property
    def published_gain(self) -> float:
        """The paper's, for any N.

        Examples
        --------
        >>> HelpedStage(2, 1, 1.0, 0.2).published_gain
        0.5
        """
        return (self.helpers - self.helped) / 2

    @property
    def most_gain(self) -> float:
        """All bolts busy all the time.

        Examples
        --------
        >>> HelpedStage(4, 2, 1.0, 0.2).most_gain
        0.5
        """
        return (self.helpers - self.helped) / (2 * self.helped)

    @property
    def asked_from(self) -> float:
        """Messages under way, by a X T0, from which queues can come to the mark of the helped component."""
        return float(self.helped)

    @property
    def spoilt_from(self) -> float:
        """Messages under way, by a X T0, from which helpers' own queues come to their mark during help."""
        return self.helpers + self.helped * self.low / self.high


@dataclass(frozen=True)
class StageOutcome:
    """Throughput of a stage under a mechanism.

    Attributes
    ----------
    out_tps : float
        Tuples that came out.
    paused : float
        Share of the time in which the spout paused.
    """

    out_tps: float
    paused: float


def stage_network(stage: HelpedStage, mechanism: Mechanism, under_way: float) -> Network:
    """Return a spout with M X messages a T0, the two components, and a sink that takes no time.

    Parameters
    ----------
    under_way : float
        Most messages whose trees are open, by a X T0; infinite for no limit.
    """
    plan = _plan(stage)
    layout, (first, second, third) = lay_out(plan), plan.query_plan.streams
    marks = {"high_pct": HIGH_PCT, "low_pct": HIGH_PCT * stage.low / stage.high}
    delta = DELTA if mechanism == "helping-ratio" else NO_LEARNING
    helping = {} if mechanism == "back-pressure" else {"second": Help(delta=delta, **marks)}
    work, none = Service(constant(0.0), constant(1000 / SPEED_TPS)), Service(constant(0.0), constant(0.0))
    one, hop = np.array([0.0, 1.0]), constant(0.0)
    ends = {s: Input(s.target, s.source, s.stream) for s in (first, second, third)}
    return Network(
        layout=layout,
        input_tps={"spout": np.array([stage.helpers * SPEED_TPS])},
        input_scv=0.0,
        poll_ms={"spout": 0.0},
        idle_ms=np.zeros(len(layout)),
        routing={
            first: np.full((1, stage.helpers), 1 / stage.helpers),
            second: np.full((stage.helpers, stage.helped), 1 / stage.helped),
            third: np.ones((stage.helped, 1)),
        },
        round_robin=frozenset((first, second, third)),
        fanout={
            ends[first]: {Output("first", "default"): one},
            ends[second]: {Output("second", "default"): one},
            ends[third]: {},
        },
        service={ends[first]: work, ends[second]: work, ends[third]: none},
        windows={},
        hops=Hops(hop, hop, hop),
        batch=1,
        flush_ms=0.0,
        send_ms={},
        acks=True,
        acker_service_ms=constant(0.0),
        host=np.zeros(1, dtype=np.int64),
        cores=np.array([float(len(layout))]),
        background_cores=np.zeros(1),
        relief=Relief(helping=helping, backpressure=Backpressure(kind="heron", **marks)),
        help_routing={third: np.ones((stage.helpers, 1))},
        queue_room=round(stage.high * SPEED_TPS * 100 / HIGH_PCT),
        most_pending=0 if np.isinf(under_way) else max(1, round(under_way * stage.high * SPEED_TPS)),
    )


def play(stage: HelpedStage, mechanism: Mechanism, under_way: float, seed: int = 1) -> StageOutcome:
    """Play a stage for 80 T0, after 40 that do not count.

    Examples
    --------
    >>> round(play(HelpedStage(2, 1, 1.0, 0.2), "back-pressure", 1.5).out_tps)
    100
    """
    run = simulate(stage_network(stage, mechanism, under_way), INTERVAL_S, WARM_UP_S, seed)
    served = run.visits["served"][
        run.component_of(np.arange(run.visits.size)) == run.network.layout.order.index("third")
    ]
    start, end = run.interval_ms
    return StageOutcome(float(((served >= start) & (served < end)).sum() / INTERVAL_S), paused_share(run, 0))


def paused_share(run: SimulatedRun, worker: int) -> float:
    """Return the share of a run's interval in which a worker's spouts paused."""
    news, (start, end) = run.world.news, run.interval_ms
    mine = news[(news["kind"] == PAUSE) & (news["worker"] == worker)]
    times = np.clip(np.append(mine["time"], end), start, end)
    return float(np.diff(times) @ mine["value"] / (end - start))


def _plan(stage: HelpedStage) -> PhysicalPlan:
    sizes = {"spout": 1, "first": stage.helpers, "second": stage.helped, "third": 1}
    names, worker, task = list(sizes), Worker(node="node-1", port=6700), 1
    executors = []
    for name, size in {**sizes, ACKER: 1}.items():
        for _ in range(size):
            executors.append(Executor(component=name, first_task=task, last_task=task, worker=worker))
            task += 1
    node = WorkerNode(name="node-1", address="127.0.0.1", host="host", cores=1, slots=(worker.port,))
    return PhysicalPlan(
        query_plan=QueryPlan(
            name="helped-stage",
            components=tuple(Component(name=n, role="other", tasks=sizes[n]) for n in names),
            streams=tuple(Stream(source=a, target=b, grouping="shuffle") for a, b in pairwise(names)),
        ),
        nodes=(node,),
        executors=tuple(executors),
    )
