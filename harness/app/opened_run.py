"""A run opened for reading in Python: its tables as frames, its plans, figures and verdict."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from harness.errors import UsageError
from harness.experiments.loading import load
from harness.plans import PhysicalPlan
from harness.protocols import Observation, Prediction, Settings
from harness.runs import Run, read_latency, read_table

if TYPE_CHECKING:
    from harness.analysis.figures.all_figures import Drawing
    from harness.analysis.judge.results import Results

EVERY = "experiment.yaml"
"""Every run directory has this file."""


class OpenedRun:
    """A run directory, read as it is asked; nothing in it is changed.

    Parameters
    ----------
    path : Path or str
        ``runs/<experiment>/<UTC start>``.

    Raises
    ------
    UsageError
        When the folder is not a run directory, or one of a newer schema.

    Examples
    --------
    >>> import harness
    >>> run = harness.load_run("reports/runs/noise-floor/20261121T181833Z")
    >>> run.name, run.verdict, len(run.steps)
    ('noise-floor', 'valid', 4)
    >>> run.latency(0)["ground_truth_ms"].mean().round(1)  # doctest: +SKIP
    8.4
    """

    def __init__(self, path: Path | str) -> None:
        self._run = Run(Path(path))
        self.path = self._run.path

    @cached_property
    def name(self) -> str:
        """The experiment's name."""
        return load(self.path / EVERY).name

    @property
    def worker_heap_mb(self) -> float:
        """Heap of a worker in MB."""
        return load(self.path / EVERY).worker_heap_mb

    @property
    def verdict(self) -> str:
        """The verdict's word; ``not reported`` before ``harness report``."""
        return self._run.verdict

    @cached_property
    def steps(self) -> pd.DataFrame:
        """A row a finished step, by its number: configuration, rate, mean, precision, saturation."""
        rows = []
        for index in self._run.finished_steps:
            plan, interval = self._run.plan(index), self._run.interval(index)
            quality = self._run.quality(index)
            rows.append(
                {
                    "step": index,
                    "executors": dict(plan.asked.executors),
                    "workers": plan.asked.workers,
                    "rate_tps": interval.rate_tps,
                    "mean_ms": interval.mean_ms,
                    "precision_pct": interval.precision_pct_reached,
                    "length_s": (interval.end_ns - interval.start_ns) / 1e9,
                    "saturated": quality.saturated,
                }
            )
        return pd.DataFrame(rows).set_index("step") if rows else pd.DataFrame()

    def plan(self, step: int) -> PhysicalPlan:
        """Return the physical plan at the start of a step's interval."""
        return self._run.plan(self._known(step)).start

    def latency(self, step: int) -> pd.DataFrame:
        """Return a step's ``latency.parquet``; docs/run-directory.md has the columns and units."""
        frame: pd.DataFrame = read_latency(self._run.step_path(self._known(step))).to_pandas()
        return frame

    def metrics(self, step: int) -> pd.DataFrame:
        """Return a step's ``metrics.parquet``; docs/run-directory.md has the columns and units."""
        return self._table(f"steps/{self._known(step):02d}/metrics.parquet")

    @cached_property
    def predictions(self) -> pd.DataFrame:
        """``predictions.parquet``: a row a model, pair of steps, measure, subject and statistic."""
        return self._table("predictions.parquet", "make it with: harness predict RUN")

    @cached_property
    def errors(self) -> pd.DataFrame:
        """``errors.parquet``: predictions beside what was measured."""
        return self._table("errors.parquet", "make it with: harness report RUN")

    def observation(self, step: int) -> Observation:
        """Return a step as a model sees it."""
        from harness.analysis.judge.predicting import observation  # noqa: PLC0415 (takes a second)

        return observation(self._run, load(self.path / EVERY), self._known(step))

    def settings(self) -> Settings:
        """Return the deployment's settings, as a model sees them."""
        from harness.analysis.judge.predicting import settings  # noqa: PLC0415

        return settings(self._run, load(self.path / EVERY))

    def figure(self, name: str) -> Drawing:
        """Draw one of the figures that ``harness figures`` draws; Spark computes its tables.

        Raises
        ------
        UsageError
            Naming the figures that there are, or saying that this run lacks what the figure shows.
        """
        from harness.analysis.figures import style  # noqa: PLC0415 (takes a second)
        from harness.analysis.figures.all_figures import REGISTRY  # noqa: PLC0415

        kinds = {kind.name: kind for kind in REGISTRY}
        if name not in kinds:
            raise UsageError(f"{name}: no such figure", f"there are {', '.join(sorted(kinds))}")
        kind, results = kinds[name], self._results
        if not kind.drawable(results):
            raise UsageError(f"{name}: this run lacks what it shows", "look at harness figures RUN")
        with style.styled(style.STYLES["screen"]):
            return kind.draw(results)

    @cached_property
    def _results(self) -> Results:
        from harness.analysis.judge.computing import results  # noqa: PLC0415 (starts Spark)

        (only,) = results([self.path])
        return only

    @property
    def run(self) -> Run:
        """The run directory itself."""
        return self._run

    def one_step(self, step: int | None) -> int:
        """Return a finished step's number; where none is asked, that of the run's only one.

        Raises
        ------
        UsageError
            When that step is not finished, or none is asked and there are several.
        """
        finished = self._run.finished_steps
        if step is None and len(finished) > 1:
            raise UsageError(
                f"{self.path}: several steps", f"give --step: one of {', '.join(map(str, finished))}"
            )
        return self._known(finished[0] if step is None and finished else step or 0)

    def _known(self, step: int) -> int:
        finished = self._run.finished_steps
        if step not in finished:
            known = ", ".join(str(n) for n in finished) or "none"
            raise UsageError(f"{self.path}: no finished step {step}", f"finished are {known}")
        return step

    def _table(self, name: str, mend: str = "") -> pd.DataFrame:
        if not (self.path / name).is_file():
            raise UsageError(f"{self.path / name}: is not there", mend)
        frame: pd.DataFrame = read_table(self.path / name).to_pandas()
        return frame

    def __repr__(self) -> str:
        return f"OpenedRun({str(self.path)!r})"

    def _repr_html_(self) -> str:
        """Show name, verdict and steps in a notebook."""
        head = f"{html.escape(self.name)}: {html.escape(self.verdict)}"
        return f"<p><b>{head}</b> <code>{html.escape(str(self.path))}</code></p>{self.steps.to_html()}"


