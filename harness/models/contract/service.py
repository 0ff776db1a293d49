"""Service times of a proposed plan's executors, carried over from the source step.

Thesis 4.9 and 4.10. The measure is the wall-clock time of execute, as in the thesis, pauses of co-located
executors included. The thesis's errors of 20 to 300 % come from those pauses (5.5).
"""

from __future__ import annotations

import numpy as np

from harness.errors import ModelDeclined
from harness.models.contract.layout import FloatArray, Layout
from harness.models.contract.observe import Measured
from harness.models.contract.routing import estimated_proportions, keyed_input


def executor_mean_ms(count: FloatArray, service_ms: FloatArray, membership: FloatArray) -> FloatArray:
    """Return the mean service time of each executor over its tasks' tuples; NaN where it served none.

    Parameters
    ----------
    count, service_ms : array (tasks)
        Tuples timed, and their mean service time.
    membership : array (executors, tasks)
        1 where the executor holds the task.
    """
    return np.asarray(estimated_proportions(count, membership) @ np.nan_to_num(service_ms))


def executor_service_ms(measured: Measured, proposed: Layout, component: str) -> FloatArray:
    """Predict the mean service time of each proposed executor of a component (4.10.1).

    Returns
    -------
    array (executors)
        NaN where all of the executor's tasks idled in the source step, and so are expected to.

    Raises
    ------
    ModelDeclined
        When no service of the component was timed, or not of a task that received tuples.
    """
    count, service_ms = measured.service_count(component), measured.service_ms(component)
    if not count.any():
        raise ModelDeclined(f"metric service of {component} is missing from the source step")
    membership = proposed.membership[component]
    if not keyed_input(proposed.plan.query_plan, component):
        by_executor = executor_mean_ms(count, service_ms, measured.layout.membership[component])
        return np.full(membership.shape[0], np.nanmean(by_executor))
    # Several input streams share one service time, so tasks are weighted by their arrivals over all of them.
    arrivals = measured.arrivals(component)
    if (untimed := (arrivals > 0) & np.isnan(service_ms)).any():
        task = int(measured.layout.tasks[component][untimed][0])
        executor = measured.layout.plan.by_task[task]
        raise ModelDeclined(f"executor {executor.label} has no observation: service of task {task}")
    return np.asarray(estimated_proportions(arrivals, membership) @ np.nan_to_num(service_ms))
