"""The report: one page that needs no network, with the verdict first and the answer next."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from harness.analysis.figures import style
from harness.analysis.figures.all_figures import FigureKind
from harness.analysis.judge.checks import DECLINED
from harness.analysis.judge.placements import placement_groups
from harness.analysis.judge.relief import relieved_steps
from harness.analysis.judge.results import Results
from harness.analysis.judge.summary import EVIDENCE_PCT
from harness.analysis.report import sections as views
from harness.analysis.report.adaptations import adapted_steps
from harness.analysis.report.notes import PROTOCOL_NOTES, model_note
from harness.analysis.report.pairs import PairViews
from harness.models import NO_CHANGE

PLACES = {
    "leaderboard": "answer",
    "measured-and-predicted": "answer",
    "predicted-distribution": "answer",
    "latency-by-scheduler": "placements",
    "traffic-by-scheduler": "placements",
    "adaptation-by-period": "adaptations",
    "relief-over-time": "relief",
}
"""Sections of the figures that do not belong to what was measured."""


def render(data: Results, figures: Path, drawn: Sequence[FigureKind]) -> str:
    """Return the page's HTML.

    Parameters
    ----------
    figures : Path
        The folder with the figures, whose SVGs are put into the page.
    drawn : sequence of FigureKind
        The figures, in order. Error matrices are not among what is put into the page: it has its own.
    """
    source = resources.files("harness").joinpath("assets", "report.html.j2").read_text(encoding="utf-8")
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["num"] = views.number
    environment.filters["pct"] = lambda v, digits=1: "–" if views.none(v) else f"{v:.{digits}f}"
    environment.filters["signed"] = lambda v, digits=1: "–" if views.none(v) else style.signed(v, digits)
    environment.filters["drawing"] = Markup  # plan_drawing escapes all names
    embedded: dict[str, list[tuple[str, str, str]]] = {"measured": [], **{p: [] for p in PLACES.values()}}
    for kind in drawn:
        if not kind.name.startswith("error-matrix"):
            place = PLACES.get(kind.name, "measured")
            embedded[place].append((kind.name, kind.full_caption, _embedded(figures / f"{kind.name}.svg")))
    pairs = PairViews(data)
    return environment.from_string(source).render(
        run=data.run,
        summary=data.summary,
        verdict=data.summary["verdict"],
        headline=views.headline(data),
        findings=[c for c in data.checks if c.status != "valid"],
        declined=[c for c in data.checks if c.check == DECLINED],
        check_grid=views.check_grid(data),
        steps=views.step_rows(data),
        leaderboard=views.leaderboard(data),
        matrices=views.matrix_views(data),
        pairs=pairs.views(),
        shown={f"pair-{s}-{p}" for s, p in pairs.shown},
        errors=data.summary["errors"],
        worst=views.worst_rows(data),
        figures=embedded,
        plans=views.plans(data),
        model_notes=[(m, model_note(m)) for m in data.models],
        protocol_notes=PROTOCOL_NOTES,
        provenance=views.provenance(data.run.environment, data.summary["judged_with"]),
        experiment=views.flattened(data.run.experiment),
        measure_name=style.measure_name,
        evidence_pct=EVIDENCE_PCT,
        no_change=NO_CHANGE,
        repeats=views.repeats(data),
        placements=placement_groups(data),
        adaptations=adapted_steps(data.run),
        relieved=relieved_steps(data.run),
    )


def _embedded(path: Path) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(path.read_bytes()).decode()
