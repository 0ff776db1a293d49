"""Somebody's jar left on a cluster of Storm's defaults by command, and given other plans by command."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from default_storm import KAFKA, NIMBUS, until
from harness_command import harness

from harness.app.submitted.folder import SubmittedTopology
from harness.app.submitted.plan_file import labels
from harness.storm.nimbus import Nimbus

CLUSTER = f"{{kind: running, nimbus: '{NIMBUS}', kafka: '{KAFKA}'}}"
NAME = "kept-here"
SEASON_S = 20.0
"""Of this traffic in name only; it is seen twice within a minute."""
GUESSES = """
from harness.protocols import Estimate, Prediction
from harness.schemas import Measure

def guess(value, high):
    mean = Estimate(Measure.ACK, "mean", value, low=0.0, high=high)
    return lambda source, proposed, settings, rate_tps: Prediction((mean,))

hopeful, cautious = guess(1e-7, 2e-7), guess(1.0, 1e9)
"""
"""A model that nothing is as fast as, and one that nothing is slower than."""
CAUTIOUS, HOPEFUL = ("--model", "guesses:cautious"), ("--model", "guesses:hopeful")
OBSERVE_S = 10


def submission(jar: Path, influx_url: str, folder: Path) -> list[str]:
    """Return the command that leaves Foreign's topology on the cluster; its metrics go to an InfluxDB."""
    main = ["--main", "Foreign", "--args", "{name}", "--args", "once", "--name", NAME]
    where = ["--cluster", CLUSTER, "--metrics-url", influx_url, "--submitted", str(folder)]
    return ["submit", str(jar), *main, *where, "--bucket-s", "1", "--season-s", str(SEASON_S)]


@dataclass(frozen=True)
class KeptTopology:
    """A topology that was submitted to stay, and its cluster's Nimbus."""

    topology: SubmittedTopology
    nimbus: Nimbus

    def asked(self, folder: Path, plan: str, *options: str, burn_in_s: int = 15) -> list[str]:
        """Write a plan into a folder; return the command that applies it, once what runs is old enough."""
        (folder / "plan.yaml").write_text(plan)
        of = ["--topology", NAME, "--submitted", str(self.topology.path.parent), "--cluster", CLUSTER]
        times = [f"--observe-s={OBSERVE_S}", f"--burn-in-s={burn_in_s}", "--interval-s=10"]
        self.wait_for_age()
        return ["apply", str(folder / "plan.yaml"), *of, *times, *options]

    def apply(
        self, folder: Path, plan: str, *options: str, burn_in_s: int = 15
    ) -> tuple[int, dict[str, object], str]:
        """Apply a plan; as ``harness`` answers."""
        return harness(*self.asked(folder, plan, *options, burn_in_s=burn_in_s))

    def wait_for_age(self) -> None:
        """Wait until every worker has run for longer than is read of it."""

        def youngest_s() -> int:
            return min(self.nimbus.topology(NAME).uptimes_s().values(), default=0)

        until(lambda: youngest_s() > OBSERVE_S + 5, "workers are old enough")

    def counts(self) -> dict[str, int]:
        """Return the kept plan's executors by component."""
        return dict(self.topology.plan.plan.configuration().executors)

    def in_force(self) -> dict[str, str]:
        """Return each executor's worker, as Nimbus has it."""
        kept = self.topology.plan.plan
        return labels(self.nimbus.physical_plan(NAME, kept.query_plan, kept.nodes))
