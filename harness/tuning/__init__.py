"""Tuners: pure functions from a measured step and an input rate to executors and batch sizes.

``TUNERS`` holds the harness's own by name. Anybody else's is a class or function that takes its parameters by
keyword and returns a ``harness.protocols.Tuner``; it is registered under the entry point group
``harness.tuners`` or named as ``package.module:name``.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.machine.plug_ins import PlugIns, make
from harness.protocols import Tuner
from harness.tuning.flink import FlinkTuner
from harness.tuning.model_guided import ModelGuidedTuner
from harness.tuning.tuners import AeolusTuner, DS2Tuner

TUNERS: dict[str, type[Tuner]] = {
    "aeolus": AeolusTuner,
    "ds2": DS2Tuner,
    "flink": FlinkTuner,
    "model-guided": ModelGuidedTuner,
}
"""The harness's own tuners."""

_PLUG_INS = PlugIns("tuner", TUNERS, "harness.tuners", "docs/tuning.md")


def make_tuner(name: str, parameters: Mapping[str, object] | None = None) -> Tuner:
    """Return a tuner by its name, with its parameters.

    Raises
    ------
    UsageError
        When no tuner has that name, it cannot be loaded, or a parameter is unknown or out of its range.

    Examples
    --------
    >>> make_tuner("ds2", {"utilisation": 0.7}).utilisation
    0.7
    >>> make_tuner("ds2", {"utilization": 0.7})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    harness.errors.UsageError: tuner 'ds2' has no parameter 'utilization': its parameters are ...
    """
    return make(_PLUG_INS, name, parameters or {})
