"""Steps that say scheduler, from or placement: what is accepted, in which order, and each mistake's line.

Labels of executors are worked by hand: tasks are numbered by component in the order of the names, one acker
a slot first, 16 tasks a component.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.experiments.loading import _sources_first, dump, expand_steps, files, load
from harness.experiments.placement_file import placement_text, read_placement
from harness.experiments.step_settings import StepSpec

HEAD = """\
name: placed
topology: {name: fields-to-fields, load_aware: false}
workload: {rate_tps: 100}
cluster: {nodes: 2, slots_per_node: 1}
steps:
"""
BY_HAND = """\
"bolt-a[3-18]": node-1:6700
"bolt-b[19-34]": node-2:6800
"sender[35-50]": node-2:6800
"spout[51-58]": node-1:6700
"spout[59-66]": node-1:6700
"""


def written(folder: Path, plan: str, placement: str = BY_HAND) -> Path:
    (folder / "by-hand.yaml").write_text(placement)
    path = folder / "placed.yaml"
    path.write_text(f"{HEAD}  plan:\n{plan}")
    return path


def test_counts_follow_from_a_placement_beside_the_file(tmp_path: Path) -> None:
    steps = expand_steps(load(written(tmp_path, "    - {placement: by-hand.yaml}\n")))
    assert steps[0].configuration.executors == {"bolt-a": 1, "bolt-b": 1, "sender": 1, "spout": 2}
    assert steps[0].configuration.workers == 2
    assert steps[0].placed_by == "placement"


def test_a_run_keeps_a_copy_of_each_placement(tmp_path: Path) -> None:
    plan = "    - {executors: 1}\n    - {executors: 1, scheduler: {name: random, seed: 3}, from: 0}\n"
    experiment = load(written(tmp_path, f"{plan}    - {{placement: by-hand.yaml}}\n"))
    run = tmp_path / "run"
    run.mkdir()
    for name, text in files(experiment).items():
        (run / name).write_text(text)
    (tmp_path / "by-hand.yaml").unlink()
    again = load(run / "experiment.yaml")
    assert again.steps.plan[2].placement == run / "placement-2.yaml"
    assert again.steps.plan[2].placed == experiment.steps.plan[2].placed
    assert again.steps.plan[1] == experiment.steps.plan[1]
    assert expand_steps(again) == expand_steps(experiment)
    assert "from: 0" in dump(again)


labels = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=12)
tasks = st.integers(1, 999)


@given(
    st.dictionaries(
        st.builds("{}[{}-{}]".format, labels, tasks, tasks),
        st.builds("{}:{}".format, labels, tasks),
        min_size=1,
    )
)
def test_a_written_placement_is_read_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, workers: dict[str, str]
) -> None:
    path = tmp_path_factory.mktemp("placement") / "p.yaml"
    path.write_text(placement_text(workers), encoding="utf-8")
    assert read_placement(path) == workers


@pytest.mark.parametrize(
    ("step", "says"),
    [
        ("{workers: 2}", "the key 'executors' is missing"),
        ("{executors: 1, from: 0}", "only a scheduler or tuner reads another step"),
        ("{executors: 1, scheduler: even, from: 1}", "from: 1 is the step itself"),
        ("{executors: 1, scheduler: even, from: 2}", "from: 2 comes later"),
        ("{executors: 1, scheduler: even, from: 3}", "from: 3 is not measured"),
        ("{executors: 1, scheduler: even, from: -1}", "steps.plan.1.from: Input should be greater than"),
        ("{placement: by-hand.yaml, scheduler: even}", "placement and scheduler: give one of them"),
        ("{placement: by-hand.yaml, executors: 1}", "leave out executors and workers"),
        ("{placement: by-hand.yaml, from: 0}", "a placement reads no other step"),
        ("{placement: nowhere.yaml}", "placement: there is no file"),
        ("{executors: 1, schedule: even}", "unknown key 'steps.plan.1.schedule'"),
    ],
)
def test_a_mistake_in_a_step_is_one_line_with_its_place(tmp_path: Path, step: str, says: str) -> None:
    path = written(tmp_path, f"    - {{executors: 1}}\n    - {step}\n    - {{executors: 1}}\n")
    with pytest.raises(UsageError) as raised:
        load(path)
    assert str(raised.value).startswith(f"{path}:8: ")
    assert says in str(raised.value)


@pytest.mark.parametrize(
    ("placement", "says"),
    [
        ("", "by-hand.yaml: holds no placement"),
        ("- a\n", "by-hand.yaml: holds no placement"),
        ("bolt-a: node-1:6700\n", "'bolt-a' is no executor's label"),
        ("'bolt-a[1-2]': node-1\n", "bolt-a[1-2]: 'node-1' is no worker's label"),
        ("'bolt-a[1-2]': 6700\n", "bolt-a[1-2]: 6700 is no worker's label"),
        (
            BY_HAND + '"bolt-a[3-18]": node-2:6800\n',
            "by-hand.yaml:6: not readable as YAML: found duplicate key",
        ),
        ('"__acker[1-1]": node-1:6700\n', "names no executor of the topology"),
        (BY_HAND.replace("bolt-a", "bolt-x"), "there is no component 'bolt-x'"),
        (BY_HAND.replace('"bolt-a[3-18]": node-1:6700\n', ""), "executors must name each of"),
        (
            BY_HAND.replace('spout[51-58]": node-1:6700', 'spout[51-58]": node-1:6701'),
            "3 workers are more than the cluster's 2 slots",
        ),
    ],
)
def test_a_mistake_in_a_placement_is_one_line(tmp_path: Path, placement: str, says: str) -> None:
    with pytest.raises(UsageError) as raised:
        load(written(tmp_path, "    - {placement: by-hand.yaml}\n", placement))
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)


@given(st.data())
def test_a_shuffled_order_has_every_source_before_what_reads_it(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 8))
    plan = []
    for i in range(size):
        source = data.draw(st.none() | st.integers(0, i - 1)) if i else None
        keys = {} if source is None else {"scheduler": "even", "from": source}
        plan.append(StepSpec.model_validate({"executors": 1, **keys}))
    order = data.draw(st.permutations(range(size)))
    ordered = _sources_first(order, plan)
    assert sorted(ordered) == list(range(size))
    for position, spec in enumerate(plan):
        assert spec.source is None or ordered.index(spec.source) < ordered.index(position)
    if not any(spec.source is not None for spec in plan):
        assert ordered == list(order)  # an order without sources is left as it was drawn
