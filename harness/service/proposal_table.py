"""Proposals of tuners and schedulers as rows of one table, the least predicted latency first."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from pydantic import BaseModel

from harness.runs import Run
from harness.service.proposal_pages import ProposalsAnswer, TunerAnswer, measuring_files


class FullSubject(BaseModel):
    """An executor or worker node, and the rate in messages a second at which it has no time left."""

    subject: str
    max_rate_tps: float | None


class ProposedPlan(BaseModel):
    """A proposed plan, by the keys that ``harness tune --json`` and ``schedule --json`` share.

    Attributes
    ----------
    executors : mapping of str to int
        By component, those of Storm's own included.
    workers, executors_moved, workers_restarted : int, optional
    limits : tuple of FullSubject
        Nearest to full first.
    """

    executors: dict[str, int] = {}
    workers: int | None = None
    executors_moved: int | None = None
    workers_restarted: int | None = None
    limits: tuple[FullSubject, ...] = ()

    def cells(self, components: Iterable[str]) -> dict[str, object]:
        """Return the cells of the plan's row, executors in the order of the components.

        Examples
        --------
        >>> ProposedPlan(executors={"bolt": 2, "__acker": 1}, workers=1).cells(["bolt"])["executors"]
        'bolt:2'
        """
        counts = (f"{name}:{self.executors[name]}" for name in components if name in self.executors)
        return {
            "executors": " ".join(counts),
            "workers": self.workers,
            "moved": self.executors_moved,
            "restarted": self.workers_restarted,
            "full": next((limit for limit in self.limits if limit.max_rate_tps is not None), None),
        }


class ProposedPlans(BaseModel):
    """The plans of a job's result."""

    proposals: tuple[ProposedPlan, ...] = ()


def proposal_rows(
    result: Mapping[str, object], run: Run, step: int, rate_tps: float | None
) -> list[dict[str, object]]:
    """Return a row a proposal, each with the files that measure it beside the original.

    Parameters
    ----------
    result : mapping
        A job's, of either command or of both.
    run, step
        That it was asked for.
    rate_tps : float, optional
        Messages a second, where it is not the step's rate.
    """
    components = [c.name for c in run.plan(step).start.query_plan.components]
    plans = ProposedPlans.model_validate(result).proposals
    rows: list[tuple[bool, float, dict[str, object]]] = []
    for proposal, plan in zip(ProposalsAnswer.model_validate(result).proposals, plans, strict=True):
        row = {**proposal.row(), **plan.cells(components)}
        row["by"] = "tuner" if isinstance(proposal, TunerAnswer) else "scheduler"
        declined = proposal.status == "declined"
        row["files"] = () if declined else measuring_files(run, step, rate_tps, proposal)
        mean_ms = row["mean_ms"]
        rows.append((declined, mean_ms if isinstance(mean_ms, float) else math.inf, row))
    return [row for *_, row in sorted(rows, key=lambda ranked: ranked[:2])]
