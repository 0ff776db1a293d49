"""Contents of the report, as plain values: sentences, rows of tables, matrices of cells."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from harness.analysis.figures import plan_drawing, query_plan_drawing, style
from harness.analysis.figures.error_figures import noise_floor_pct, what
from harness.analysis.judge.arithmetic import THESIS_STATISTICS
from harness.analysis.judge.bootstrap import ConfidenceInterval
from harness.analysis.judge.checks import DECLINED, MEASURED
from harness.analysis.judge.judged_rows import judged_rows
from harness.analysis.judge.ranking import intervals
from harness.analysis.judge.results import WITHIN_NOISE, Results, executors
from harness.analysis.judge.summary import ErrorSummary, JudgedWith, leading
from harness.analysis.report.pairs import pair_id
from harness.protocols import CheckResult
from harness.schemas import LATENCIES, Measure
from harness.schemas.environment import Environment

WORST_ROWS = 4
"""Largest errors shown for each measure."""

Row = dict[str, object]
"""A row as the page's template reads it."""


class MatrixCell(NamedTuple):
    """A cell of an error matrix as ``summary.matrices`` makes it; a number that is missing is NaN."""

    judged: int
    comparisons: int
    verdict: str
    reason: str
    relative_error: float
    abs_error_pct: float
    predicted: float
    actual: float
    low: float
    high: float
    noise: float
    error_over_noise: float


def none(value: object) -> bool:
    """Return True if there is no number, or none that is finite."""
    return value is None or (isinstance(value, float) and not math.isfinite(value))


def number(value: float | None, digits: int = 3) -> str:
    """Return a number with so many significant digits, and a dash for none.

    Examples
    --------
    >>> number(12.3456), number(None), number(12345.6)
    ('12.3', '–', '12346')
    """
    return "–" if value is None or none(value) else style.number(float(value), digits)


def headline(data: Results) -> list[Row]:
    """Return the answer in sentences: how large the errors are, where the largest, and the noise floor.

    Each has a text, and the worst pairs to link to (model, text, anchor).
    """
    latencies = {s.interval.latency for s in data.run.steps}
    kinds = sorted(latencies - {"ground-truth"})
    out: list[Row] = [{"text": f"Latency measured: {MEASURED[kind]}.", "worst": []} for kind in kinds]
    for name, reason in data.run.unwrapped.items():
        out.append({"text": f"Component {name} is not instrumented: it {reason}.", "worst": []})
    for measure in leading(latencies):
        rows = [
            e
            for e in data.summary["errors"]
            if (e["measure"], e["protocol"], e["statistic"]) == (measure, "ours", "mean")
        ]
        judged = sorted(
            (e for e in rows if e["median_abs_error_pct"] is not None),
            key=lambda e: e["median_abs_error_pct"] or 0.0,
        )
        name = f"Mean {style.measure_name(measure)}"
        if not rows:
            continue
        if not judged:
            out.append({"text": f"{name}: no off-diagonal pair could be judged.", "worst": []})
            continue
        parts = [f"{e['model']} {e['median_abs_error_pct']:.1f} %" for e in judged]
        floor = noise_of_means_pct(data, measure)
        noise = f" Noise of the measurement itself: {floor:.1f} %." if floor is not None else ""
        first = judged[0]
        over = f"{first['judged']} of {first['pairs']} pairs"
        if first["comparisons"] > first["pairs"]:
            over = f"{first['judged']} of {first['comparisons']} comparisons in {first['pairs']} pairs"
        out.append(
            {
                "text": f"{name}, median error over {over}: {', '.join(parts)}.{noise}",
                "worst": _worst_pairs(data, measure),
            }
        )
    return out


