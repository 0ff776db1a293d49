"""A jar between two Kafka topics on the real cluster, compiled here with Storm's own Kafka spout and bolt."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest
from campaigns import carry_out
from foreign_jars import compiled

from harness.analysis.analyse import analyse
from harness.analysis.judge.predicting import predict
from harness.app.jars import jars
from harness.backends.local.cluster import LocalCluster
from harness.errors import NoOutput
from harness.machine.servers import ServerHomes
from harness.runs import Run, read_table

pytestmark = pytest.mark.system

HEADER = "request"
CAPITALS_MS = 3
"""What the slowest bolt of Between.java waits for each message."""
RATE_TPS = 50


@pytest.fixture(scope="session")
def jar(server_homes: ServerHomes, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """It brings storm-kafka-client and kafka-clients along, as for ``storm jar``."""
    folder = tmp_path_factory.mktemp("between")
    return compiled("Between.java", server_homes, folder, [jars() / "topologies.jar"])


def settings(jar: Path, how: str, **topics: object) -> dict[str, Any]:
    return {
        "name": f"between-{uuid.uuid4().hex[:8]}",
        "topology": {
            "jar": str(jar),
            "main": "Between",
            "args": ["{name}", "{bootstrap}", "{input_topic}", "{output_topic}", how],
            "topics": {"value": "{key} {payload}", **topics},
            "ackers": 1,
            "storm": {"topology.message.timeout.secs": 300},  # nothing is sent again on a slow machine
        },
        "workload": {"rate_tps": RATE_TPS, "arrivals": "poisson", "payload_bytes": 32},
        "cluster": {"nodes": 2, "slots_per_node": 2},
        "measure": {
            "bucket_s": 1,
            "attempts": 1,
            # until something has come out; how steadily is not asked
            "burn_in": {"least_s": 12, "most_s": 24, "drift_pct": 1000},
            "interval": {"precision_pct": 100, "least_s": 8, "most_s": 8, "looks": 1},
        },
        "steps": {"plan": [{"executors": 1, "workers": 1}]},
        "models": ["no-change"],
    }


def measured(asked: Mapping[str, object], cluster: LocalCluster, folder: Path) -> Run:
    return carry_out(asked, cluster, folder, lambda _: None)


def checks(run: Run) -> dict[str, list[Mapping[str, object]]]:
    predict(run)
    analyse(run.path)
    found: dict[str, list[Mapping[str, object]]] = {}
    for check in json.loads((run.path / "verdict.json").read_text())["checks"]:
        found.setdefault(check["check"], []).append(check)
    return found


def test_two_steps_are_measured_from_topic_to_topic(jar: Path, cluster: LocalCluster, tmp_path: Path) -> None:
    """Between.java waits 3 ms a message; nothing in it takes a second on a cluster that keeps up.

    Every latency is the broker's, on one clock. The schedule is on another, the generator's: there, no
    message goes in before it was sent, and none takes longer than since it was due.
    """
    asked = settings(jar, "header", header=HEADER)
    asked["steps"] = {"plan": [{"executors": 1, "workers": 1}, {"executors": 2, "workers": 2}]}
    asked["models"] = ["no-change", "linear", "storm-tracer", "composite"]
    run = measured(asked, cluster, tmp_path)
    for step in run.finished_steps:
        interval, quality = run.interval(step), run.quality(step)
        assert interval.latency == "topics"
        assert interval.rate_tps == RATE_TPS
        assert quality.ledger is not None
        assert quality.ledger.complete, quality.ledger
        assert quality.ledger.received == quality.ledger.sent > 0
        assert quality.receiver is not None
        assert quality.receiver.ok, quality.receiver.detail
        table = read_table(run.step_path(step) / "latency.parquet")
        rows = table.filter(table["in_interval"])
        ground_truth_ms, broker_ms, due_ms = (
            rows[name].to_numpy() for name in ("ground_truth_ms", "broker_ms", "scheduled_ms")
        )
        assert rows.num_rows == quality.ledger.sent
        assert pc.unique(rows["sink"]).to_pylist() == ["out"]
        assert (ground_truth_ms == broker_ms).all()
        assert (broker_ms >= CAPITALS_MS - 1).all()  # a difference of whole milliseconds
        assert np.median(broker_ms) < 5000
        went_in_ms = (rows["entered_ns"].to_numpy() - rows["sent_ns"].to_numpy()) / 1e6
        assert went_in_ms.min() > -1
        assert went_in_ms.min() < 1000
        assert (ground_truth_ms < due_ms + 1).all()
        assert interval.mean_ms == pytest.approx(ground_truth_ms.mean(), rel=1e-6)
    by_check = checks(run)
    sure = ("all-steps", "plan-as-asked", "ledger", "receiver", "samples", "metrics", "measured-latency")
    trusted = [c for name in sure for c in by_check[name]]
    assert all(c["status"] == "valid" for c in trusted), trusted
    assert not any(str(c["detail"]).startswith("does not apply") for c in trusted)
    said = {str(c["detail"]) for c in by_check["measured-latency"]}
    (kind,) = said
    assert kind.startswith("from the append to the input topic to the append to the output topic")
    answers = read_table(run.path / "predictions.parquet").to_pandas()
    means = answers[(answers["measure"] == "ground_truth_latency_ms") & (answers["statistic"] == "mean")]
    statuses = {model: set(of["status"]) for model, of in means.groupby("model")}
    assert statuses["no-change"] == statuses["storm-tracer"] == statuses["composite"] == {"ok"}
    assert kind.replace("'", "&#39;") in (run.path / "report.html").read_text()


def test_the_key_can_name_a_message(jar: Path, cluster: LocalCluster, tmp_path: Path) -> None:
    run = measured(settings(jar, "key"), cluster, tmp_path)
    ledger = run.quality(0).ledger
    assert ledger is not None
    assert ledger.complete, ledger


def test_what_may_vanish_or_become_several_is_counted(
    jar: Path, cluster: LocalCluster, tmp_path: Path
) -> None:
    """Each task of ``capitals`` drops one of three, gives the next twice, and a nameless record with it."""
    run = measured(settings(jar, "freely", header=HEADER, outputs="any"), cluster, tmp_path)
    ledger = run.quality(0).ledger
    assert ledger is not None
    assert ledger.balanced, ledger
    third = ledger.sent / 3
    edges = 4  # of the interval, for each of two tasks
    assert ledger.without_output == pytest.approx(third, abs=edges)
    assert ledger.repeated == pytest.approx(third, abs=edges)
    assert ledger.foreign >= third - edges  # of the whole step
    assert ledger.lost == ledger.duplicates == 0
    found = checks(run)
    (check,), (kept_up,) = found["ledger"], found["backlog"]
    assert check["status"] == "valid"
    assert f"without output {ledger.without_output}" in str(check["detail"])
    assert f"repeated {ledger.repeated}" in str(check["detail"])
    assert kept_up["status"] == "unknown"  # one load does not tell whether they were filtered or shed
    assert "every step has the same load" in str(kept_up["detail"])


def test_a_name_that_is_altered_or_no_output_at_all_is_one_line(
    jar: Path, cluster: LocalCluster, tmp_path: Path
) -> None:
    lines = {}
    for how, attempts in (("misnamed", 2), ("silent", 1)):
        asked = settings(jar, how, header=HEADER)
        asked["measure"] |= {"attempts": attempts, "burn_in": {"least_s": 4, "most_s": 4}}  # of silence
        try:
            with pytest.raises(NoOutput) as refused:
                measured(asked, cluster, tmp_path / how)
        finally:
            cluster.nimbus.kill(str(asked["name"]))
        lines[how] = str(refused.value)
        assert "\n" not in lines[how]
        assert "none came out named by its header request" in lines[how]
    assert re.search(
        r"its header request is 'request message-\d+', which names no message", lines["misnamed"]
    )
    assert "nothing was written to between-" in lines["silent"]
