"""A foreign jar submitted to a cluster that the harness did not start: left there, and given another plan."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from chromium import chromium
from default_storm import SLOTS, OthersStorm, SeenTopology, default_storm, until
from foreign_jars import compiled
from harness_command import harness, serving
from influx_rows import bucket_of
from kept_topology import CAUTIOUS, CLUSTER, GUESSES, HOPEFUL, NAME, SEASON_S, KeptTopology, submission
from playwright.sync_api import Browser, expect
from submitted import rebalanced, workers_of
from watched_page import SCREENS, WatchedPage, screen_of

from harness.app.jars import jars
from harness.app.submitted.folder import SubmittedTopology
from harness.app.submitted.plan_file import labels
from harness.app.submitted.submitting import configuration_of
from harness.backends.influxdb.server import InfluxServer
from harness.backends.influxdb.store import InfluxStore
from harness.backends.running.standing import FOLDER, PINNING, SCHEDULER
from harness.machine import secret_files
from harness.machine.servers import ServerHomes
from harness.plans import TopologyConfiguration
from harness.schemas import Metric
from harness.storm.nimbus import Nimbus

pytestmark = [pytest.mark.system, pytest.mark.timeout(1500)]

OTHERS = "somebody-elses"


@dataclass(frozen=True)
class Place:
    """A cluster of Storm's defaults: somebody's topology, one that was submitted to stay, its InfluxDB."""

    storm: OthersStorm
    store: InfluxStore
    kept: KeptTopology
    jar: Path
    others: SeenTopology

    @property
    def nimbus(self) -> Nimbus:
        return self.storm.nimbus

    @property
    def topology(self) -> SubmittedTopology:
        return self.kept.topology


@pytest.fixture(scope="module")
def place(
    server_homes: ServerHomes, influx_server: InfluxServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    token = secret_files.read(influx_server.token_file)
    home = tmp_path_factory.mktemp("default-storm")
    jar = compiled("Foreign.java", server_homes, tmp_path_factory.mktemp("jar"))
    folder = tmp_path_factory.mktemp("submitted")
    with default_storm(server_homes, home) as storm, pytest.MonkeyPatch.context() as patch:
        storm.submit_foreign(jar, OTHERS)
        others = SeenTopology.of(storm.nimbus, OTHERS)
        patch.setenv("INFLUXDB_TOKEN", token)
        status, result, said = harness(*submission(jar, influx_server.url, folder))
        assert status == 0, said
        kept = KeptTopology(SubmittedTopology(Path(str(result["submitted"]))), storm.nimbus)
        with InfluxStore(bucket_of(influx_server), token, NAME) as store:
            yield Place(storm, store, kept, jar, others)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium("the page was") as opened:
        yield opened


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where commands are given: plans and a module of models are there."""
    (tmp_path / "guesses.py").write_text(GUESSES)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_topology_stays_and_its_metrics_arrive(place: Place) -> None:
    """Foreign's main asks for 2, 4 and 4 executors in one worker."""
    state = place.nimbus.topology(NAME)
    assert state.status == "ACTIVE"
    facts, kept = place.topology.facts, place.topology.plan
    assert (facts.topology, facts.season_s) == (NAME, (SEASON_S,))
    assert facts.settings["topology.workers"] == 1
    assert "INFLUXDB_TOKEN" not in (place.topology.path / "submitted.json").read_text()
    own = {n: c for n, c in kept.plan.configuration().executors.items() if not n.startswith("__")}
    assert own == {"numbers": 2, "twice": 4, "sum": 4}

    def spouts_report() -> bool:
        rows = place.store.rows(facts.at_epoch_ms, 2**62).to_pylist()
        return {r["component"] for r in rows if r["measurement"] == Metric.ACK} >= {"numbers"}

    until(spouts_report, "the spouts' acks are in InfluxDB")


def test_a_name_in_use_and_a_jar_without_the_class_are_one_line(
    place: Place, influx_server: InfluxServer, tmp_path: Path
) -> None:
    status, result, _ = harness(*submission(place.jar, influx_server.url, tmp_path))
    assert (status, str(result["error"])) == (
        1,
        f"topology name {NAME} is in use: kill that topology first",
    )
    given = submission(place.jar, influx_server.url, tmp_path)
    given[given.index("Foreign")] = "Nobody"
    status, result, _ = harness(*given)
    assert status == 2
    assert "no class Nobody in" in str(result["error"])
    assert list(tmp_path.iterdir()) == []
    assert place.nimbus.topology(NAME).status == "ACTIVE"


