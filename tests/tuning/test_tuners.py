"""The tuners on archived steps: what they propose, what the model says of it, what they decline."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from harness.analysis.judge.predicting import observation as observation_of
from harness.errors import UsageError
from harness.experiments.loading import load
from harness.models.composite.model import composite
from harness.models.composite.played import PlayedSolution
from harness.plans import BatchSize, PhysicalPlan, QueryPlan, Stream
from harness.protocols import Observation, TuningProposal
from harness.runs import Run
from harness.schemas import Measure
from harness.tuning import TUNERS, make_tuner
from harness.tuning.model_guided import ModelGuidedTuner, PlanCandidate, PlanSearch
from harness.tuning.side_by_side import TuningTable

RUNS = Path(__file__).resolve().parents[2] / "reports" / "runs"
RAMP = RUNS / "loaded-ramp" / "20261122T004256Z"
BOLTS = ("bolt-a", "bolt-b", "sender")


@pytest.fixture(scope="module")
def ramp() -> Observation:
    """fields-to-fields at 100 messages/s, 2 executors a component, 16 tasks; bolt-a waits 9 ms a tuple."""
    return observation_of(Run(RAMP), load(RAMP / "experiment.yaml"), 0)


def cyclic(source: Observation) -> Observation:
    plan = source.plan.query_plan
    back = Stream(source="bolt-b", target="bolt-a", grouping="shuffle", stream="back")
    changed = QueryPlan(name=plan.name, components=plan.components, streams=(*plan.streams, back))
    known = source.plan
    return replace(
        source, plan=PhysicalPlan(query_plan=changed, nodes=known.nodes, executors=known.executors)
    )


@pytest.mark.parametrize("name", TUNERS)
def test_a_tuner_is_deterministic_and_names_every_component(name: str, ramp: Observation) -> None:
    proposal = make_tuner(name).propose(ramp, 225.0)
    assert make_tuner(name).propose(ramp, 225.0) == proposal
    assert (proposal.tuner, proposal.status, proposal.workers) == (name, "ok", 4)
    assert set(proposal.executors) == {"spout", *BOLTS}
    assert proposal.executors["spout"] == 2
    assert TuningProposal.model_validate_json(proposal.model_dump_json()) == proposal
    for decision in proposal.decisions:
        assert decision.formula
        assert decision.why.endswith(".")


@pytest.mark.parametrize("name", TUNERS)
def test_a_topology_with_a_cycle_is_declined_by_name(name: str, ramp: Observation) -> None:
    proposal = make_tuner(name).propose(cyclic(ramp), 225.0)
    assert proposal.status == "declined"
    assert proposal.reason == "components form a cycle: bolt-a, bolt-b, sender"
    assert (proposal.executors, proposal.workers, proposal.configuration) == ({}, None, None)


@pytest.mark.parametrize("name", TUNERS)
def test_a_step_without_metrics_is_declined(name: str, ramp: Observation) -> None:
    proposal = make_tuner(name).propose(replace(ramp, metrics=ramp.metrics.iloc[:0]), 225.0)
    assert (proposal.status, proposal.reason) == (
        "declined",
        "the source step has no metrics of the topology's components",
    )


def test_a_topology_whose_outputs_nobody_saw_is_predicted_from_emit_to_ack(ramp: Observation) -> None:
    """As it is measured; one whose messages were followed from the spout to the sink."""
    roles = {"sender": "other"}
    graph = ramp.plan.query_plan
    parts = tuple(c.model_copy(update={"role": roles.get(c.role, c.role)}) for c in graph.components)
    plan = ramp.plan.model_copy(update={"query_plan": graph.model_copy(update={"components": parts})})
    unseen = replace(ramp, plan=plan, latency=ramp.latency.iloc[:0], hop_records=False)
    for source, latency in ((ramp, Measure.GROUND_TRUTH), (unseen, Measure.ACK)):
        predicted = TuningTable(source, 100.0).as_measured()
        assert (predicted.latency, predicted.status) == (latency, "ok")


def test_three_executors_for_bolt_a(ramp: Observation) -> None:
    """It takes 9.8 ms a tuple, and so 225/s keep 2.2 executors busy."""
    for name in ("aeolus", "ds2"):
        assert dict(make_tuner(name).propose(ramp, 225.0).executors) == {
            "spout": 2,
            "bolt-a": 3,
            "bolt-b": 1,
            "sender": 1,
        }


def test_each_record_with_a_message_says_whose_n_and_s_it_has(ramp: Observation) -> None:
    shipped = make_tuner("aeolus").propose(ramp, 225.0)
    origins = {d.values["n_s_from"] for d in shipped.decisions if "n_us" in d.values}
    assert len(origins) == 1
    assert str(origins.pop()).startswith("not measured here")
    assert shipped.reason.startswith("assumed, not measured: n, s; ppt of spout; tuple bytes of spout")
    given = make_tuner("aeolus", {"message": {"n_us": 12, "s_ns_per_byte": 4, "origin": "measured: m.json"}})
    values = [d.values for d in given.propose(ramp, 225.0).decisions if "n_us" in d.values]
    assert {(v["n_us"], v["s_ns_per_byte"], v["n_s_from"]) for v in values} == {
        (12.0, 4.0, "measured: m.json")
    }


def test_a_dear_message_makes_batches_which_are_predicted_by_playing_them(ramp: Observation) -> None:
    """n = 10 ms, 225/s of 2 executors: l_i = 8.89 ms, bytes 0.4 us: 10 / 8.8885 = 1.1 -> 2 if batches fill.

    Each of 16 tasks sends 0.88/s to each of 16 others: in 60 s 53 tuples, in 100 ms never a second one.
    """
    dear = {"n_us": 10_000, "s_ns_per_byte": 4}
    table = TuningTable(ramp, 225.0)
    patient = table.propose("aeolus", make_tuner("aeolus", {"message": dear, "flush_ms": 60_000}))
    assert patient.proposal.batching["spout"].model_dump() == {"size": 2, "flush_ms": 60_000.0}
    assert patient.predicted is not None
    assert patient.predicted.reason == PlayedSolution.reason
    assert patient.predicted.mean_ms
    assert patient.predicted.mean_ms > 500  # every other tuple of the spout waits for the next: 1.1 s
    hasty = make_tuner("aeolus", {"message": dear, "flush_ms": 100}).propose(ramp, 225.0)
    assert "spout" not in hasty.batching
    why = next(d.why for d in hasty.decisions if d.node == "spout" and "eq. 4" in d.formula)
    assert "with 1 as much goes through as with more" in why


def test_a_bound_by_tasks_is_named(ramp: Observation) -> None:
    """bolt-a has 16 tasks, and 9.8 ms x 3,000/s want 30 executors."""
    for name in ("aeolus", "ds2"):
        proposal = make_tuner(name).propose(ramp, 3000.0)
        assert proposal.executors["bolt-a"] == 16
        assert proposal.reason.startswith("fewer executors than wanted, for want of tasks: bolt-a")


def test_more_than_a_packet_brings_a_warning(ramp: Observation) -> None:
    """bolt-b of 15 ms with 16 tasks is saturated at 1,500/s, so b = B_max: 1 MB of tuples of 10,000 bytes.

    In 10 min each of its 16 tasks has 3,000 or more tuples for the busiest receiver.
    """
    parameters = {
        "most_batch_bytes": 1_000_000,
        "flush_ms": 600_000,
        "tuple_bytes": {"bolt-b": 10_000},
        "ppt_ms": {"bolt-b": 15},
    }
    proposal = make_tuner("aeolus", parameters).propose(ramp, 1500.0)
    assert proposal.batching["bolt-b"].size == 100
    assert "bolt-b: a batch of 100 tuples of 10000 bytes has 1,000,000 bytes, more than" in proposal.reason


def test_the_search_finds_the_best_of_all_plans_within_a_small_budget(ramp: Observation) -> None:
    """Every split of 6 executors or fewer among three bolts, by the same model: the least mean latency."""
    tuner = ModelGuidedTuner(most_executors=8, least_gain_pct=0.0, batch_sizes=(1,))
    search = PlanSearch(tuner, composite.prepare(ramp), ramp, 225.0, 8)
    scores = {
        counts: search.score(PlanCandidate.of({"spout": 2, **dict(zip(BOLTS, counts, strict=True))}, {}))
        for counts in product(range(1, 5), repeat=3)
        if sum(counts) <= 6
    }
    proposal = tuner.propose(ramp, 225.0)
    chosen = tuple(proposal.executors[name] for name in BOLTS)
    assert scores[chosen] == min(scores.values())
    assert len(scores) == 20
    assert any(s.saturated for s in scores.values())


def test_an_executor_more_has_to_be_worth_it(ramp: Observation) -> None:
    """At 225/s a fourth executor of bolt-a lowers the latency by 16 %: not enough where 30 % are asked."""
    few = {"most_executors": 8}
    keen = make_tuner("model-guided", {**few, "least_gain_pct": 2.0}).propose(ramp, 225.0)
    thrifty = make_tuner("model-guided", {**few, "least_gain_pct": 30.0}).propose(ramp, 225.0)
    assert (keen.executors["bolt-a"], thrifty.executors["bolt-a"]) == (4, 3)


def test_a_budget_that_sustains_nothing_is_declined_with_what_it_sustains(ramp: Observation) -> None:
    """Three executors of bolt-a take 9.8 ms a tuple each: 306/s at most."""
    proposal = make_tuner("model-guided", {"most_executors": 7}).propose(ramp, 400.0)
    assert proposal.status == "declined"
    assert proposal.reason.startswith(
        "no plan of at most 7 executors that was looked at sustains 400 messages/s"
    )
    sustained = float(proposal.reason.split("sustains ")[-1].split()[0])
    assert 240 < sustained < 306
    assert proposal.decisions


def test_a_budget_below_one_for_each_is_declined(ramp: Observation) -> None:
    proposal = make_tuner("model-guided", {"most_executors": 4}).propose(ramp, 100.0)
    assert proposal.reason == "a budget of 4 executors is less than one for each component"


def test_the_search_ends_after_so_many_predictions(ramp: Observation) -> None:
    proposal = make_tuner("model-guided", {"most_predictions": 3}).propose(ramp, 225.0)
    assert proposal.decisions[-1].values["plans"] == 3
    assert proposal.decisions[-1].why == "3 plans are predicted: the search ends."


def test_batches_that_only_make_tuples_wait_are_taken_away(ramp: Observation) -> None:
    """At 100/s nothing is near its limit: the spout's batches, of 40 ms, add to every latency."""
    source = replace(
        ramp, settings=replace(ramp.settings, batching={"spout": BatchSize(size=20, flush_ms=40)})
    )
    tuner = make_tuner("model-guided", {"most_executors": 8, "batch_sizes": (1, 20), "flush_ms": (40,)})
    proposal = tuner.propose(source, 100.0)
    assert proposal.status == "ok"
    assert proposal.batching == {}
    assert any(d.node == "spout" and "batches of spout" not in d.values for d in proposal.decisions)