def _worst_pairs(data: Results, measure: str) -> list[Row]:
    """Return each model's worst pair of a measure's mean: its error, or the median over its subjects."""
    cells = data.cells(measure)
    cells = cells[(cells["source_step"] != cells["proposed_step"]) & (cells["judged"] > 0)]
    found: list[Row] = []
    for model, of in cells.groupby("model"):
        worst = of.nlargest(1, "abs_error_pct").iloc[0]
        ends = int(worst["source_step"]), int(worst["proposed_step"])
        whole = worst["comparisons"] == 1
        size = style.signed(100 * worst["relative_error"]) if whole else f"{worst['abs_error_pct']:.0f}"
        text = f"{size} %{'' if whole else ' in the median'} from step {ends[0]} to {ends[1]}"
        found.append({"model": model, "text": text, "anchor": pair_id(*ends)})
    return found


def noise_of_means_pct(data: Results, measure: str) -> float | None:
    """Return the median over the steps of the mean's noise, in percent of the mean."""
    rows = data.measured(measure)
    share = (rows["noise"] / rows["value"]).dropna() * 100
    return float(share.median()) if len(share) else None


def repeats(data: Results) -> Row:
    """Say what the noise column holds: how many configurations were repeated, and how they spread."""
    rows = data.measured(Measure.GROUND_TRUTH)
    if not len(rows):
        rows = data.measured(Measure.ACK)
    share = rows["between_share"].dropna()
    times = rows["configuration"].value_counts()
    repeated = times[times > 1]
    return {
        "configurations": len(repeated),
        "steps": int(repeated.sum()),
        "between_pct": float(share.iloc[0] * 100) if len(share) else None,
    }


def check_grid(data: Results) -> list[Row]:
    """One row a check: its result for the run, or for every step."""
    told = [c for c in data.checks if c.check != DECLINED]
    of_run = {c.check: c for c in told if c.step is None}
    of_steps: dict[str, dict[int, CheckResult]] = {c.check: {} for c in told}
    for c in told:
        if c.step is not None:
            of_steps[c.check][c.step] = c
    return [{"check": name, "run": of_run.get(name), "steps": steps} for name, steps in of_steps.items()]


def step_rows(data: Results) -> list[Row]:
    """One row a step: its configuration, and what was measured with the noise beside it."""
    out = []
    for s in data.run.steps:
        row: Row = {
            "step": s.index,
            "executors": executors(s),
            "workers": len(s.plan.start.workers),
            "rate_tps": s.interval.rate_tps,
            "seconds": (s.interval.end_ns - s.interval.start_ns) / 1e9,
            "burn_in_s": s.interval.burn_in.seconds,
            "overhead_s": s.interval.overhead_s,
            "stop": s.interval.stop_reason,
            "precision_pct": s.interval.precision_pct_reached,
        }
        of_acks = s.interval.latency == "ack"  # then they are what there is
        percentiles = Measure.ACK if of_acks else Measure.GROUND_TRUTH
        mean: float | None = None
        noise: float | None = None
        for key, measure, statistic in (
            ("mean", Measure.GROUND_TRUTH, "mean"),
            ("p50", percentiles, "p50"),
            ("p95", percentiles, "p95"),
            ("p99", percentiles, "p99"),
            ("complete", Measure.COMPLETE, "mean"),
            ("ack", Measure.ACK, "mean"),
        ):
            found = data.measured(measure, statistic)
            found = found[found["step"] == s.index]
            row[key] = found["value"].iloc[0] if len(found) else None
            if key == ("ack" if of_acks else "mean"):
                mean, noise = found[["value", "noise"]].iloc[0] if len(found) else (None, None)
                row["noise"] = noise
                row["n"] = found["n"].iloc[0] if len(found) else 0
        row["noise_pct"] = None
        if mean and noise is not None and math.isfinite(mean) and math.isfinite(noise):
            row["noise_pct"] = 100 * noise / mean
        out.append(row)
    return out


def plans(data: Results) -> Row:
    """Return the drawings of the query plan and of the steps' plans, and what their colours mean."""
    return {
        "query": query_plan_drawing.draw(data.run.steps[0].plan.start.query_plan),
        "legend": plan_drawing.legend(data.run.steps[0].plan.start),
        "steps": [(s.index, executors(s), plan_drawing.draw(s.plan.start)) for s in data.run.steps],
    }


