"""Section 3 of Leron as a figure: simulated gain by helping over the messages under way, beside formulas."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from harness.analysis.figures import style
from harness.models.simulator.helping_gain import MECHANISMS, HelpedStage, play

NAME = "helping-gain"
STEP = 0.5
"""Between two points, in messages under way by a X T0."""
WORDS = {"back-pressure": "pauses", "helping": "help with all", "helping-ratio": "and with a share"}


def points(stage: HelpedStage) -> list[float]:
    """Return the messages under way at which a stage is played, by a X T0: infinite for no limit, at last.

    Examples
    --------
    >>> points(HelpedStage(2, 1, 1.0, 0.5))
    [0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, inf]
    """
    end = stage.spoilt_from + 1.5
    return [*np.arange(STEP, end + STEP / 2, STEP).tolist(), float("inf")]


def table(stages: Sequence[HelpedStage]) -> pd.DataFrame:
    """Play stages with every mechanism; a row each, the gain over that of pauses alone."""
    rows = []
    for stage in stages:
        for under_way in points(stage):
            played = {mechanism: play(stage, mechanism, under_way) for mechanism in MECHANISMS}
            alone = played["back-pressure"].out_tps
            rows += [
                {
                    "helpers": stage.helpers,
                    "helped": stage.helped,
                    "high": stage.high,
                    "low": stage.low,
                    "under_way": under_way,
                    "mechanism": mechanism,
                    "out_tps": found.out_tps,
                    "paused": found.paused,
                    "gain": found.out_tps / alone - 1,
                    "published_gain": stage.published_gain,
                    "most_gain": stage.most_gain,
                    "asked_from": stage.asked_from,
                    "spoilt_from": stage.spoilt_from,
                }
                for mechanism, found in played.items()
            ]
    return pd.DataFrame(rows)


def draw(rows: pd.DataFrame) -> Figure:
    """Draw a panel for each pair of M and N."""
    pairs = list(rows.groupby(["helpers", "helped"], sort=False))
    figure, panels = style.subplots(1, len(pairs), style.PAGE_IN, 2.6)
    for axis, ((helpers, helped), mine) in zip(panels, pairs, strict=True):
        first = mine.iloc[0]
        limited = mine[np.isfinite(mine["under_way"])]
        last = float(limited["under_way"].max()) + 2 * STEP
        axis.axvspan(first["asked_from"], first["spoilt_from"], color=style.GAP, linewidth=0)
        axis.axhline(first["published_gain"], color=style.INK, linestyle=":", label="(M − N) / 2, paper")
        axis.axhline(first["most_gain"], color=style.INK, linestyle="--", label="(M − N) / (2N), all busy")
        for place, mechanism in enumerate(MECHANISMS[1:]):
            look = style.look(place)
            of = limited[limited["mechanism"] == mechanism]
            axis.plot(
                of["under_way"], of["gain"], look.marker + "-", color=look.colour, label=WORDS[mechanism]
            )
            free = mine[(mine["mechanism"] == mechanism) & np.isinf(mine["under_way"])]
            axis.plot(np.full(len(free), last), free["gain"], look.marker, color=look.colour)
        ticks = np.arange(0, last, 2)
        axis.set_xticks([*ticks, last], [*(f"{t:g}" for t in ticks), "∞"])
        axis.set_title(f"M = {helpers}, N = {helped}")
        axis.set_ylim(
            min(-0.1, 1.1 * float(mine["gain"].min())), 1.2 * max(0.5, float(first["published_gain"]))
        )
        axis.grid(axis="y")
    panels[0].set_ylabel("gain over pauses alone")
    panels[len(panels) // 2].set_xlabel("messages under way, by a X T0")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels))
    return figure


def publish(stages: Sequence[HelpedStage], out: Path) -> pd.DataFrame:
    """Play stages, draw them into a folder (PNG, SVG and a CSV), and return the rows."""
    rows = table(stages)
    out.mkdir(parents=True, exist_ok=True)
    with style.styled(style.STYLES["screen"]):
        style.save(draw(rows), out, NAME)
    rows.to_csv(out / f"{NAME}.csv", index=False, float_format="%.4g", lineterminator="\n")
    return rows
