"""Archived runs scored anew from their raw latencies and metrics, with today's models; nothing is written.

Every raw table is read once. No Spark is used, since the samples are in the models' observations anyway. The
measurement of a step is the answer of no-change for the step itself (a test compares that with Spark's
tables).
"""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from harness.analysis.judge import checks, evidence, raw_steps
from harness.analysis.judge.carriers import Statistic, carriers
from harness.analysis.judge.pair_errors import Asked, Errors, errors
from harness.analysis.judge.predicting import settings
from harness.analysis.judge.raw_steps import RawStep
from harness.analysis.judge.resampling import redrawn
from harness.analysis.judge.scores import RunScores, StepScore
from harness.analysis.spark.inputs import RunRecord, StepRecord, read_raw
from harness.experiments.loading import load
from harness.experiments.provenance import kept_files
from harness.machine.environment import describe
from harness.models import MODELS, NO_CHANGE, resolve
from harness.protocols import CheckResult, Model
from harness.runs import Run
from harness.schemas.environment import MachineFacts

NIGHTS = 20
"""Resampled nights that a baseline is made with: as many as the shortest intervals have blocks."""
ROUNDS = 3
"""Predictions are timed so often; the quickest counts."""


def rescore(
    paths: Sequence[Path],
    models: Sequence[str] = (),
    progress: Callable[[str], None] = lambda _: None,
    timed: bool = False,
    nights: int = 0,
) -> list[RunScores]:
    """Score runs from their raw tables.

    Parameters
    ----------
    paths : sequence of Path
        Run directories.
    models : sequence of str
        Models; when empty all that are registered but ``no-change``, whose answers are measured values.
    progress : callable
        Told what is being done.
    timed : bool
        Whether to time the models' predictions too.
    nights : int
        Resampled nights to learn from how far all of it moves by chance; a baseline needs some.

    Returns
    -------
    list of RunScores
        In the order given.

    Raises
    ------
    UsageError
        Naming the first file that is missing, unreadable, foreign or of a newer schema.
    """
    records = [read_raw(path) for path in paths]  # every mistake is found before the first prediction
    chosen = {name: resolve(name) for name in models or (m for m in MODELS if m != NO_CHANGE)}
    out = []
    for record in records:
        progress(f"{record.path}: predicting and judging")
        scorer = Scorer(record, chosen)
        scored = scorer.score(scorer.raw, nights, lambda line, of=record: progress(f"{of.path}: {line}"))  # type: ignore[misc]
        times = prediction_times(scorer) if timed else {}
        out.append(scored.model_copy(update={"predict_ms": times}))
    return out


@contextmanager
def linked_copy(path: Path) -> Iterator[Path]:
    """Give a temporary run directory with the run's small files and links to its steps."""
    source = Run(path).path
    with tempfile.TemporaryDirectory(prefix="harness-rescore-") as folder:
        copy = Path(folder) / source.name
        copy.mkdir()
        for name in ("environment.json", *kept_files(source)):
            shutil.copy(source / name, copy / name)
        os.symlink(source / "steps", copy / "steps", target_is_directory=True)
        yield copy


