"""A night: measures experiments, compares them with the baseline, keeps the history, writes a page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from harness.analysis.figures import trends
from harness.analysis.judge.rescoring import rescore
from harness.errors import HarnessError
from harness.machine.whole_files import write_atomically
from harness.regression import baseline, history, nightly, outputs
from harness.regression.outcomes import NOT_ENOUGH, PASSED
from harness.regression.regress import noisy, regress
from harness.runs import utc_now


def carry_out(
    settings: nightly.Nightly, given: Sequence[Path], say: Callable[[str], None], show: Callable[[str], None]
) -> int:
    """Measure a night, compare it with the baseline, keep its numbers, and write its page.

    Parameters
    ----------
    settings : Nightly
        The night's file.
    given : sequence of Path
        Finished runs, instead of measuring.
    say, show : callable
        Take lines of progress, and of the result.

    Returns
    -------
    int
        Exit status: 0 no regression, 1 a regression, 4 not enough data to say.

    Raises
    ------
    HarnessError
        When baseline or history cannot be read, or nothing was measured.
    """
    night = utc_now().strftime("%Y%m%dT%H%M%SZ")
    usual = baseline.read(settings.baseline)
    history.read(settings.history)  # what cannot be read is found before an hour of measuring
    attempts = (
        tuple(nightly.Attempt(p.parent.name, p) for p in given)
        if given
        else nightly.measure_all(settings.experiments, settings.runs, say)
    )
    missing = [a for a in attempts if a.run is None]
    runs = [a.run for a in attempts if a.run is not None]
    if not runs:
        raise HarnessError(f"nothing was measured: {missing[0].problem}", "see the messages above")
    scored = rescore(runs, progress=say, timed=not given)
    found = regress(usual, scored, settings.limits, settings.baseline, required=False, edited=False)
    noise = {r.run: noisy(r, [b for b in usual if b.experiment == r.experiment]) for r in scored}
    whole = history.append(settings.history, [history.rows(night, r, noise[r.run]) for r in scored])
    settings.page.mkdir(parents=True, exist_ok=True)
    svg = trends.draw(whole.to_pandas(), settings.page)
    reasons = [line for lines in noise.values() for line in lines]
    text = nightly.page(night, found, scored, reasons, missing, svg.read_text(encoding="utf-8"))
    write_atomically(settings.page / "index.html", text)
    write_atomically(settings.page / "summary.md", outputs.markdown(found, f"Night {night}"))
    write_atomically(settings.page / "junit.xml", outputs.junit(found))
    for line in outputs.lines(found):
        show(line)
    show(outputs.verdict(found))
    show(f"page: {settings.page / 'index.html'}")
    return found.status if found.status != PASSED or not missing else NOT_ENOUGH
