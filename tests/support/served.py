"""A real server on a free port, over archived runs, a simulated one, and one with a hostile name."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from left_running import ArchivedMetrics, left_running

from harness.app.simulated.campaign import carry_out
from harness.experiments.loading import dump, load
from harness.machine.environment import describe
from harness.runs import Run
from harness.service.application import create_application
from harness.service.server import LoopbackServer, listen

ARCHIVE = Path(__file__).resolve().parents[2] / "reports" / "runs"
TOPOLOGY = "words"
HOSTILE = "<script>alert(1)<"
"""A folder's name cannot hold a slash."""
SHORT = (
    *("cluster.kind=simulator", "measure.burn_in.least_s=4", "measure.burn_in.most_s=6"),
    *(
        "measure.interval.least_s=10",
        "measure.interval.most_s=10",
        "steps.plan=[{executors: 1},{executors: 2}]",
    ),
)


@dataclass(frozen=True)
class Served:
    """A service and the folder of its runs."""

    url: str
    runs: Path
    simulated: str
    archived: str
    token: str = "the token of tests"

    @property
    def bearing(self) -> dict[str, str]:
        """The header that lets a request start something."""
        return {"authorization": f"Bearer {self.token}"}


@contextmanager
def serving(folder: Path) -> Iterator[Served]:
    """Serve the runs, which are put into the folder first, and a topology that reports what one did.

    The topology is in another folder, beside that of the runs.
    """
    archived = next((ARCHIVE / "noise-floor").iterdir())
    shutil.copytree(archived, folder / "noise-floor" / archived.name)
    experiment = load("fields-to-fields", SHORT)
    files = {"experiment.yaml": dump(experiment)}
    run = Run.create(folder, "fields-to-fields", files, describe("simulator", {"storm": "2.8.3"}))
    carry_out(experiment, run, lambda _: None)
    shutil.copytree(run.path, folder / HOSTILE / run.path.name)
    (folder / HOSTILE / run.path.name / "report.html").write_text("<script>fetch('/')</script>a report")
    listening, ready = listen(0), threading.Event()
    submitted = folder.with_name(f"{folder.name}-submitted")
    left_running(submitted, TOPOLOGY)
    application = create_application([folder], token=Served.token, submitted=submitted)
    application.state.live = ArchivedMetrics()
    server = LoopbackServer(application, ready.set)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    assert ready.wait(60)
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    yield Served(url, folder, f"fields-to-fields/{run.path.name}", f"noise-floor/{archived.name}")
    server.handle_exit(0, None)
    thread.join(30)
    assert not thread.is_alive()