def test_batches_are_looked_at_size_by_size_and_flush_by_flush(ramp: Observation) -> None:
    tuner = ModelGuidedTuner(batch_sizes=(1, 2, 5), flush_ms=(5, 10))
    search = PlanSearch(tuner, composite.prepare(ramp), ramp, 100.0, 8)
    alone = [dict(b) for _, b in search._batches_near({})]
    assert alone == [{name: BatchSize(size=2)} for name in ("spout", "bolt-a", "bolt-b")]
    near = [
        b.get("spout") for name, b in search._batches_near({"spout": BatchSize(size=2)}) if name == "spout"
    ]
    assert near == [None, BatchSize(size=5), BatchSize(size=2, flush_ms=10)]
    none = PlanSearch(ModelGuidedTuner(batch_sizes=(1,)), search.model, ramp, 100.0, 8)
    assert list(none._batches_near({"spout": BatchSize(size=2)})) == []


def test_sizes_are_looked_at_all_together_too(ramp: Observation) -> None:
    """From 5 and 2 to 2 and none, or to 10 and 5; the flush of each stays."""
    search = PlanSearch(ModelGuidedTuner(), composite.prepare(ramp), ramp, 100.0, 8)
    now = {"spout": BatchSize(size=5, flush_ms=20), "bolt-a": BatchSize(size=2)}
    together = [dict(b) for name, b in search._batches_near(now) if name == "spout, bolt-a"]
    assert together == [
        {"spout": BatchSize(size=2, flush_ms=20)},
        {"spout": BatchSize(size=10, flush_ms=20), "bolt-a": BatchSize(size=5)},
    ]