def leaderboard(data: Results) -> list[tuple[ErrorSummary, ConfidenceInterval | None]]:
    """Means of what sums the run up, each measure's models by median error.

    With the median's interval where a pair is one comparison, as of latencies.
    """
    order = {m: i for i, m in enumerate(leading({s.interval.latency for s in data.run.steps}))}
    rows = [
        e
        for e in data.summary["errors"]
        if e["measure"] in order and (e["statistic"] == "mean" or e["protocol"] == "thesis")
    ]

    def place(e: ErrorSummary) -> tuple[int, str, float]:
        error = e["median_abs_error_pct"]
        return order[e["measure"]], e["protocol"], float("inf") if error is None else error

    whole = [e for e in rows if e["measure"] in LATENCIES]
    found = intervals([data], {(e["protocol"], e["measure"], e["statistic"]) for e in whole})
    return [
        (e, found.get((e["protocol"], e["measure"], e["statistic"], e["model"])))
        for e in sorted(rows, key=place)
    ]


def matrix_views(data: Results) -> list[Row]:
    """Every error matrix as rows of cells, the latencies' means first, what nobody was judged on last."""
    steps = data.steps
    views: dict[tuple[str, str, str, str], pd.DataFrame] = {
        (str(model), str(protocol), str(measure), str(statistic)): of
        for (model, protocol, measure, statistic), of in data.matrices.groupby(
            ["model", "protocol", "measure", "statistic"], observed=True
        )
    }
    judged_kinds = {key[1:] for key, of in views.items() if of["judged"].any()}

    def place(key: tuple[str, str, str, str]) -> tuple[bool, bool, bool, int, str, str, str]:
        model, protocol, measure, statistic = key
        nothing = key[1:] not in judged_kinds
        return (
            nothing,
            protocol != "ours",
            statistic != "mean",
            style.measure_place(measure),
            measure,
            statistic,
            model,
        )

    found: list[Row] = []
    for model, protocol, measure, statistic in sorted(views, key=place):
        of = views[model, protocol, measure, statistic]
        cells = _cells(of)
        signed = all(c.comparisons == 1 for c in cells.values())
        judged = any(c.judged for c in cells.values())
        reasons = sorted({str(c.reason) for c in cells.values()})
        found.append(
            {
                "model": model,
                "kind": f"{style.measure_name(measure)}, {statistic.replace('_', ' ')}{_theirs(protocol)}",
                "signed": signed,
                "nothing": "" if judged else "; ".join(reasons),
                "steps": steps,
                "noise": _noise_row(of, steps),
                "rows": [(s, [_cell(cells.get((s, p)), s, p, signed) for p in steps]) for s in steps],
            }
        )
    return found


def _cells(matrix: pd.DataFrame) -> dict[tuple[int, int], MatrixCell]:
    """Return a matrix' cells by source and proposed step."""
    rows = matrix[list(MatrixCell._fields)].itertuples(index=False, name=None)
    ends = zip(matrix["source_step"], matrix["proposed_step"], strict=True)
    return {(source, proposed): MatrixCell(*row) for (source, proposed), row in zip(ends, rows, strict=True)}


def _theirs(protocol: str) -> str:
    """Name the protocol beside a measure, where it is not the harness's own."""
    return " (the thesis's protocol)" if protocol == "thesis" else ""


def _noise_row(cells: pd.DataFrame, steps: Sequence[int]) -> list[str]:
    """Return each proposed step's noise floor as the figures have it; empty without any."""
    floor = noise_floor_pct(cells)
    return [f"±{floor[p]:.1f}" if p in floor.index else "–" for p in steps] if len(floor) else []


def worst_rows(data: Results) -> list[Row]:
    """Return the largest errors of each measure's means, latencies first."""
    rows = data.judged()
    rows = rows[rows["statistic"].isin(["mean", *THESIS_STATISTICS.values()])]
    rows = rows[judged_rows(rows)]
    found = (
        rows.sort_values("abs_error_pct", ascending=False).groupby(["measure", "protocol"]).head(WORST_ROWS)
    )
    ranked = found.assign(order=found["measure"].map(style.measure_place)).sort_values(
        ["order", "protocol", "abs_error_pct"], ascending=[True, True, False]
    )
    return [
        {str(k): v for k, v in row.items()}
        | {
            "what": what(row["measure"], row["statistic"]) + _theirs(row["protocol"]),
            "anchor": pair_id(row["source_step"], row["proposed_step"]),
        }
        for row in ranked.to_dict("records")
    ]