def test_a_plan_is_tried_applied_and_taken_back(place: Place, folder: Path) -> None:
    """Where the measured mean is above what a model says, the plan before is in force again."""
    topology, apply, before = place.topology, partial(place.kept.apply, folder), place.kept.counts()
    theirs = next(iter(workers_in(place.others)))
    everywhere = {e.label: theirs for e in topology.plan.plan.executors}
    for plan, said in (
        ("{executors: {nobody: 1}}", "there is no component nobody"),
        ("{executors: {twice: 2}, from: {'twice[1-1]': 'localhost:1'}}", "is not the one that it was"),
        (f"{{executors: {{twice: {before['twice']}}}}}", "has that plan already"),
        (f"{{workers: {SLOTS}}}", f"{SLOTS - 1} slots of the cluster are left for {NAME}, not {SLOTS}"),
        (json.dumps({"placement": everywhere}), "places no executor where a plan says"),
    ):
        status, result, _ = apply(plan)
        assert status == 2, result
        assert said in str(result["error"])

    status, tried, said = apply("{executors: {twice: 2}}", *CAUTIOUS, "--dry-run")
    assert status == 0, said
    assert isinstance(tried["before_ms"], float)
    assert (place.kept.counts(), topology.applied) == (before, ())

    status, kept, said = apply("{executors: {twice: 2}}", *CAUTIOUS, "--keep")
    assert (status, kept["outcome"]) == (0, "kept"), said
    assert isinstance(kept["measured_ms"], float)
    assert place.kept.counts() == {**before, "twice": 2}

    status, back, said = apply("{executors: {twice: 3}, workers: 2}", *HOPEFUL)
    assert (status, back["outcome"]) == (3, "taken back"), said
    assert place.kept.counts() == {**before, "twice": 2}
    assert [record.outcome for record in topology.applied] == ["kept", "taken back"]
    assert [p.seen for p in topology.plans] == ["submitted", "applied", "applied", "taken back"]
    assert len(place.nimbus.topology(NAME).slots()) == 1


def workers_in(seen: SeenTopology) -> set[str]:
    """Return the labels of a topology's workers."""
    return {f"{address}:{port}" for address, port in seen.slots}


def test_a_plan_that_somebody_else_changed_is_kept_first(place: Place, tmp_path: Path) -> None:
    """The second time it is known."""
    topology = place.topology
    own = configuration_of(topology.plan.plan)
    asked = own.model_copy(update={"executors": {**own.executors, "sum": 3}})
    rebalanced(place.nimbus, NAME, asked, within_s=240)
    require_answered(place)
    plan = tmp_path / "plan.yaml"
    plan.write_text("{executors: {sum: 2}}")
    where = ["--topology", NAME, "--submitted", str(topology.path.parent)]
    status, result, _ = harness("apply", str(plan), *where)
    assert status == 2
    assert f"somebody changed the plan of {NAME}" in str(result["error"])
    assert (topology.plan.seen, configuration_of(topology.plan.plan)) == ("found", asked)


def require_answered(place: Place) -> None:
    """Fail unless Caladrius's questions are answered of the plan that Nimbus has, not the kept one."""
    kept = place.topology.plan.plan
    running = place.nimbus.physical_plan(NAME, kept.query_plan, kept.nodes)
    receiving = {e.label for e in running.executors if e.component in ("twice", "sum")}
    with (
        serving(*folders(place), "--cluster", CLUSTER) as url,
        httpx.Client(base_url=url, timeout=120) as ask,
    ):
        current = f"/model/topology/storm/current/{NAME}"
        place.kept.wait_for_age()
        (answer,) = ask.get(current).json().values()
        assert answer["submitted"] == NAME
        assert {row["executor"] for row in answer["tasks"]} == receiving
        query = {"model": "stats-summary", "source_hours": 0.05, "future_mins": 0.5}
        traffic = ask.get(f"/model/traffic/storm/{NAME}", params=query).json()["stats-summary"]
        assert traffic["components"]["max"]["numbers"]["default"] > 0, traffic  # workers have just started
        where = ["--topology", NAME, "--submitted", str(place.topology.path.parent), "--source-hours", "0.05"]
        status, told, said = harness("forecast", *where, "--model", "stats-summary", "--by", "task")
        assert status == 0, said
        forecasts: Any = told["forecasts"]
        assert [(f["component"], f["task"] is None) for f in forecasts][:2] == [
            ("numbers", True),
            ("numbers", False),
        ]
        packing = f"/model/topology/storm/packingplan/{NAME}"
        for address, more in ((f"{packing}/current", {}), (f"{packing}/future", query)):
            packed = ask.get(address, params=more)
            assert packed.status_code == 200, packed.text
            assert packed.json()["current"]["executors"] == running.configuration().executors
        unknown = ask.get("/model/traffic/storm/never")
        assert (unknown.status_code, NAME in unknown.json()["errors"][0]["known"]) == (404, True)