class Scorer:
    """A run with its raw tables in memory, to be scored as it is and as other nights might have been.

    Attributes
    ----------
    record : RunRecord
    models : mapping of str to Model
    raw : mapping of int to RawStep
        By step.
    """

    def __init__(self, record: RunRecord, models: Mapping[str, Model]) -> None:
        self.record = record
        self.models = models
        self.raw = {s.index: raw_steps.read_step(s) for s in record.steps}
        self.experiment = load(record.path / "experiment.yaml")
        self.settings = settings(Run(record.path), self.experiment)
        self.machine = _machine(describe("", {})["machine"])

    def score(
        self,
        raw: Mapping[int, RawStep],
        nights: int = 0,
        progress: Callable[[str], None] = lambda _: None,
    ) -> RunScores:
        """Return what a night is worth: the run's own, or one that was drawn from it.

        Parameters
        ----------
        raw : mapping of int to RawStep
            The night.
        nights : int
            Nights to draw from it, to learn how far everything moves by chance.
        progress : callable
            Told what is being done.
        """
        every = checks.run_checks(self.record, {i: raw_steps.samples(s) for i, s in raw.items()})
        found = [c for c in every if c.check not in evidence.EDITED]
        unusable = checks.unusable(found, self.record.steps)
        judged = errors([self.asked(raw)], self.record, unusable)
        drawn = []
        for seed in range(nights):
            progress(f"resampled night {seed + 1} of {nights}")
            drawn.append(self.asked(self.night(seed, raw)))
        again = errors(drawn, self.record, unusable) if drawn else None
        rests_on = self.carriers(raw, judged) if drawn else None
        machine = self.record.environment.get("machine", {})
        return RunScores(
            experiment=self.record.name,
            settings=self.experiment.model_dump(mode="json"),
            run=self.record.path.name,
            commit=str(self.record.environment.get("commit", "")),
            machine=_machine(machine),
            verdict=checks.verdict(found),
            failed=_failed(found),
            steps=_steps(self.record, raw, unusable),
            measured=tuple(judged.measured(again, rests_on)),
            accuracy=tuple(judged.accuracy(again, rests_on)),
            models=tuple(self.models),
            scored_on=self.machine,
            nights=nights,
            edited=_failed(c for c in every if c.check in evidence.EDITED),
        )

    def carriers(self, raw: Mapping[int, RawStep], judged: Errors) -> dict[int, dict[Statistic, float]]:
        """Return by step how many blocks of its interval every measured statistic rests on."""
        return {
            i: carriers(
                step,
                step.observation(self.settings),
                {key: float(of[i][0]) for key, of in judged.values.items() if i in of},
            )
            for i, step in raw.items()
        }

    def night(self, seed: int, raw: Mapping[int, RawStep] | None = None) -> dict[int, RawStep]:
        """Return a resampled night: every step drawn again."""
        return {i: redrawn(s, seed) for i, s in (raw or self.raw).items()}

    def asked(self, raw: Mapping[int, RawStep]) -> Asked:
        """Return every model's answers for all pairs of a night, and what was measured in it."""
        return Asked.of(
            {i: s.observation(self.settings) for i, s in raw.items()}, raw, self.models, self.record
        )


def _failed(found: Iterable[CheckResult]) -> tuple[str, ...]:
    """Return a line a check that did not pass."""
    return tuple(
        (f"step {c.step}: " if c.step is not None else "") + f"{c.check}: {c.detail}"
        for c in found
        if c.status != "valid"
    )


def _machine(of: MachineFacts) -> str:
    return f"{of.get('cpu', '') or platform.machine()}, {of.get('cores', '?')} cores"


def _steps(
    run: RunRecord, raw: Mapping[int, RawStep], unusable: Mapping[int, tuple[str, str]]
) -> tuple[StepScore, ...]:
    out, labels = [], run.labels
    for s in run.steps:
        step = raw[s.index]
        sent, gone = _fates(s)
        noise = raw_steps.noise_pct(step)
        out.append(
            StepScore(
                label=labels[s.index],
                unusable=unusable.get(s.index, ("", ""))[1],
                data=raw_steps.contents(step),
                rows=step.latency.num_rows,
                blocks=raw_steps.blocks(step),
                noise_pct=None if noise is None else round(noise, 6),
                seconds=_seconds(s),
                sent=sent,
                gone=gone,
            )
        )
    return tuple(out)


def _fates(step: StepRecord) -> tuple[int, int]:
    """Return how many messages there were, and how many of them went astray."""
    ledger, tracked = step.quality.ledger, step.quality.tracked
    if ledger is not None:
        return ledger.sent, sum(ledger.counts[k] for k in checks.ASTRAY)
    return (tracked.emitted, tracked.failed) if tracked is not None else (0, 0)


def _seconds(step: StepRecord) -> dict[str, float]:
    at = step.interval
    return {
        "rebalance_s": round((at.up_ns - at.rebalance_start_ns) / 1e9, 3),
        "burn_in_s": round(at.burn_in.seconds, 3),
        "after_s": round((at.done_ns - at.end_ns) / 1e9, 3),
    }


def prediction_times(scorer: Scorer) -> dict[str, tuple[float, ...]]:
    """Return the CPU time of one prediction in ms, by model and source step (mean over proposed plans)."""
    seen = [s.observation(scorer.settings) for s in scorer.raw.values()]
    found: dict[str, tuple[float, ...]] = {}
    for name, model in scorer.models.items():
        of_steps = []
        for source in seen:
            rounds = []
            for _ in range(ROUNDS):
                begun = time.process_time()
                for proposed in seen:
                    model(source, proposed.plan, proposed.settings, proposed.rate_tps)
                rounds.append((time.process_time() - begun) / len(seen) * 1e3)
            of_steps.append(round(min(rounds), 3))
        found[name] = tuple(of_steps)
    return found
