"""Traffic of configs/experiments/adapt-foreseen.yaml: made days of two minutes, up to and while it is played.

    python scripts/foreseen_days.py

The days are the steep ones of tests/support/made_traffic.py, an office's, with a mean of 45 messages/s. The
earlier traffic ends with the third day. The file that is played begins 20 s before that, with the burn-in, so
that the interval begins with the fourth day. The same release of numpy writes the same files.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from made_traffic import Day, seasonal_trace, send_times_s  # noqa: E402 (after its folder)

FOLDER = ROOT / "configs" / "experiments"
EARLIER, PLAYED = FOLDER / "adapt-foreseen-earlier.txt", FOLDER / "adapt-foreseen-played.txt"
SEED, MEAN_TPS = 28, 45.0
DAY_S, DAYS, EARLIER_DAYS = 120.0, 6, 3
BURN_IN_S, PLAYED_S = 20.0, 280.0
KNOWN_S = 250.0
"""Two days, and some seconds for the bucket that begins within them."""


def days() -> dict[Path, str]:
    """Return the files' texts by path."""
    trace = seasonal_trace(SEED, DAYS, Day(DAY_S, steep=True), mean_tps=MEAN_TPS)
    sent_s = send_times_s(trace, SEED)
    now_s = EARLIER_DAYS * DAY_S
    spans = {
        EARLIER: (now_s - KNOWN_S, now_s, "Traffic before it is played"),
        PLAYED: (now_s - BURN_IN_S, now_s - BURN_IN_S + PLAYED_S, "Traffic that is played"),
    }
    return {path: _file(sent_s, *span) for path, span in spans.items()}


def _file(sent_s: npt.NDArray[np.float64], begin_s: float, end_s: float, what: str) -> str:
    """Return the send times of a span, in whole milliseconds since its begin."""
    inside = sent_s[(sent_s >= begin_s) & (sent_s < end_s)] - begin_s
    head = f"# {what}: {end_s - begin_s:g} s of made days of {DAY_S:g} s (scripts/foreseen_days.py)"
    return "\n".join([head, *(f"{t:.3f}" for t in inside)]) + "\n"


def main() -> None:
    """Write both files."""
    for path, text in days().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
