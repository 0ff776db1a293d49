"""The records that compiled code reads: one array of records for each kind of thing.

``first_*`` fields say where a thing's own begin in another array; they end where the next thing's begin, so
each array has one record more than there are things.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from harness.models.contract.layout import FloatArray, IntArray

Records: TypeAlias = NDArray[np.void]

_WHOLE, _REAL = "i8", "f8"

COMPONENT = np.dtype(
    [
        *((name, _WHOLE) for name in ("kind", "sink", "first_class", "first_output", "first_executor")),
        *((name, _WHOLE) for name in ("first_task", "first_send")),
        *((name, _REAL) for name in ("length", "slide", "poll_ms")),
    ]
)
"""A component.

- ``length``, ``slide``: of the window, in tuples or ms
- ``first_send``: atoms of a sink's own client
"""

CLASS = np.dtype([(name, _WHOLE) for name in (
    "component", "stream", "first_fan", "first_cell", "first_cpu", "first_wait")])  # fmt: skip
"""A class.

- ``stream``: -1 for spouts
- ``first_fan``: on the first output; those on the others follow
"""

OUTPUT = np.dtype([(name, _WHOLE) for name in ("component", "first_subscriber", "first_port")])

STREAM = np.dtype([(name, _WHOLE) for name in (
    "source", "target", "output", "klass", "copies", "in_turn", "alike", "first_route", "first_share",
    "route_step", "share_step")])  # fmt: skip
"""A stream.

- ``copies``: each tuple goes to every task
- ``in_turn``: tasks are served in rounds, none drawn
- ``alike``: all sources route alike, so that what they send can be added up before it is shared out. One row
  of routes and shares is kept then, and the steps from row to row are 0
"""

TASK = np.dtype([("executor", _WHOLE), ("input_tpms", _REAL)])
"""``executor``: number within the component."""

EXECUTOR = np.dtype([("worker", _WHOLE), ("host", _WHOLE), ("idle_ms", _REAL)])

HOST = np.dtype([("cores", _REAL), ("background", _REAL), ("quota", _REAL)])
"""``quota``: cores that executors' demand may take at most of a quota's period; infinite without one."""

ATOM = np.dtype([("value", _REAL), ("probability", _REAL)])


class Flat(NamedTuple):
    """A network's numbers. Times are ms, rates tuples a ms.

    Executors are in layout order. A *cell* is a class at one executor, a *port* an output of one executor.

    Attributes
    ----------
    components, classes, outputs, streams, tasks, executors, hosts, atoms : array of records
        Ackers are the last executors.
    subscribers : array (streams)
        Streams by output.
    first_fan, fan : array (fans + 1), array
        Probabilities of 0, 1, 2 ... tuples.
    route, share : array
        Row after row: source's executors by target's tasks, or executors; one row where all are alike.
    first_hop : array (kinds + 1)
        Atoms of hops.
    kind_between : array (workers, workers)
        Kinds of hop (``harness.models.network.hop_kinds``).
    first_acker : int
        Position.
    acker_atoms, last_atom : int
        Atoms of an acker's service, and where all atoms end.
    """

    components: Records
    classes: Records
    outputs: Records
    streams: Records
    tasks: Records
    executors: Records
    hosts: Records
    atoms: Records
    subscribers: IntArray
    first_fan: IntArray
    fan: FloatArray
    route: FloatArray
    share: FloatArray
    first_hop: IntArray
    kind_between: IntArray
    first_acker: int
    acker_atoms: int
    last_atom: int
    input_scv: float
    input_in_turn: int