def test_a_shorter_percentile_can_be_the_goal(ramp: Observation) -> None:
    mean, p99 = (
        make_tuner("model-guided", {"statistic": s}).propose(ramp, 225.0).decisions[0].result
        for s in ("mean", "p99")
    )
    assert float(str(mean).split()[0]) < float(str(p99).split()[0])


def test_the_table_predicts_each_proposal_as_the_model_does(ramp: Observation) -> None:
    """The measured step's own plan, to the number; a tuner's plan has executors as proposed."""
    table = TuningTable(ramp, 100.0)
    own = table.as_measured()
    estimates = composite.prepare(ramp).predict(ramp.plan, ramp.settings, 100.0).estimates
    (mean,) = [
        e for e in estimates if (e.measure, e.statistic, e.subject) == ("ground_truth_latency_ms", "mean", "")
    ]
    assert (own.mean_ms, own.low_ms, own.high_ms) == (mean.value, mean.low, mean.high)
    assert own.status == "ok"
    asked: list[dict[str, int]] = []

    def place(running: PhysicalPlan, configuration) -> PhysicalPlan:  # type: ignore[no-untyped-def]
        asked.append(dict(configuration.executors))
        return running

    row = replace(table, place=place).propose("ds2", make_tuner("ds2"))
    assert asked == [dict(row.proposal.executors)]
    assert row.predicted == own
    assert list(row.as_json()) == [
        "tuner",
        "status",
        "reason",
        "executors",
        "workers",
        "batching",
        "predicted",
        "executors_moved",
        "workers_restarted",
        "limits",
        "decisions",
    ]
    json.dumps(row.as_json(), allow_nan=False)