def _cell(found: MatrixCell | None, source: int, proposed: int, signed: bool) -> Row:
    title = f"step {source} → step {proposed}"
    cell: Row = {
        "text": "",
        "colour": "",
        "gap": True,
        "within": False,
        "diagonal": source == proposed,
        "anchor": pair_id(source, proposed),
    }
    if found is None:
        return cell | {"title": f"{title}: no prediction"}
    if not found.judged:
        return cell | {
            "text": found.verdict.replace("not-", "not "),
            "title": f"{title}; {found.verdict}: {found.reason}",
        }
    error = found.relative_error * 100 if signed else found.abs_error_pct
    if found.comparisons > 1:
        lines = [title, f"median of {found.judged} of {found.comparisons} comparisons"]
    else:
        noise = "" if none(found.noise) else f" ± {number(found.noise)}"
        lines = [
            title,
            f"predicted {number(found.predicted, 4)}, measured {number(found.actual, 4)}{noise}",
        ]
        if not none(found.low):
            lines.append(f"interval {number(found.low)} to {number(found.high)}")
        if not none(found.error_over_noise):
            lines.append(f"error / noise {number(found.error_over_noise)}")
    lines.append("click: stage by stage")
    return cell | {
        "text": style.signed(error, 1) if signed else f"{error:.1f}",
        "colour": colour(error, signed),
        "title": "; ".join(lines),
        "gap": False,
        "within": bool(found.error_over_noise <= WITHIN_NOISE),
    }


def colour(error_pct: float, signed: bool) -> str:
    """Return a cell's background: red for over, blue for under, by the size of the error up to 50 %.

    Examples
    --------
    >>> colour(0.0, True), colour(80.0, True)
    ('rgb(255,255,255)', 'rgb(214,96,77)')
    """
    share = min(abs(error_pct) / 50.0, 1.0)
    end = (214, 96, 77) if signed and error_pct > 0 else (67, 147, 195)
    return "rgb({},{},{})".format(*(round(255 + (e - 255) * share) for e in end))


def provenance(environment: Environment, judged_with: JudgedWith) -> list[tuple[str, str]]:
    """Return the provenance of the numbers: the facts worth knowing in words, the rest as it stands."""
    machine = environment.get("machine", {})
    memory = machine.get("memory_bytes")
    said = [
        ("measured at", environment.get("started", "")),
        ("commit", environment.get("commit") or "not known"),
        ("judged with", f"harness {judged_with['harness']}, commit {judged_with['commit'] or 'not known'}"),
        ("machine", f"{machine.get('cores', '?')} cores {machine.get('cpu', '')}".strip()),
        ("memory", f"{memory / 2**30:.0f} GiB" if memory else ""),
        ("kernel", machine.get("kernel", "")),
    ]
    shown = {"started", "commit", "machine"}
    rest: dict[str, object] = {k: v for k, v in environment.items() if k not in shown}
    rest["machine"] = {
        k: v for k, v in machine.items() if k not in ("cores", "cpu", "memory_bytes", "kernel")
    }
    return [(k, str(v)) for k, v in said if v] + flattened(rest)


def flattened(value: object, prefix: str = "") -> list[tuple[str, str]]:
    """Return every leaf of nested mappings with its dotted name."""
    if isinstance(value, Mapping):
        inner = [flattened(v, f"{prefix}.{key}" if prefix else str(key)) for key, v in value.items()]
        return [leaf for leaves in inner for leaf in leaves]
    if isinstance(value, list) and any(isinstance(v, Mapping | list) for v in value):
        return [leaf for i, v in enumerate(value) for leaf in flattened(v, f"{prefix}.{i}")]
    return [(prefix, ", ".join(map(str, value)) if isinstance(value, list) else str(value))]
