"""The builder: files edited key by key are still files by the same rules, and the page says what is wrong."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from served import Served

from harness.errors import UsageError
from harness.experiments.loading import load
from harness.service import building
from harness.service.jobs import shipped
from harness.service.trying import try_out


@pytest.mark.parametrize("name", shipped())
def test_every_shipped_experiment_opens_as_what_it_is(name: str) -> None:
    """Written out as a graph, it has the plan, the settings and the steps of its file."""
    given = load(shipped()[name])
    opened = building.checked(building.opened(shipped()[name]))
    assert opened.steps == given.steps
    assert opened.workload == given.workload
    assert opened.storm_settings() == given.storm_settings()
    if given.topology.known:
        topology, before = opened.topology.own(), given.topology.own()
        plan = before.query_plan()
        assert topology.query_plan().model_copy(update={"name": plan.name}) == plan
        assert (topology.services, topology.batching) == (before.services, before.batching)
        assert topology.forwarded_shares == before.forwarded_shares


def test_a_graph_made_of_parameters_is_written_out_and_edited_as_any() -> None:
    tree = building.read(building.opened(shipped()["aniello-reference"]))
    topology = tree["topology"]
    assert isinstance(topology, dict)
    assert "reference" not in topology
    assert topology["components"]["simple-1"]["forwarded_share"] == 0.5
    building.remove_component(tree, "in-2")
    building.add_component(tree, "in-3", "spout")
    building.add_stream(tree, "in-3", "simple-1", "shuffle", "")
    building.set_key(tree, ["topology", "components", "in-3", "tasks"], "2")
    made = building.checked(building.write(tree))
    assert made.shares == {"in-1": 2, "in-3": 3}
    assert made.configuration(made.steps.plan[0]).executors["in-3"] == 2


def test_a_graph_is_made_by_hand() -> None:
    text = building.opened(shipped()["windowed"])
    tree = building.read(text)
    building.add_component(tree, "more", "multiplier")
    building.remove_stream(tree, 0)
    building.add_stream(tree, "spout", "more", "shuffle", "default")
    building.add_stream(tree, "more", "window", "fields", "")
    building.set_key(tree, ["topology", "components", "more", "service", "mean_ms"], "0.5")
    building.set_key(tree, ["topology", "batching", "spout"], "20")
    building.set_key(tree, ["topology", "components", "more", "output_bytes"], "500")
    building.set_key(tree, ["workload", "payload_bytes"], "100")
    made = building.checked(building.write(tree))
    topology = made.topology.own()
    assert [s.label for s in topology.query_plan().streams if "more" in s.label] == [
        "spout->more:default",
        "more->window:default",
    ]
    assert topology.services["more"].mean_ms == 0.5
    assert topology.batching["spout"].size == 20
    assert topology.output_bytes == {"more": 500}
    assert made.workload is not None
    assert made.workload.payload_bytes == 100
    assert made.steps.plan[0].counts["more"] == 1
    building.set_key(tree, ["topology", "components", "more", "role"], "json")
    assert building.checked(building.write(tree)).topology.own().roles["more"] == "json"
    building.remove_component(tree, "more")
    with pytest.raises(UsageError, match="nobody subscribes to spout"):
        building.checked(building.write(tree))


@pytest.mark.parametrize("name", ["aniello-reference", "windowed"])
def test_a_file_that_names_its_graph_is_written_out_by_the_first_change_of_it(name: str) -> None:
    tree = building.read(shipped()[name].read_text(encoding="utf-8"))
    given = tree["topology"]
    building.set_key(tree, ["workload", "rate_tps"], "30")
    assert tree["topology"] == given
    first = building.checked(building.write(tree)).topology.own().entrances[0]
    building.set_key(tree, ["topology", "components", first, "output_bytes"], "9")
    made = building.checked(building.write(tree)).topology.own()
    assert made.components is not None
    assert made.reference is None
    assert made.components[first].output_bytes == 9
    assert list(made.roles) == list(load(shipped()[name]).topology.own().roles)


def test_a_component_of_another_role_loses_what_it_cannot_have() -> None:
    tree = building.read("topology: {components: {a: {role: keyed, groups: 30, key: [at], output_bytes: 9}}}")
    key = ["topology", "components", "a", "role"]
    building.set_key(tree, key, "window")
    window = {"role": "window", "window": building.DEFAULTS["window"], "output_bytes": 9}
    assert tree == {"topology": {"components": {"a": window}}}
    building.set_key(tree, key, "sender")
    assert tree == {"topology": {"components": {"a": {"role": "sender"}}}}


def test_a_mistake_names_its_line_and_nothing_of_this_machine() -> None:
    with pytest.raises(UsageError) as error:
        building.checked("name: one\ntopology: {name: never}\n")
    assert "harness-builder" not in str(error.value)
    with pytest.raises(UsageError, match="not readable as YAML"):
        building.read("a: [")


def test_steps_are_played_and_predicted() -> None:
    """Twice the executors at one rate: the model foresees what the simulator plays, within a third."""
    text = building.opened(shipped()["quick"])
    first, second = try_out(text)
    for row in (first, second):
        assert row["low_ms"] <= row["mean_ms"] <= row["high_ms"]
        assert row["mean_ms"] == pytest.approx(row["played_ms"], rel=0.33)
        assert 0 < row["busiest"][1] < 100


@pytest.fixture
def client(served: Served) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=served.url, timeout=180, headers=served.bearing) as opened:
        yield opened


def test_the_page_shows_drawing_form_and_problems(client: httpx.Client) -> None:
    page = client.get("/builder", params={"experiment": "join-split"}).text
    assert page.count("<fieldset id=") == 6
    chain = {"text": shipped()["aniello-reference"].read_text(encoding="utf-8"), "action": "none"}
    opened = client.post("/builder/parts", json=chain).text
    assert opened.count("<fieldset id=") == 7
    assert "As many executors as tasks." in opened
    assert 'href="#component-join"' in page
    text = building.opened(shipped()["join-split"])
    added = client.post(
        "/builder/parts", json={"text": text, "action": "add_component", "arguments": ["<b>x</b>", "json"]}
    )
    assert added.status_code == 200
    assert "<b>x</b>" not in added.text
    assert "&lt;b&gt;x&lt;/b&gt;" in added.text
    assert 'role="alert" class="banner"' in added.text
    assert client.get("/builder", params={"experiment": "../x"}).status_code == 404
    for body in (
        {"text": "[", "action": "none"},
        {"text": "a: 1", "action": "set", "arguments": ["1", "a", "b"]},
        {"text": "a: 1", "action": "set", "arguments": ["1"]},
        {"text": text, "action": "set", "arguments": ["1", "steps", "plan", "9" * 5000, "executors"]},
        {"text": text, "action": "remove_step", "arguments": ["9" * 5000]},
        {"text": text, "action": "copy_step", "arguments": ["99"]},
    ):
        answer = client.post("/builder/parts", json=body)
        assert answer.status_code == 200
        assert 'role="alert" class="banner"' in answer.text
    refused = client.post("/builder/parts", json={"text": text}, headers={"authorization": ""})
    assert refused.status_code == 401
