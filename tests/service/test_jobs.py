"""Jobs of a real server: real processes, their files, and what is left of them."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import waiting
from harness_command import started_with_token
from pydantic import TypeAdapter
from served import SHORT, Served

from harness.experiments.loading import dump, load
from harness.machine.locks import take
from harness.machine.machine_lock import ITS_TURN, WAITING
from harness.runs import Run
from harness.service.job_types import JobAsked, ProposeAsked
from harness.service.jobs import Busy, Jobs
from harness.service.run_index import RunIndex, UnknownName

LONG_S = 180
until = partial(waiting.until, within_s=LONG_S)


@pytest.fixture
def client(served: Served) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=served.url, timeout=LONG_S, headers=served.bearing) as opened:
        yield opened


def ended(client: httpx.Client, job: str) -> dict[str, Any]:
    """Wait until a job does not run any more."""

    def look() -> dict[str, Any] | None:
        said: dict[str, Any] = client.get(f"/jobs/{job}").json()
        return said if said["state"] not in ("queued", "running") else None

    found: dict[str, Any] = until(look, f"the end of {job}")
    return found


def test_tuners_and_schedulers_are_asked_by_one_job_whose_result_is_a_file(
    served: Served, client: httpx.Client
) -> None:
    asked = {"kind": "propose", "run": served.simulated, "step": 0, "tuners": ["ds2"], "schedulers": ["even"]}
    answer = client.post("/jobs", json=asked)
    assert answer.status_code == 202
    assert client.get(answer.headers["location"]).json()["asked"]["kind"] == "propose"
    done = ended(client, answer.json()["id"])
    assert (done["state"], done["exit_status"], done["attempts"]) == ("done", 0, 1)
    proposal, placed = done["result"]["proposals"]
    assert (proposal["tuner"], placed["scheduler"]) == ("ds2", "even")
    assert {d["node"] for d in proposal["decisions"]} == {"spout", "bolt-a", "bolt-b", "sender"}
    assert done["id"] in {job["id"] for job in client.get("/jobs").json()}
    assert done["id"] in client.get("/activity").text
    page = client.get(f"/activity/{done['id']}").text
    assert f"{len(proposal['decisions'])} decisions" in page
    for by in ("tuner ds2", "scheduler even"):
        assert f"Run the original and the proposal of the {by}" in page
    assert "<svg" not in page
    first = client.get(f"/activity/{done['id']}/ds2/1")
    assert "<math" in first.text
    assert "refresh" not in first.headers
    playing = client.get(f"/activity/{done['id']}/ds2/1?play=1")
    assert playing.headers["refresh"] == "2;url=2?play=1"
    last = client.get(f"/activity/{done['id']}/ds2/{len(proposal['decisions'])}?play=1")
    assert "refresh" not in last.headers
    for address in ("ds2/0", "ds2/99", "aeolus/1"):
        assert client.get(f"/activity/{done['id']}/{address}").status_code == 404
    again = client.post(f"/jobs/{done['id']}/again")
    assert (again.status_code, again.json()["errors"][0]["type"]) == (409, "Busy")


def test_old_kinds_ask_one_of_both() -> None:
    read = TypeAdapter(JobAsked)
    for said, commands in (
        ({"kind": "tune"}, {"tune": ()}),
        ({"kind": "schedule", "schedulers": ["even"]}, {"schedule": ("even",)}),
        ({"kind": "propose", "schedulers": ["even"]}, {"schedule": ("even",)}),
        ({"kind": "propose", "tuners": ["ds2"]}, {"tune": ("ds2",)}),
        ({"kind": "propose"}, {"tune": (), "schedule": ()}),
    ):
        asked = read.validate_python({"run": "quick/20260102T030405Z", **said})
        assert isinstance(asked, ProposeAsked)
        assert asked.commands == commands


def test_a_job_is_queued_by_what_its_command_says_until_that_has_the_machine(tmp_path: Path) -> None:
    """The folder is as the service leaves it, its process this one."""
    jobs, folder = Jobs(tmp_path, tmp_path, RunIndex([tmp_path])), tmp_path / "one"
    folder.mkdir()
    (folder / "asked.json").write_text('{"kind": "run", "experiment": "quick"}')
    begun = {"attempts": 1, "started": "2026-01-02T03:04:05+00:00"}
    (folder / "begun.json").write_text(json.dumps(begun))
    log = folder / "log.txt"
    process = take(folder, Busy("somebody else has it"))
    said = "one warning\n"
    for more, state in (
        ("", "running"),
        (f"process 7 is measuring quick on this machine: {WAITING}\n", "queued"),
        (f"{ITS_TURN}\n", "running"),
        (f"process 7 is measuring quick on this machine: {WAITING}\n", "queued"),
    ):
        said += more
        log.write_text(said)
        assert jobs.job("one").state == state
        assert jobs.job("one").ongoing
    (folder / "begun.json").write_text(json.dumps({**begun, "attempts": 2, "log_bytes": len(said)}))
    assert jobs.job("one").state == "running"  # another attempt, which has said nothing yet
    os.close(process)
    assert jobs.job("one").state == "interrupted"


def test_a_job_that_cannot_start_again_stays_as_it_ended(tmp_path: Path) -> None:
    """Its run was deleted since; the folder is as a job leaves it that failed."""
    jobs, folder = Jobs(tmp_path, tmp_path, RunIndex([tmp_path])), tmp_path / "one"
    folder.mkdir()
    for name, said in (
        ("asked", {"kind": "propose", "run": "gone/20260102T030405Z"}),
        ("begun", {"attempts": 1, "started": "2026-01-02T03:04:05+00:00"}),
        ("ended", {"exit_status": 1, "ended": "2026-01-02T03:05:06+00:00"}),
        ("result", {"error": "the reason"}),
    ):
        (folder / f"{name}.json").write_text(json.dumps(said))
    before = jobs.job("one")
    with pytest.raises(UnknownName, match="unknown run"):
        jobs.again("one")
    assert jobs.job("one") == before
    assert (before.state, before.result) == ("failed", {"error": "the reason"})


def test_without_the_token_nothing_is_started(served: Served, client: httpx.Client) -> None:
    before = client.get("/jobs").json()
    asked = {"kind": "run", "experiment": "quick", "simulated": True}
    for headers in ({"authorization": ""}, {"authorization": "Bearer other"}, {"authorization": "Basic x"}):
        answer = client.post("/jobs", json=asked, headers=headers)
        assert (answer.status_code, answer.json()["errors"][0]["type"]) == (401, "TokenNeeded")
    assert client.get("/jobs").json() == before


def test_a_job_that_cannot_be_is_named(served: Served, client: httpx.Client) -> None:
    for asked, status, said in (
        ({"kind": "run", "experiment": "/etc/passwd"}, 404, "unknown experiment"),
        ({"kind": "tune", "run": "never/never"}, 404, "unknown run"),
        ({"kind": "tune", "run": served.simulated, "tuners": ["os:system"]}, 404, "unknown tuner"),
        (
            {"kind": "schedule", "run": served.simulated, "schedulers": ["os:system"]},
            404,
            "unknown scheduler",
        ),
        ({"kind": "tune", "run": served.simulated, "step": 9}, 404, "unknown step"),
        ({"kind": "tune", "run": served.simulated, "schedulers": ["even"]}, 422, "asks no schedulers"),
        ({"kind": "run"}, 422, "either"),
        ({"kind": "other"}, 422, "kind"),
    ):
        answer = client.post("/jobs", json=asked)
        assert answer.status_code == status, asked
        assert said in answer.json()["errors"][0]["error"]
    assert client.get("/jobs/never").status_code == 404
    assert client.post("/jobs/../jobs/x/again").status_code == 404


def test_a_file_that_is_no_experiment_fails_with_its_line(client: httpx.Client) -> None:
    job = client.post("/jobs", json={"kind": "run", "file": "name: one\nnothing: 1\n"}).json()["id"]
    failed = ended(client, job)
    assert (failed["state"], failed["exit_status"]) == ("failed", 2)
    assert "error" in failed["result"]
    page = client.get(f"/activity/{job}").text
    assert "Start again" in page
    assert "unknown key" in page or "is missing" in page


@pytest.mark.deep
def test_a_run_ends_with_its_server_and_goes_on_from_there(served: Served, tmp_path: Path) -> None:
    """The server is killed in the run's second step; a new one shows it interrupted, and ends it."""
    runs = tmp_path / "runs"
    runs.mkdir()
    settings = [s for s in SHORT if not s.startswith("steps")]
    steps = ",".join(["{executors: 1}"] + ["{executors: 2}"] * 30)
    text = dump(load("fields-to-fields", [*settings, f"steps.plan=[{steps}]"]))
    server, url, token = started_with_token(runs)
    headers = {"authorization": f"Bearer {token}"}
    job = httpx.post(f"{url}/jobs", json={"kind": "run", "file": text}, headers=headers, timeout=60).json()[
        "id"
    ]
    address = until(lambda: httpx.get(f"{url}/jobs/{job}").json()["run"], "a run")
    until(lambda: Run(runs / address).finished_steps, "a step")
    working = descendants(server.pid)
    assert working
    server.kill()
    server.wait()
    until(
        lambda: not [pid for pid in working if os.path.exists(f"/proc/{pid}/exe")], "the end of its processes"
    )
    kept = Run(runs / address).finished_steps
    server, url, token = started_with_token(runs)
    try:
        assert httpx.get(f"{url}/jobs/{job}").json()["state"] == "interrupted"
        headers = {"authorization": f"Bearer {token}"}
        again = httpx.post(f"{url}/jobs/{job}/again", headers=headers, timeout=60).json()
        assert (again["state"], again["attempts"]) == ("running", 2)
        until(lambda: len(Run(runs / address).finished_steps) > len(kept), "another step")
        working = descendants(server.pid)
        begin = time.monotonic()
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=15) == 0
        assert time.monotonic() - begin < 15
        assert not [pid for pid in working if os.path.exists(f"/proc/{pid}/exe")]
    finally:
        server.kill()


def descendants(pid: int) -> list[int]:
    """Return the processes that a process started, and theirs."""
    found = []
    waiting = [pid]
    while waiting:
        for thread in Path(f"/proc/{waiting.pop()}/task").glob("*/children"):
            children = [int(child) for child in thread.read_text().split()]
            found += children
            waiting += children
    return found
