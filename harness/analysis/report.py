"""The report: one page that needs no network, with the verdict first and the answer next."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined

from harness.analysis import style
from harness.analysis.errors import TOPOLOGY_MEASURES
from harness.analysis.latencies import COMPLETE, GROUND_TRUTH
from harness.analysis.notes import FIGURE_CAPTIONS, MODEL_NOTES, PROTOCOL_NOTES
from harness.analysis.results import WORST_ROWS, Results
from harness.analysis.summary import EVIDENCE_PCT, NO_CHANGE, ErrorSummary


def render(data: Results, figures: Path, names: Sequence[str]) -> str:
    """Return the page's HTML.

    Parameters
    ----------
    figures : Path
        The folder with the figures, whose SVGs are put into the page.
    names : sequence of str
        The figures, in order.
    """
    source = resources.files("harness").joinpath("assets", "report.html.j2").read_text(encoding="utf-8")
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["num"] = number
    environment.filters["pct"] = lambda v, digits=1: "–" if _none(v) else f"{v:.{digits}f}"
    return environment.from_string(source).render(
        run=data.run,
        summary=data.summary,
        verdict=data.summary["verdict"],
        headline=headline(data),
        findings=[c for c in data.checks if c.status != "valid"],
        check_grid=check_grid(data),
        steps=step_rows(data),
        leaderboard=leaderboard(data.summary["errors"]),
        matrices=matrix_views(data),
        errors=data.summary["errors"],
        worst=data.judged().nlargest(WORST_ROWS, "abs_error_pct").to_dict("records"),
        figures=[
            (n, caption(n), _embedded(figures / f"{n}.svg"))
            for n in names
            if not n.startswith("error-matrix")
        ],
        matrix_figures=[(n, _embedded(figures / f"{n}.svg")) for n in names if n.startswith("error-matrix")],
        model_notes=[(m, MODEL_NOTES.get(m, "")) for m in data.models],
        protocol_notes=PROTOCOL_NOTES,
        provenance=list(flattened(data.run.environment)),
        experiment=list(flattened(data.run.experiment)),
        measure_name=style.measure_name,
        evidence_pct=EVIDENCE_PCT,
        no_change=NO_CHANGE,
        repeats=repeats(data),
    )


def number(value: Any, digits: int = 3) -> str:
    """Return a number with so many significant digits, and a dash for none.

    Examples
    --------
    >>> number(12.3456), number(None), number(12345.6)
    ('12.3', '–', '12346')
    """
    if _none(value):
        return "–"
    value = float(value)
    return f"{value:.0f}" if abs(value) >= 10**digits else f"{value:.{digits}g}"


def _none(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _embedded(path: Path) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(path.read_bytes()).decode()


def caption(name: str) -> str:
    """Return a figure's caption."""
    return FIGURE_CAPTIONS.get(name, name.replace("-", " "))


def flattened(value: Any, prefix: str = "") -> Iterable[tuple[str, str]]:
    """Yield every leaf of nested mappings with its dotted name."""
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from flattened(inner, f"{prefix}.{key}" if prefix else str(key))
    elif isinstance(value, list) and value and any(isinstance(v, Mapping | list) for v in value):
        for i, inner in enumerate(value):
            yield from flattened(inner, f"{prefix}.{i}")
    else:
        yield prefix, ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def headline(data: Results) -> list[str]:
    """Return the answer in sentences: how large the errors are, beside the noise floor."""
    out = []
    for measure in TOPOLOGY_MEASURES:
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
            out.append(f"{name}: no off-diagonal pair could be judged.")
            continue
        parts = [
            f"{e['model']} {e['median_abs_error_pct']:.1f} % (worst {e['worst_abs_error_pct']:.0f} %)"
            for e in judged
        ]
        floor = noise_floor_pct(data, measure)
        noise = f" The measurement itself repeats within {floor:.1f} %." if floor is not None else ""
        out.append(f"{name}, median error over {judged[0]['pairs']} pairs: {', '.join(parts)}.{noise}")
    return out


def noise_floor_pct(data: Results, measure: str) -> float | None:
    """Return the median over the steps of the mean's noise, in percent of the mean."""
    rows = data.measured(measure)
    share = (rows["noise"] / rows["value"]).dropna() * 100
    return float(share.median()) if len(share) else None


def repeats(data: Results) -> dict[str, Any]:
    """Say what the noise column holds: how many configurations were repeated, and how they spread."""
    rows = data.measured(GROUND_TRUTH)
    share = rows["between_share"].dropna()
    times = rows["configuration"].value_counts()
    repeated = times[times > 1]
    return {
        "configurations": len(repeated),
        "steps": int(repeated.sum()),
        "between_pct": float(share.iloc[0] * 100) if len(share) else None,
    }


def check_grid(data: Results) -> list[dict[str, Any]]:
    """One row a check: its result for the run, or for every step."""
    rows: dict[str, dict[str, Any]] = {}
    for c in data.checks:
        row = rows.setdefault(c.check, {"check": c.check, "run": None, "steps": {}})
        if c.step is None:
            row["run"] = c
        else:
            row["steps"][c.step] = c
    return list(rows.values())


