"""From a member's arrival in its window to its last ack.

The member is acked when it falls out of the window or when what the last window that had it made is acked,
whichever is later.

Storm's ``WindowManager`` fires a count window at every ``slide``-th arrival at its task. When the window
fires, it evicts, and so acks, members older than ``length`` arrivals. So as not to grow too long, it also
evicts them at arrivals 99, 199, 299, ... since it last fired. A time window's reference time moves only when
the window fires, so it evicts only then.

Take a member for which the arrival ``length`` arrivals later falls at place r = 1 .. slide of a slide. The
last window that has the member fires length - r arrivals after it. The member is acked at the first chance at
or after r, counted from that firing. All r are alike.
"""

from __future__ import annotations

import math

from harness.models.contract.layout import FloatArray
from harness.models.solver.cdf import from_cdf, mean_of, to_cdf
from harness.models.solver.compiled import inner
from harness.models.solver.forward import window_index
from harness.models.solver.indices import tasks_of
from harness.models.solver.rates import TUPLES
from harness.models.solver.spectrum import ComplexArray, complex_exp, gap_log, times_shift, times_uniform
from harness.models.solver.structure import TIME_WINDOW
from harness.models.solver.trees import Back

THRESHOLD = 100
"""``WindowManager.EXPIRE_EVENTS_THRESHOLD``."""
_SURE = 0.999
"""Where what the window made is acked before the member falls out with this probability, it does not
count."""


@inner
def members(back: Back, component: int, place: int, made: FloatArray) -> None:
    """Fill in the seats of one executor's tasks, in the component's first class, from arrival in the window.

    Parameters
    ----------
    made : array (points)
        Distribution function of the time from a firing until all that it made is acked.
    """
    net, one = back.stages.net, back.stages.net.components[component]
    way = back.way.of[one.first_executor + place]
    for task in tasks_of(net, component):
        if net.tasks[task].executor == place and back.stages.rates.task[TUPLES, task] > 0:
            seat = back.first_seat[one.first_class] + task - one.first_task
            if one.kind == TIME_WINDOW:
                back.rest_mean[seat] = _by_time(back, component, way, made, back.rest[seat])
            else:
                back.rest_mean[seat] = _by_count(back, component, task, way, made, back.rest[seat])


@inner
def _by_time(back: Back, component: int, way: int, made: FloatArray, out: ComplexArray) -> float:
    one = back.stages.net.components[component]
    length, slide = one.length, one.slide
    step = math.pi / back.span
    out[:] = back.way.cf[way]
    times_shift(slide, step, out)
    mean = _later(back, out, slide + back.way.mean_ms[way], slide, made)
    times_uniform(slide, step, out)
    times_shift(length - slide, step, out)
    return float(mean + length - slide / 2)


@inner
def _by_count(back: Back, component: int, task: int, way: int, made: FloatArray, out: ComplexArray) -> float:
    one = back.stages.net.components[component]
    length, slide = one.length, one.slide
    rate, index = back.stages.rates.task[TUPLES, task], window_index(back.stages, component, task)
    size, step = back.grid.size, math.pi / back.span
    out[:] = 0.0
    mean, begin, end = 0.0, 1.0, min(THRESHOLD - 1.0, slide)
    while begin <= slide:
        # places begin to end of the slide are acked at its arrival number end
        last = back.way.cf[way].copy()
        for k in range(1, size):
            last[k] *= complex_exp(gap_log(rate, index, k * step) * end)
        least = max(end - 3 * math.sqrt(index * end), 0.0) / rate
        last_mean = _later(back, last, end / rate + back.way.mean_ms[way], least, made)
        places = end - begin + 1
        mean += places / slide * (last_mean + (length - (begin + end) / 2) / rate)
        out[0] += places / slide
        for k in range(1, size):
            gap = gap_log(rate, index, k * step)
            some = (1 - complex_exp(gap * places)) / (1 - complex_exp(gap))
            out[k] += last[k] * complex_exp(gap * (length - end)) * some / slide
        begin, end = end + 1, min(end + THRESHOLD, slide)
    return mean


@inner
def _later(back: Back, own: ComplexArray, own_mean: float, least: float, made: FloatArray) -> float:
    """Replace a time by the later of it and what was made; return the mean."""
    at = min(least / back.span, 1.0) ** (2.0 / 3.0) * (made.size - 1)
    if made[int(at)] >= _SURE:
        return own_mean
    cdf = to_cdf(own, back.grid)
    alone = mean_of(cdf, back.grid, back.span)
    cdf *= made
    own[:] = from_cdf(cdf, back.grid)
    return own_mean + mean_of(cdf, back.grid, back.span) - alone
