"""Every pair's breakdown for the report: measurements by stage, predictions, and causes of their errors.

The stages are those of the hop records (``stages``); a model is compared in the measures that it predicts. An
error splits in two. The first part is the model's error when it predicts the source step from itself. The
second is the part that it misses of the change from the source to the proposed step. The second is explained
by the stages that changed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import pandas as pd

from harness.analysis.figures import style
from harness.analysis.figures.error_figures import what
from harness.analysis.judge.results import WITHIN_NOISE, Results
from harness.analysis.spark import stages
from harness.schemas import Measure, unit_of

MOST_PAIRS = 256
"""More would make the page too large; then those with the largest errors are shown."""
WHOLE = (
    (Measure.GROUND_TRUTH, "mean"),
    (Measure.GROUND_TRUTH, "p50"),
    (Measure.GROUND_TRUTH, "p99"),
    (Measure.COMPLETE, "mean"),
    (Measure.ACK, "mean"),
)
OF_COMPONENTS = (Measure.ARRIVALS, Measure.SERVICE, Measure.QUEUE_WAIT, Measure.RESIDENCE)
OF_PAIRS = (Measure.ROUTING, Measure.IO_RATIO)

Row = dict[str, object]
"""A row as the page's template reads it."""


class PredictedRow(NamedTuple):
    """A prediction beside the measured value, with its judgement; a number that is missing is None."""

    value: float | None
    reason: str
    verdict: str
    actual: float | None
    relative_error: float | None
    error_over_noise: float | None


class ActualRow(NamedTuple):
    """A measured value and its noise; a number that is missing is None."""

    value: float | None
    noise: float | None


