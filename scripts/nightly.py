"""A night: measures experiments, compares them with the baseline, keeps the history, writes a page.

    python scripts/nightly.py                                   # configs/nightly.yaml on the local cluster
    python scripts/nightly.py --runs runs/quick/20260102T030405Z # runs already measured

Exit status: 0 no regression; 1 a regression, or nothing could be measured; 2 usage; 4 not enough data to say.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from harness.analysis.figures import trends
from harness.analysis.judge.rescoring import rescore
from harness.errors import HarnessError
from harness.machine.whole_files import write_atomically
from harness.regression import baseline, history, nightly, outputs
from harness.regression.outcomes import NOT_ENOUGH, PASSED
from harness.regression.regress import noisy, regress
from harness.runs import utc_now

Existing = click.Path(path_type=Path, exists=True, file_okay=False)


@click.command()
@click.option(
    "--config", type=click.Path(path_type=Path), default=Path("configs/nightly.yaml"), show_default=True
)
@click.option("--runs", "given", type=Existing, multiple=True, help="A finished run, instead of measuring.")
@click.option("--baseline", "other", type=click.Path(path_type=Path), help="Instead of the configured one.")
@click.option("--history", "kept", type=click.Path(path_type=Path), help="Instead of the configured one.")
@click.option("--page", "folder", type=click.Path(path_type=Path), help="Instead of the configured one.")
def main(
    config: Path, given: tuple[Path, ...], other: Path | None, kept: Path | None, folder: Path | None
) -> None:
    """Measure a night and compare it with the baseline."""
    try:
        settings = nightly.read(config)
        changed = {"baseline": other, "history": kept, "page": folder}
        settings = settings.model_copy(update={k: v for k, v in changed.items() if v})
        sys.exit(carry_out(settings, given))
    except HarnessError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_status)


def say(line: str) -> None:
    """Tell what is being done."""
    click.echo(line, err=True)


def carry_out(settings: nightly.Nightly, given: tuple[Path, ...]) -> int:
    """Carry out a night; return its exit status."""
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
    found = regress(usual, scored, settings.limits, settings.baseline, required=False)
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
        click.echo(line)
    click.echo(outputs.verdict(found))
    click.echo(f"page: {settings.page / 'index.html'}")
    return found.status if found.status != PASSED or not missing else NOT_ENOUGH


if __name__ == "__main__":
    main()