def folders(place: Place) -> list[str]:
    """Return options by which the service shows what was submitted."""
    folder = str(place.topology.path.parent)
    return ["--runs", folder, "--submitted", folder]


def test_its_page_shows_it_live_and_a_plan_beside_it(place: Place, browser: Browser, tmp_path: Path) -> None:
    """Whoever asks sees executors of the kept plan; the file that is proposed is one that apply reads."""
    receiving = [e for e in place.topology.plan.plan.executors if e.component in ("twice", "sum")]
    with serving(*folders(place)) as url:
        for screen in SCREENS:
            context = screen_of(browser, screen)
            watched = WatchedPage(context, url)
            page = watched.page
            page.set_default_timeout(120_000)
            page.goto(f"{url}/topologies")
            page.get_by_role("link", name=NAME).click()
            expect(page.locator("h1")).to_have_text(NAME)
            busy = page.get_by_role("region", name="Capacity by executor").locator("tbody tr")
            expect(busy).to_have_count(len(receiving), timeout=120_000)
            expect(page.locator("svg.chart.rates path.line")).not_to_have_count(0)
            expect(page.locator("svg.chart.latencies path.line")).to_have_count(1)
            expect(page.get_by_text(f"season of {SEASON_S:.0f} s", exact=False).first).to_be_visible()
            expect(page.get_by_text("not known before it was seen twice")).to_have_count(0, timeout=120_000)
            expect(page.locator("#state")).to_contain_text("as of", timeout=120_000)
            expect(page.locator("svg.query-plan")).to_contain_text("executed", timeout=120_000)
            page.get_by_label("every executor").check()
            executors = page.locator("svg.plan g.executor")
            expect(executors).to_have_count(len(place.topology.plan.plan.executors))
            page.get_by_label("compact").check()
            applied = page.get_by_role("region", name="Plans that were applied").locator("tbody tr")
            expect(applied).to_have_count(2)
            watched.keep(f"topology-{screen}", tmp_path)
            assert watched.serious() == []
            page.get_by_role("button", name="Propose a plan").click()
            expect(page.locator("h1")).to_have_text(f"A plan for {NAME}")
            both = page.get_by_role("region", name="Both plans")
            expect(both).to_contain_text("executors of twice")
            expect(both).to_contain_text("measured mean, emit to ack")
            expect(both).to_contain_text("predicted mean, emit to ack")
            expect(page.locator("svg.plan").first.locator("g.executor")).to_have_count(
                len(place.topology.plan.plan.executors)
            )
            watched.keep(f"proposal-{screen}", tmp_path)
            assert watched.serious() == []
            assert watched.wrong == []
            context.close()


