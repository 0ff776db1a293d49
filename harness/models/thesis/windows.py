"""Time that tuples wait for their window.

Thesis 4.13.1, which covers tumbling windows by count. Storm keeps a window for every task, not for every
executor, so durations follow from a task's arrival rate; the thesis writes its rate without saying whose.
The thesis takes Storm's process latency for the time to process a window. The harness does not measure that
latency, and on Storm it holds the wait for the acks, not the processing. The sum of the execute times of a
whole window's tuples is used instead; the last of them includes the window's function.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from harness.errors import ModelDeclined
from harness.models.contract.layout import FloatArray
from harness.models.contract.observe import Measured
from harness.models.contract.routing import KEYED, estimated_proportions
from harness.models.thesis.arrivals import ArrivalFlows
from harness.plans import Component

LOAD_AWARE_OFF = "topology.disable.loadaware.messaging"


def task_arrivals(
    flows: ArrivalFlows, measured: Measured, component: str, storm: Mapping[str, object]
) -> FloatArray:
    """Predict the arrival rate at every task of the proposed executors.

    A keyed stream's arrivals are split by ETIP (eq. 4.11). A shuffled one's go to an executor's first task
    with load-aware messaging, since only that one reports its load, and evenly without.

    Returns
    -------
    array (executors, tasks)
        Tuples a second; 0 where the executor does not hold the task.

    Raises
    ------
    ModelDeclined
        When the settings do not say whether load-aware messaging is on, and it matters.
    """
    layout = flows.layout
    membership = layout.membership[component]
    first = np.zeros_like(membership)
    first[np.arange(membership.shape[0]), membership.argmax(axis=1)] = 1.0
    total = np.zeros_like(membership)
    for stream in layout.plan.query_plan.inputs(component):
        rate = flows.connections[stream].sum(axis=0)
        if stream.grouping in KEYED:
            share = np.nan_to_num(estimated_proportions(measured.received(stream), membership))
        elif stream.grouping == "global":
            share = first
        elif stream.grouping in ("shuffle", "local-or-shuffle") and (membership.sum(axis=1) > 1).any():
            share = membership if _load_aware_off(storm, component) else first
        else:
            share = membership
        total += rate[:, None] * share / share.sum(axis=1, keepdims=True).clip(min=1e-300)
    return total


def _load_aware_off(storm: Mapping[str, object], component: str) -> bool:
    value = storm.get(LOAD_AWARE_OFF)
    if not isinstance(value, bool):
        raise ModelDeclined(f"window of {component}: Storm setting {LOAD_AWARE_OFF} is not given")
    return value


def window_delay_ms(component: Component, task_rates: FloatArray, service_ms: FloatArray) -> FloatArray:
    """Return the mean time from a tuple's arrival in a windowed task to its window's output.

    Parameters
    ----------
    component : Component
        With a window.
    task_rates : array (executors, tasks)
        Tuples a second.
    service_ms : array (executors)
        Mean service time of one tuple.

    Returns
    -------
    array (executors)
        0 where nothing arrives.

    Raises
    ------
    ModelDeclined
        For windows by time and sliding windows, which the thesis leaves to future work.
    """
    window = component.window
    if window is None:
        return np.zeros(task_rates.shape[0])
    if window.kind != "count" or not window.tumbling:
        kind = f"{'tumbling' if window.tumbling else 'sliding'} {window.kind} window"
        raise ModelDeclined(
            f"the {kind} of {component.name} is not in thesis 4.13.1 (tumbling count windows only)"
        )
    active = task_rates > 0
    duration_ms = np.divide(1000.0 * window.length, task_rates, out=np.zeros(task_rates.shape), where=active)
    arrivals = task_rates.sum(axis=1)
    share = np.divide(
        task_rates, arrivals[:, None], out=np.zeros(task_rates.shape), where=arrivals[:, None] > 0
    )
    wait_ms = np.sum(share * duration_ms / 2, axis=1)
    return np.asarray(wait_ms + np.where(arrivals > 0, window.length * np.nan_to_num(service_ms), 0.0))
