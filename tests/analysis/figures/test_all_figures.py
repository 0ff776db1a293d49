"""Every figure of the registry: drawn, legible in print, told apart without colour."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.text import Text

from harness.analysis.figures import all_figures, style
from harness.analysis.figures.all_figures import BY_NAME, REGISTRY, FigureKind
from harness.analysis.judge.results import Results
from harness.errors import UsageError

CHAPTER_5 = set(range(10, 47))
"""The thesis's figures of results; 5.1 to 5.9 are diagrams of its system and topologies."""
NOT_IN_FIELDS_TO_FIELDS = {
    "error-matrix-worker-cpu-cores-absolute",
    *("latency-by-scheduler", "traffic-by-scheduler", "adaptation-by-period", "relief-over-time"),
}


QUICK = style.Style(1.0, ("png",), 60)
"""As printed, in one rough format."""


def drawn(data: Results) -> Iterator[tuple[FigureKind, Figure]]:
    for kind in REGISTRY:
        if kind.drawable(data):
            yield kind, kind.draw(data)


def test_every_figure_of_chapter_5_has_a_counterpart() -> None:
    said = {int(n) for kind in REGISTRY for n in re.findall(r"5\.(\d+)", kind.thesis)}
    assert said == CHAPTER_5


def test_names_are_unique_and_are_file_names() -> None:
    assert len(BY_NAME) == len(REGISTRY)
    assert all(re.fullmatch(r"[a-z0-9-]+", name) for name in BY_NAME)


def test_a_figure_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(UsageError) as caught:
        all_figures.chosen(["latency-by-step", "latency"])
    assert "'latency'" in str(caught.value)
    assert "latency-by-step" in str(caught.value)
    assert [k.name for k in all_figures.chosen(["timeline"])] == ["timeline"]


def test_a_run_that_was_predicted_has_every_figure(results: Results) -> None:
    missing = {kind.name for kind in REGISTRY if not kind.drawable(results)}
    assert missing <= NOT_IN_FIELDS_TO_FIELDS


def test_figures_as_printed_are_legible_no_wider_than_a_page_and_say_their_unit(results: Results) -> None:
    """5 pt is what journals allow at the least, and that only in crowded cells."""
    with style.styled(style.STYLES["paper"]):
        for kind, figure in drawn(results):
            texts = [t for t in figure.findobj(Text) if t.get_text().strip() and t.get_visible()]
            smallest = min(t.get_fontsize() for t in texts)
            assert smallest >= 5, (kind.name, smallest)
            assert np.median([t.get_fontsize() for t in texts]) >= style.SMALLEST_PT, kind.name
            assert figure.get_figwidth() <= style.PAGE_IN + 1e-9, kind.name
            assert figure.get_figheight() <= 9, kind.name
            said = " ".join(t.get_text() for t in texts)
            assert re.search(r"%|\bms\b|\bs\)|1/s|step", said), kind.name
            mpl.pyplot.close(figure)


@pytest.mark.deep
def test_nothing_is_drawn_beyond_the_edge(results: Results, tmp_path: Path) -> None:
    """The outermost pixels of every side are white."""
    with style.styled(QUICK):
        for kind in all_figures.draw(results, tmp_path, REGISTRY):
            pixels = imread(tmp_path / f"{kind.name}.png")[..., :3]
            sides = (pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1])
            assert all(np.all(side > 0.97) for side in sides), kind.name
            assert pixels.min() < 0.5, kind.name


def test_formats_and_bytes(results: Results, tmp_path: Path) -> None:
    kinds = all_figures.chosen(["latency-by-step"])
    for name, look in style.STYLES.items():
        with style.styled(look):
            for folder in (tmp_path / name / "a", tmp_path / name / "b"):
                assert [k.name for k in all_figures.draw(results, folder, kinds)] == ["latency-by-step"]
        files = {p.name: p.read_bytes() for p in (tmp_path / name / "a").iterdir()}
        assert set(files) == {f"latency-by-step.{kind}" for kind in look.formats}
        assert files == {p.name: p.read_bytes() for p in (tmp_path / name / "b").iterdir()}
    assert (tmp_path / "paper" / "a" / "latency-by-step.pdf").read_bytes().startswith(b"%PDF")
    sizes = [imread(tmp_path / n / "a" / "latency-by-step.png").shape[1] for n in ("paper", "screen")]
    assert sizes == [round(3.3 * 200), round(3.3 * 1.4 * 110)]


def test_fonts_are_embedded_as_truetype(results: Results, tmp_path: Path) -> None:
    with style.styled(style.STYLES["paper"]):
        list(all_figures.draw(results, tmp_path, all_figures.chosen(["own-measurements"])))
    assert b"/Type3" not in (tmp_path / "own-measurements.pdf").read_bytes()


def test_models_are_told_apart_without_colour() -> None:
    looks = [style.model_look(m, style.MODELS) for m in style.MODELS]
    assert len({look.marker for look in looks}) == len(looks)
    assert len({str(look.line) for look in looks}) == len(looks)
    assert len({look.hatch for look in looks}) == len(looks)
    mine = style.model_look("mine", ["mine", "no-change"])
    assert mine not in looks


DEUTERANOPIA = np.array([[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]])
PROTANOPIA = np.array([[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]])
"""Machado, Oliveira and Fernandes 2009, severity 1, for linear RGB."""


@pytest.mark.parametrize("seen", [np.eye(3), DEUTERANOPIA, PROTANOPIA])
def test_colours_are_told_apart_by_the_colour_blind(seen: np.ndarray) -> None:
    linear = [seen @ np.power(to_rgb(c), 2.2) for c in style.COLOURS]
    for (i, a), (j, b) in combinations(enumerate(linear), 2):
        assert np.linalg.norm(a - b) > 0.06, (style.COLOURS[i], style.COLOURS[j])


@pytest.mark.deep
@pytest.mark.parametrize("name", ["nothing in a step", "nothing at all", "eight messages", "thirteen steps"])
def test_unusual_runs_are_drawn_too(unusual: Mapping[str, Results], tmp_path: Path, name: str) -> None:
    data = unusual[name]
    with style.styled(QUICK):
        names = [kind.name for kind in all_figures.draw(data, tmp_path / "figures", REGISTRY)]
    assert all((tmp_path / "figures" / f"{n}.png").stat().st_size > 1000 for n in names)
    if name != "nothing at all":
        assert {"latency-by-step", "timeline", "stages-by-step"} <= set(names)


def test_a_run_without_any_latency_has_a_timeline(results: Results, tmp_path: Path) -> None:
    """Spouts that track nothing, in a jar of its own making: rates only."""
    data = replace(results, timeline=results.timeline.iloc[:0], pace=results.pace.assign(ack_ms=np.nan))
    with style.styled(QUICK):
        (kind,) = all_figures.chosen(["timeline"])
        figure = kind.draw(data)
        style.save(figure, tmp_path, kind.name)
    texts = [t.get_text() for ax in figure.axes for t in ax.texts]
    assert texts == ["none is measured"] * len(data.steps)


@pytest.mark.deep
def test_a_topology_with_two_branches_is_drawn_too(unusual: Mapping[str, Results], tmp_path: Path) -> None:
    with style.styled(QUICK):
        kinds = all_figures.chosen(["queue-waits", "stages-by-step"])
        assert len(list(all_figures.draw(unusual["two branches"], tmp_path / "figures", kinds))) == 2