def test_an_attempt_that_is_interrupted_is_a_record_and_the_plan_before_is_back(
    place: Place, folder: Path
) -> None:
    """SIGTERM comes once the new plan is in force, while it is measured."""
    topology, before = place.topology, place.kept.counts()
    plans, records = len(topology.plans), len(topology.applied)
    asked = place.kept.asked(folder, "{executors: {twice: 3}}", *CAUTIOUS, "--keep")
    command = [sys.executable, "-m", "harness", *asked, "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        until(lambda: process.poll() is not None or len(topology.plans) > plans, "the new plan is in force")
        process.terminate()
        out, said = process.communicate(timeout=300)
    assert (process.returncode, json.loads(out.splitlines()[-1])["status"]) == (1, "stopped"), out + said
    assert "Traceback" not in said
    (record,) = topology.applied[records:]
    assert (record.outcome, record.reason) == ("interrupted", "stopped by SIGTERM")
    assert record.asked.executors["twice"] == 3
    assert [p.seen for p in topology.plans[plans:]] == ["applied", "taken back"]
    assert place.kept.counts() == before
    assert place.kept.in_force().keys() == {e.label for e in topology.plan.plan.executors}


def test_a_placement_is_applied_executor_by_executor_and_comes_back(place: Place, folder: Path) -> None:
    """Nimbus is given one jar and the lines of docs/service.md.

    Counts that are applied after it, and are too slow, are taken back to the placement.
    """
    plans = place.storm.home / "plans"
    plans.mkdir()
    place.storm.restart_nimbus(jars() / "instrumentation.jar", {SCHEDULER: PINNING, FOLDER: str(plans)})
    before, (theirs,) = place.kept.in_force(), workers_in(place.others)
    nodes, own = place.topology.plan.plan.nodes, set(before.values())
    free = next(f"{n.name}:{p}" for n in nodes for p in n.slots if f"{n.name}:{p}" not in {*own, theirs})

    def moved(worker: str) -> dict[str, str]:
        return {label: worker if label.startswith("twice[") else at for label, at in before.items()}

    status, result, _ = place.kept.apply(folder, json.dumps({"placement": moved(theirs)}))
    assert status == 2, result
    assert f"slot {theirs} is in use by {OTHERS}" in str(result["error"])

    asked = json.dumps({"placement": moved(free)})
    status, kept, said = place.kept.apply(folder, asked, *CAUTIOUS, burn_in_s=5)
    assert (status, kept["outcome"], kept["placed"]) == (0, "kept", True), said
    assert isinstance(kept["measured_ms"], float)
    assert place.kept.in_force() == moved(free)

    status, back, said = place.kept.apply(folder, "{executors: {twice: 1}}", *HOPEFUL, burn_in_s=5)
    assert (status, back["outcome"], back["placed"]) == (3, "taken back", False), said
    assert [p.seen for p in place.topology.plans[-3:]] == ["applied", "applied", "taken back"]
    assert place.topology.plans[-2].plan.configuration().executors["twice"] == 1
    assert place.kept.in_force() == moved(free)


ASKING = "harness.storm.cluster.AskingScheduler"
PATIENCE_MS = 120_000
"""What a busy machine may take; where the service is away, its port refuses at once."""


def test_a_plain_rebalance_is_asked_about(place: Place) -> None:
    """Nimbus is given one jar and the lines of docs/service.md; the service reads only what is reported."""
    nimbus, kept = place.nimbus, place.topology.plan.plan

    def known_to(service: str) -> bool:
        """Return True if the plan in force has run for long enough to predict from it."""
        running = labels(nimbus.physical_plan(NAME, kept.query_plan, kept.nodes))
        body = {"from": running, "placement": running}
        answer = httpx.post(
            f"{service}/model/topology/storm/proposed/{NAME}", json=body, timeout=PATIENCE_MS / 1e3
        )
        return answer.status_code == 200 and answer.json()["proposed"]["status"] == "ok"

    def ask(service: str, target_ms: float) -> None:
        settings = {"url": service, "target.ms": target_ms, "patience.ms": PATIENCE_MS}
        given = {f"harness.ask.{key}": value for key, value in settings.items()}
        log, of_it = place.storm.home / "Nimbus.log", f"asked about rebalances of {NAME}-"
        before = log.read_text().count(of_it)
        place.storm.restart_nimbus(jars() / "instrumentation.jar", {"storm.scheduler": ASKING, **given})
        until(lambda: log.read_text().count(of_it) > before, "Nimbus has seen what runs")

    def rebalance(workers: int, said: str) -> str:
        nimbus.rebalance(NAME, TopologyConfiguration(executors={}, workers=workers))
        until(lambda: nimbus.topology(NAME).scheduling.startswith(said), said)
        until(lambda: (s := nimbus.topology(NAME)).status == "ACTIVE" and s.all_up, "all is up")
        return nimbus.topology(NAME).scheduling

    before, workers = nimbus.topology(NAME), set(workers_of(NAME))
    few = len(before.slots())
    assert workers, "Storm shows no worker process"
    with serving(*folders(place)) as service:
        until(lambda: known_to(service), "the service knows what runs")
        ask(service, target_ms=1e-6)
        said = rebalance(few + 1, "asked: kept as it was: mean of at most ")
        assert said.endswith(" ms is predicted, 0.00 ms are asked"), said
        assert nimbus.topology(NAME).slots() == before.slots()
        assert set(workers_of(NAME)) == workers
    rebalance(few + 1, "asked: Storm's own plan: no answer: ")
    until(lambda: len(nimbus.topology(NAME).slots()) == few + 1, "Storm's own plan is in force")
    with serving(*folders(place)) as service:
        until(lambda: known_to(service), "the service knows what runs")
        ask(service, target_ms=1e9)
        rebalance(few, "asked: applied: mean of at most ")
        until(lambda: len(nimbus.topology(NAME).slots()) == few, "the plan that was asked about is in force")


def test_somebody_elses_topology_was_touched_by_none_of_it(place: Place) -> None:
    """It has the executors, in the worker processes, that it had before anything was submitted beside it."""
    assert SeenTopology.of(place.nimbus, OTHERS) == place.others