def load_run(path: Path | str) -> OpenedRun:
    """Open a run directory; see ``OpenedRun``."""
    return OpenedRun(path)


def search_runs(folder: Path | str, **where: object) -> pd.DataFrame:
    """Return the runs below a folder, a row each, newest first.

    Parameters
    ----------
    folder : Path or str
    **where
        Columns and the value that a run must have there, as ``verdict="valid"``.

    Returns
    -------
    DataFrame
        ``experiment``, ``verdict``, ``steps`` (finished), ``commit``, ``started``, ``cluster_kind`` and
        ``path``.

    Raises
    ------
    UsageError
        When there is no such folder or column.

    Examples
    --------
    >>> import harness
    >>> runs = harness.search_runs("reports/runs", experiment="noise-floor")
    >>> runs["verdict"].tolist()
    ['valid']
    """
    if not Path(folder).is_dir():
        raise UsageError(f"{folder}: no such folder", "run directories are in runs/ and reports/runs/")
    columns = ["experiment", "verdict", "steps", "commit", "started", "cluster_kind", "path"]
    frame = pd.DataFrame(list(_rows(Path(folder))), columns=columns)
    for column, value in where.items():
        if column not in columns:
            raise UsageError(f"{column}: no such column", f"there are {', '.join(columns)}")
        frame = frame[frame[column] == value]
    return frame.sort_values("started", ascending=False, ignore_index=True)


def readable_runs(folder: Path) -> Iterator[Run]:
    """Yield the run directories below a folder, by path; one that cannot be read hides no other."""
    for file in sorted(folder.rglob("environment.json")):
        try:
            yield Run(file.parent)
        except (UsageError, json.JSONDecodeError, OSError):
            continue


def _rows(folder: Path) -> Iterator[dict[str, object]]:
    for run in readable_runs(folder):
        said = run.environment
        yield {
            "experiment": run.path.parent.name,
            "verdict": run.verdict,
            "steps": len(run.finished_steps),
            "commit": said.get("commit", ""),
            "started": said.get("started", ""),
            "cluster_kind": said.get("cluster_kind", ""),
            "path": str(run.path),
        }


def predict(
    run: OpenedRun, model: str, source: int, proposed: PhysicalPlan | int, rate_tps: float | None = None
) -> Prediction:
    """Let a model predict a plan from one step of a run; no cluster is needed and nothing is written.

    Parameters
    ----------
    run : OpenedRun
    model : str
        A model's name, or ``package.module:name``.
    source : int
        The step to predict from.
    proposed : PhysicalPlan or int
        A plan of the same query plan, or the step whose plan is meant.
    rate_tps : float, optional
        Messages a second; by default the proposed step's, or the source's for a plan.

    Raises
    ------
    UsageError
        When there is no such step or model.

    Examples
    --------
    >>> import harness
    >>> run = harness.load_run("reports/runs/noise-floor/20261121T181833Z")
    >>> answer = harness.predict(run, "no-change", source=0, proposed=1)
    >>> {e.measure for e in answer.estimates} >= {"ground_truth_latency_ms", "arrival_rate_tps"}
    True
    """
    from harness.analysis.judge.predicting import ask, reader  # noqa: PLC0415 (takes a second)
    from harness.models import resolve  # noqa: PLC0415

    seen = run.observation(source)
    plan = run.plan(proposed) if isinstance(proposed, int) else proposed
    there = run.observation(proposed) if isinstance(proposed, int) else seen
    rate_tps = there.rate_tps if rate_tps is None else rate_tps
    return ask(reader(resolve(model), seen), plan, there.settings, rate_tps)