@dataclass(frozen=True)
class PairViews:
    """The breakdowns of a run's pairs."""

    data: Results

    @cached_property
    def shown(self) -> list[tuple[int, int]]:
        """The pairs that have a breakdown, source step first."""
        every = [(s, p) for s in self.data.steps for p in self.data.steps]
        if len(every) <= MOST_PAIRS:
            return every
        cells = self.data.cells(Measure.GROUND_TRUTH).nlargest(MOST_PAIRS, "abs_error_pct")
        return sorted(set(zip(cells["source_step"], cells["proposed_step"], strict=True)))

    def views(self) -> list[Row]:
        """Return the page's view of every pair."""
        return [self.view(source, proposed) for source, proposed in self.shown]

    def view(self, source: int, proposed: int) -> Row:
        """Return the page's view of one pair."""
        return {
            "id": pair_id(source, proposed),
            "source": source,
            "proposed": proposed,
            "from": self.data.step_words(source),
            "to": self.data.step_words(proposed),
            "stages": self._stages(source, proposed),
            "whole": self._whole(source, proposed),
            "parts": self._components(source, proposed) + self._medians(source, proposed),
            "models": self.data.models,
            "measured": self._measured(source, proposed),
            "why": [w for m in self.data.models if (w := self._why(m, source, proposed))],
        }

    @cached_property
    def _means(self) -> Mapping[str, Mapping[tuple[int, str, str], float]]:
        """Columns of ``stages.means``, by step, component and stage."""
        means = stages.means(self.data.stages, self.data.query)
        return {
            str(column): dict(zip(means.index.tolist(), means[column].tolist(), strict=True))
            for column in means
        }

    @cached_property
    def _stage_steps(self) -> set[int]:
        return {step for step, *_ in self._means["part_ms"]}

    @property
    def _by_broker(self) -> bool:
        return any(s.interval.by_broker for s in self.data.run.steps)

    @cached_property
    def _order(self) -> list[tuple[str, str]]:
        return stages.order(self.data.query)

    @cached_property
    def _medians_of(self) -> Mapping[str, Mapping[tuple[int, int], Mapping[str, float]]]:
        """Median errors of the measures of connections and streams, by pair and model."""
        found: dict[str, dict[tuple[int, int], dict[str, float]]] = {}
        for measure in OF_PAIRS:
            cells = self.data.cells(measure)
            for cell in cells[cells["judged"] > 0].to_dict("records"):
                of_pair = found.setdefault(measure, {}).setdefault(
                    (cell["source_step"], cell["proposed_step"]), {}
                )
                of_pair[cell["model"]] = cell["abs_error_pct"]
        return found

    @cached_property
    def _rows(self) -> Mapping[tuple[str, int, int, str, str, str], PredictedRow]:
        """Predictions that the breakdown shows, by model, pair, measure, statistic and subject."""
        names = {c.name for c in self.data.query.components}
        rows = self.data.frame
        rows = rows[(rows["protocol"] == "ours") & rows["subject"].isin({"", *names})]
        keys = rows[["model", "source_step", "proposed_step", "measure", "statistic", "subject"]]
        cells = _filled(rows, PredictedRow._fields).itertuples(index=False, name=None)
        values = (PredictedRow(*row) for row in cells)
        return dict(zip(keys.itertuples(index=False, name=None), values, strict=True))

    @cached_property
    def _actuals(self) -> Mapping[tuple[int, str, str, str], ActualRow]:
        names = {c.name for c in self.data.query.components}
        rows = self.data.actuals
        rows = rows[(rows["protocol"] == "ours") & rows["subject"].isin({"", *names})]
        keys = rows[["step", "measure", "statistic", "subject"]]
        cells = _filled(rows, ActualRow._fields).itertuples(index=False, name=None)
        values = (ActualRow(*row) for row in cells)
        return dict(zip(keys.itertuples(index=False, name=None), values, strict=True))

    def _actual(self, step: int, measure: str, statistic: str = "mean", subject: str = "") -> float | None:
        found = self._actuals.get((step, measure, statistic, subject))
        return None if found is None else found.value

    def _noise(self, step: int, measure: str, statistic: str = "mean", subject: str = "") -> float | None:
        found = self._actuals.get((step, measure, statistic, subject))
        return None if found is None else found.noise

    def _part(self, step: int, stage: tuple[str, str]) -> float:
        """Return what a stage adds to a step's mean latency: 0 where nothing went through it."""
        return float(self._means["part_ms"].get((step, *stage), 0.0))

    def _known(self, step: int) -> bool:
        return step in self._stage_steps

    def _changes(self, source: int, proposed: int) -> dict[tuple[str, str], float]:
        if not (self._known(source) and self._known(proposed)):
            return {}
        return {k: self._part(proposed, k) - self._part(source, k) for k in self._order}

    def _stages(self, source: int, proposed: int) -> list[Row]:
        changes = self._changes(source, proposed)
        if not changes:
            return []
        widest = max(abs(v) for v in changes.values()) or 1.0
        rows: list[Row] = []
        for stage, change in changes.items():
            errors = [float(self._means["part_error_ms"].get((s, *stage), 0.0)) for s in (source, proposed)]
            rows.append(
                {
                    "name": stages.label(self.data.query, *stage),
                    "source": self._part(source, stage),
                    "proposed": self._part(proposed, stage),
                    "change": change,
                    "error": sum(e**2 for e in errors if not math.isnan(e)) ** 0.5,
                    "share": 100 * abs(change) / widest,
                }
            )
        total = {
            "source": sum(self._part(source, stage) for stage in changes),
            "proposed": sum(self._part(proposed, stage) for stage in changes),
            "change": sum(changes.values()),
        }
        means = [self._actual(step, Measure.GROUND_TRUTH) for step in (source, proposed)]
        if self._by_broker and None not in means:  # of what passed between clocks no hop record tells
            before, after = (float(mean or 0.0) for mean in means)
            whole = {"source": before, "proposed": after, "change": after - before}
            rest = {k: whole[k] - total[k] for k in total}
            rows.append({"name": "between hosts and to the broker", "error": None, "share": None, **rest})
            total = whole
        return [*rows, {"name": "mean ground-truth latency", "error": None, "share": None, **total}]

    def _whole(self, source: int, proposed: int) -> list[Row]:
        return [
            self._line(source, proposed, measure, statistic, "", what(measure, statistic))
            for measure, statistic in WHOLE
            if self._actual(proposed, measure, statistic) is not None
        ]

    def _components(self, source: int, proposed: int) -> list[Row]:
        """Return a line a component and measure that a model predicts by component."""
        asked = {(k[3], k[5]) for k in self._rows if k[5] and k[3] in OF_COMPONENTS}
        bolts = dict.fromkeys(c for c, _ in self._order)
        return [
            self._line(source, proposed, m, "mean", c, f"{c}: {style.measure_name(m)}")
            for c in bolts
            for m in OF_COMPONENTS
            if (m, c) in asked
        ]

    def _line(self, source: int, proposed: int, measure: str, statistic: str, subject: str, name: str) -> Row:
        """Return what was measured at both ends, and each model's prediction with its error."""
        before, after = (self._seen(s, measure, statistic, subject) for s in (source, proposed))
        predicted = []
        for model in self.data.models:
            row = self._rows.get((model, source, proposed, measure, statistic, subject))
            value, reason = (row.value, row.reason) if row else (None, "")
            error = None if value is None or not after else 100 * (value - after) / after
            predicted.append({"value": value, "error": error, "reason": reason})
        return {
            "name": name,
            "unit": unit_of(measure),
            "source": before,
            "proposed": after,
            "noise": self._noise(proposed, measure, statistic, subject),
            "predicted": predicted,
        }

    def _seen(self, step: int, measure: str, statistic: str, subject: str) -> float | None:
        """Return what was measured, of a stage that only hop records know too."""
        if measure in (Measure.QUEUE_WAIT, Measure.RESIDENCE):
            stage = stages.TRANSFER if measure == Measure.QUEUE_WAIT else stages.INSIDE
            value = self._means["visit_ms"].get((step, subject, stage))
            return None if value is None else float(value)
        return self._actual(step, measure, statistic, subject)

    def _medians(self, source: int, proposed: int) -> list[Row]:
        """Return a line for the measures of connections and streams: median errors only."""
        lines: list[Row] = []
        for measure, of_pairs in self._medians_of.items():
            if by_model := of_pairs.get((source, proposed)):
                lines.append(
                    {
                        "name": f"{style.measure_name(measure)}, median |error|",
                        "unit": "",
                        "source": None,
                        "proposed": None,
                        "noise": None,
                        "predicted": [
                            {"value": None, "error": by_model.get(m), "reason": ""} for m in self.data.models
                        ],
                    }
                )
        return lines

    def _measured(self, source: int, proposed: int) -> str:
        """Say how the measured latency changed, and where the change happened."""
        before, after = (self._actual(s, Measure.GROUND_TRUTH) for s in (source, proposed))
        if before is None or after is None:
            return "The mean ground truth of one of the steps was not measured."
        if source == proposed:
            return f"The mean ground truth of this step is {style.number(after, 4)} ms."
        noise = self._noise(proposed, Measure.GROUND_TRUTH)
        said = (
            f"Measured: the mean ground truth goes from {style.number(before, 4)} ms"
            f" to {style.number(after, 4)} ms, {_ms(after - before)}"
            f" ({style.signed(100 * (after / before - 1), 1)} %)."
        )
        said += f" Noise of the proposed step: ±{style.number(noise, 2)} ms." if noise else ""
        changes = sorted(self._changes(source, proposed).items(), key=lambda kv: -abs(kv[1]))[:3]
        named = [f"{stages.label(self.data.query, *k)} {_ms(v)}" for k, v in changes]
        return said + (f" Largest changes by stage: {', '.join(named)}." if named else "")

    def _why(self, model: str, source: int, proposed: int) -> Row | None:
        """Say how large a model's error of the mean is, and which stage explains it."""
        row = self._rows.get((model, source, proposed, Measure.GROUND_TRUTH, "mean", ""))
        if row is None:
            return None
        error = _judged_error(row)
        if error is None or row.value is None or row.relative_error is None:
            return {"model": model, "text": f"{row.verdict}: {row.reason}"}
        text = (
            f"predicts {style.number(row.value, 4)} ms, {_ms(error)}"
            f" ({style.signed(100 * row.relative_error, 1)} %)"
        )
        sigmas = row.error_over_noise
        if sigmas is not None and sigmas <= WITHIN_NOISE:
            return {"model": model, "text": f"{text}: within the measurement's noise."}
        text += "." if sigmas is None else f", {style.number(sigmas, 2)} times the noise."
        own = self._rows.get((model, source, source, Measure.GROUND_TRUTH, "mean", ""))
        own_error = None if own is None else _judged_error(own)
        if source != proposed and own_error is not None:
            text += self._split(error, own_error, source, proposed)
        text += self._by_component(model, source, proposed, error)
        return {"model": model, "text": text}

    def _split(self, error: float, own: float, source: int, proposed: int) -> str:
        """Split an error into that of predicting the source from itself and the missed part of the change."""
        missed = error - own
        change = sum(self._changes(source, proposed).values())
        if abs(own) >= abs(missed):
            said = (
                f" {_ms(own)} of it is already there when it predicts step {source} from itself:"
                " the larger part comes from no stage's change."
            )
        else:
            said = f" It foresees {_ms(change + missed)} of the measured change of {_ms(change)}"
            said += (
                f" (and errs by {_ms(own)} predicting step {source} from itself)." if abs(own) > 0 else "."
            )
        # What is missed is the foreseen less the measured change: stages that moved against it explain it.
        against = {k: v for k, v in self._changes(source, proposed).items() if v * missed < 0}
        if not against or abs(missed) < 0.1 * abs(error):
            return said
        stage, moved = max(against.items(), key=lambda kv: abs(kv[1]))
        return said + (
            f" What it misses of the change ({_ms(-missed)}) is best explained by"
            f" {stages.label(self.data.query, *stage)} ({_ms(moved)})."
        )

    def _by_component(self, model: str, source: int, proposed: int, error: float) -> str:
        """Say how much of an error the stages that the model predicts account for."""
        accounted: dict[str, float] = {}
        n = self._means["n"]
        ends = sum(float(n.get((proposed, c, stages.INSIDE), 0)) for c in self.data.query.sinks)
        for component, stage in self._order:
            measure = stages.measure(self.data.query, component, stage)
            row = self._rows.get((model, source, proposed, measure, "mean", component))
            seen = self._seen(proposed, measure, "mean", component)
            value = row.value if row else None
            if value is None or seen is None or not ends:
                continue
            visits = float(n.get((proposed, component, stage), 0)) / ends
            accounted[stages.label(self.data.query, component, stage)] = visits * (value - seen)
        if not accounted:
            return ""
        total = sum(accounted.values())
        worst = max(accounted, key=lambda k: abs(accounted[k]))
        return (
            f" The stages that it predicts by themselves account for {_ms(total)}"
            f" (most: {worst} {_ms(accounted[worst])}), the others for {_ms(error - total)}."
        )


def _judged_error(row: PredictedRow) -> float | None:
    """Return the predicted less the measured value; None where the prediction was not judged."""
    if row.verdict != "judged" or row.value is None or row.actual is None:
        return None
    return row.value - row.actual


def _filled(rows: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Return some columns of a table, with None where there is no number."""
    cells = rows[list(columns)].astype(object)
    return cells.where(cells.notna(), None)


def pair_id(source: int, proposed: int) -> str:
    """Return the anchor of a pair's breakdown."""
    return f"pair-{source}-{proposed}"


def _ms(value: float) -> str:
    """Return a difference in ms with its sign and three significant digits."""
    text = style.number(abs(value), 3)
    return f"{'−' if value < 0 else '+'}{text} ms" if float(text) else "0 ms"
