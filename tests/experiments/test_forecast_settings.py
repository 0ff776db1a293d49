"""Keys of steps that plan ahead: refused where they make no sense; earlier traffic goes along with a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.experiments.loading import files, load
from harness.experiments.provenance import experiment_digests, kept_files

SHIPPED = Path(__file__).resolve().parents[2] / "configs" / "experiments" / "adapt-foreseen.yaml"
FORESEEN = "forecast: fourier-ar, horizon_s: 30"


@pytest.mark.parametrize(
    ("adapt", "words"),
    [
        ("horizon_s: 40", "horizon_s: give forecast beside it, or the last period's rate is planned for"),
        ("season_s: [120]", "season_s: give forecast beside it"),
        ("quantile: 0.5", "quantile: give forecast beside it"),
        ("forecast: mstl", "forecast: give horizon_s beside it"),
        ("forecast: mstl, horizon_s: 20", "horizon_s 20 ends before the next question, after period_s 30"),
        (f"{FORESEEN}, bucket_s: 40", "bucket_s 40 is longer than period_s 30"),
        (f"{FORESEEN}, quantile: 1", "quantile"),
        (f"{FORESEEN}, season_s: 120", "season_s"),
        (f"{FORESEEN}, season_s: [0]", "season_s"),
        (f"{FORESEEN}, history: /no/such", "history: there is no file /no/such"),
    ],
)
def test_keys_that_make_no_sense_are_refused_in_a_line(adapt: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as refused:
        load("quick", [f"steps.plan=[{{executors: 1, adapt: {{tuner: ds2, {adapt}}}}}]"])
    assert "\n" not in str(refused.value)


@pytest.fixture
def foreseen(tmp_path: Path) -> Path:
    """The shipped experiment, with short files beside it."""
    text = SHIPPED.read_text(encoding="utf-8")
    (tmp_path / "adapt-foreseen.yaml").write_text(text)
    (tmp_path / "adapt-foreseen-played.txt").write_text("0\n1\n2\n")
    (tmp_path / "adapt-foreseen-earlier.txt").write_text("0\n3\n")
    return tmp_path / "adapt-foreseen.yaml"


def test_a_forecast_knows_nothing_of_the_trace_that_is_sent(foreseen: Path) -> None:
    """Neither by its name nor by a copy."""
    played = foreseen.with_name("adapt-foreseen-played.txt")
    foreseen.with_name("adapt-foreseen-earlier.txt").write_bytes(played.read_bytes())
    with pytest.raises(UsageError, match=r"adapt\.history: .* is the trace that is sent: a forecast knows"):
        load(foreseen)
    with pytest.raises(UsageError, match="is the trace that is sent"):
        load(foreseen, [f"steps.plan.2.adapt.history={played}"])


def test_a_run_keeps_the_earlier_traffic(
    foreseen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lies beside the experiment wherever the command is given, and what is kept is told apart."""
    monkeypatch.chdir(Path(__file__).parent)
    experiment = load(foreseen)
    assert experiment.histories == {2: foreseen.with_name("adapt-foreseen-earlier.txt")}
    run = tmp_path / "run"
    run.mkdir()
    for name, text in files(experiment).items():
        (run / name).write_text(text)
    foreseen.with_name("adapt-foreseen-earlier.txt").unlink()
    again = load(run / "experiment.yaml")
    assert again.histories == {2: run / "history-2.txt"}
    assert (run / "history-2.txt").read_text() == "0\n3\n"
    assert again.steps.plan[1] == experiment.steps.plan[1]
    before = experiment_digests(kept_files(run))
    (run / "history-2.txt").write_text("0\n4\n")
    after = experiment_digests(kept_files(run))
    assert {key for key in before if before[key] != after[key]} == {"history-2.txt"}