def step_rows(data: Results) -> list[dict[str, Any]]:
    """One row a step: its configuration, and what was measured with the noise beside it."""
    out = []
    for s in data.run.steps:
        row: dict[str, Any] = {
            "step": s.index,
            "executors": ", ".join(
                f"{c.name} {len(s.plan.start.of(c.name))}" for c in s.plan.start.query_plan.components
            ),
            "workers": len(s.plan.start.workers),
            "rate_tps": s.interval.rate_tps,
            "seconds": (s.interval.end_ns - s.interval.start_ns) / 1e9,
            "burn_in_s": s.interval.burn_in.seconds,
            "stop": s.interval.stop_reason,
            "precision_pct": s.interval.precision_pct_reached,
        }
        for key, measure, statistic in (
            ("mean", GROUND_TRUTH, "mean"),
            ("p50", GROUND_TRUTH, "p50"),
            ("p95", GROUND_TRUTH, "p95"),
            ("p99", GROUND_TRUTH, "p99"),
            ("complete", COMPLETE, "mean"),
            ("ack", "ack_latency_ms", "mean"),
        ):
            found = data.measured(measure, statistic)
            found = found[found["step"] == s.index]
            row[key] = found["value"].iloc[0] if len(found) else None
            if key == "mean":
                row["noise"] = found["noise"].iloc[0] if len(found) else None
                row["n"] = found["n"].iloc[0] if len(found) else 0
        row["noise_pct"] = (
            None if _none(row["noise"]) or not row["mean"] else 100 * row["noise"] / row["mean"]
        )
        out.append(row)
    return out


def leaderboard(errors: Sequence[ErrorSummary]) -> list[ErrorSummary]:
    """Latency means, each measure's models by median error."""
    rows = [
        e
        for e in errors
        if e["measure"] in TOPOLOGY_MEASURES and (e["statistic"] == "mean" or e["protocol"] == "thesis")
    ]
    order = {m: i for i, m in enumerate(TOPOLOGY_MEASURES)}

    def place(e: ErrorSummary) -> tuple[int, str, float]:
        error = e["median_abs_error_pct"]
        return order[e["measure"]], e["protocol"], float("inf") if error is None else error

    return sorted(rows, key=place)


def matrix_views(data: Results) -> list[dict[str, Any]]:
    """Every error matrix as rows of cells, the latencies' means first."""
    steps = data.steps
    names = list(style.MEASURE_NAMES)
    views: dict[tuple[str, ...], dict[tuple[int, int], dict[str, Any]]] = {}
    for cell in data.matrices.to_dict("records"):
        key = tuple(str(cell[k]) for k in ("model", "protocol", "measure", "statistic"))
        views.setdefault(key, {})[cell["source_step"], cell["proposed_step"]] = {
            str(k): v for k, v in cell.items()
        }

    def place(key: tuple[str, ...]) -> tuple[Any, ...]:
        model, protocol, measure, statistic = key
        order = names.index(measure) if measure in names else len(names)
        return protocol != "ours", statistic != "mean", order, measure, statistic, model

    found = []
    for model, protocol, measure, statistic in sorted(views, key=place):
        cells = views[model, protocol, measure, statistic]
        signed = all(c["comparisons"] == 1 for c in cells.values())
        theirs = " (the thesis's protocol)" if protocol == "thesis" else ""
        found.append(
            {
                "model": model,
                "kind": f"{style.measure_name(measure)}, {statistic.replace('_', ' ')}{theirs}",
                "signed": signed,
                "steps": steps,
                "rows": [(s, [_cell(cells.get((s, p)), s, p, signed) for p in steps]) for s in steps],
            }
        )
    return found


def _cell(found: Mapping[str, Any] | None, source: int, proposed: int, signed: bool) -> dict[str, Any]:
    title = f"step {source} → step {proposed}"
    cell = {"text": "", "colour": "", "gap": True, "diagonal": source == proposed}
    if found is None:
        return cell | {"title": f"{title}: no prediction"}
    if not found["judged"]:
        return cell | {
            "text": found["verdict"].replace("not-", "not "),
            "title": f"{title}; {found['verdict']}: {found['reason']}",
        }
    error = found["relative_error"] * 100 if signed else found["abs_error_pct"]
    if found["comparisons"] > 1:
        lines = [title, f"median of {found['judged']} of {found['comparisons']} comparisons"]
    else:
        noise = "" if _none(found["noise"]) else f" ± {number(found['noise'])}"
        lines = [
            title,
            f"predicted {number(found['predicted'], 4)}, measured {number(found['actual'], 4)}{noise}",
        ]
        if not _none(found["low"]):
            lines.append(f"interval {number(found['low'])} to {number(found['high'])}")
        if not _none(found["error_over_noise"]):
            lines.append(f"error / noise {number(found['error_over_noise'])}")
    text = f"{error:+.1f}".replace("-", "−") if signed and abs(error) >= 0.05 else f"{abs(error):.1f}"
    return cell | {"text": text, "colour": colour(error, signed), "title": "; ".join(lines), "gap": False}


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