@pytest.mark.parametrize(
    ("mood", "reason"),
    [
        ("bad", "the tuner failed with ZeroDivisionError: no luck"),
        ("declining", "not today"),
        ("wordless", "the tuner failed with TypeError: it answered str, not a TuningProposal"),
    ],
)
def test_a_users_tuner_that_fails_has_declined(mood: str, reason: str, ramp: Observation) -> None:
    tuner = make_tuner("made_tuners:OwnTuner", {"mood": mood})
    row = TuningTable(ramp, 100.0).propose("own", tuner)
    assert (row.proposal.status, row.proposal.reason, row.predicted) == ("declined", reason, None)


def test_a_users_tuner_is_asked_by_module_and_name(ramp: Observation) -> None:
    row = TuningTable(ramp, 50.0).propose("own", make_tuner("made_tuners:OwnTuner"))
    assert row.proposal.tuner == "own"
    assert row.predicted is not None
    assert row.predicted.status == "ok"


@pytest.mark.parametrize(
    ("name", "parameters", "said"),
    [
        ("aeolos", {}, "unknown tuner 'aeolos': use one of aeolus, ds2, flink, model-guided"),
        ("aeolus", {"flush": 1}, "tuner 'aeolus' has no parameter 'flush': its parameters are "),
        ("aeolus", {"flush_ms": 0}, "tuner 'aeolus': flush_ms: "),
        ("aeolus", {"tuple_bytes": {"spout": -1}}, "tuner 'aeolus': tuple_bytes.spout: "),
        ("aeolus", {"message": {"n_us": 1}}, "tuner 'aeolus': the key 'message.s_ns_per_byte' is missing"),
        ("aeolus", {"most_batch_bytes": 2_000_000_001}, "tuner 'aeolus': most_batch_bytes: "),
        ("ds2", {"utilisation": 1.1}, "tuner 'ds2': utilisation: "),
        ("flink", {"boundary": -0.1}, "tuner 'flink': boundary: "),
        ("model-guided", {"statistic": "p42"}, "tuner 'model-guided': statistic: "),
        ("model-guided", {"most_executors": "many"}, "tuner 'model-guided': most_executors: "),
        ("no_such_module:tuner", {}, "tuner 'no_such_module:tuner' cannot be loaded"),
        ("json:dumps", {"obj": 1}, "tuner 'json:dumps' has no method propose"),
        ("json:__doc__", {}, "tuner 'json:__doc__' is not callable"),
        ("made_tuners:OwnTuner", {"temper": 1}, "tuner 'made_tuners:OwnTuner' has no parameter 'temper'"),
    ],
)
def test_wrong_names_and_parameters_are_one_line(name: str, parameters: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError) as refused:
        make_tuner(name, parameters)
    assert str(refused.value).startswith(said)
    assert "\n" not in str(refused.value)
