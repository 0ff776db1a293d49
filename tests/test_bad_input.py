"""Two thousand files and variables that somebody got wrong: success or one clear line, and nothing else.

Each example is a seed of ``mutated_input``; hypothesis draws and shrinks the seeds. All run in this process;
fifty more run as the real command in ``tests/system/test_bad_commands.py``.
"""

from __future__ import annotations

import io
import json
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from types import FrameType

import pytest
from altered_runs import ALL_IN_ONE
from budgets import budget
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from mutated_input import NASTY_TEXTS, mutated_text, mutated_tree
from ruamel.yaml import YAML

from harness.app import stores
from harness.backends.hosts.state import ProvisionedState
from harness.errors import HarnessError
from harness.experiments import cluster_file, loading
from harness.experiments.preflight import findings
from harness.machine import secret_files
from harness.machine.servers import cache_folder, installed
from harness.runs import Run

ROOT = Path(__file__).resolve().parents[1]
EXPERIMENTS = sorted((ROOT / "configs" / "experiments").rglob("*.yaml"))
CLUSTERS = sorted((ROOT / "configs" / "clusters").glob("*.yaml"))
ONE_WITHIN_S = 20
"""Of processor time. Of a block that waits for something, pytest's own limit is in force."""
MOST_CHARACTERS = 4500
COUNTS = {"experiments": 900, "clusters": 500, "plans": 300, "variables": 300}
"""Two thousand, all of which the deep circle tries; the quick one a fifth of them."""
MOST_S = 90.0
"""Processor time of all two thousand. They took 22 s where this was set."""
MOST_OF_A_RIGHT_ONE = 6.0
"""Processor time of a wrong input, in that of a right one, on average over all: a limit for any machine."""
tried: Counter[str] = Counter()
"""Inputs by their kind, and below the processor time (s) that each kind took."""
took_s: Counter[str] = Counter()
FUZZ = settings(
    phases=(Phase.explicit, Phase.generate),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,  # the same ones in CI and here
)
seeds = st.integers(0, 2**32)


@contextmanager
def within(seconds: int) -> Iterator[None]:
    """Fail when a block hangs."""

    def hangs(_number: int, _frame: FrameType | None) -> None:
        raise TimeoutError(f"not done within {seconds} s of processor time")

    before = signal.signal(signal.SIGPROF, hangs)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@contextmanager
def trying(kind: str) -> Iterator[None]:
    """Count an input, and the processor time that is spent on it."""
    begun_s = time.process_time()
    yield
    tried[kind] += 1
    took_s[kind] += time.process_time() - begun_s


def require_clear(command: Callable[[], object], folder: Path) -> str:
    """A command succeeds or says in a line what is wrong; it writes nothing, and does not hang.

    What it said is returned.
    """
    before = sorted(folder.rglob("*"))
    with within(ONE_WITHIN_S), redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()):
        refusal = None
        try:
            command()
        except HarnessError as error:
            refusal = error
    said = "" if refusal is None else str(refusal)
    if refusal is not None:
        assert refusal.exit_status == 2, said
        assert said.strip()
    assert "\n" not in said
    assert "\x1b" not in said
    assert len(said) < MOST_CHARACTERS
    assert out.getvalue() == ""
    assert sorted(folder.rglob("*")) == before
    assert not Path("evil").exists()
    return said


def check_experiment(path: Path, options: Sequence[str]) -> None:
    """Read an experiment as ``harness check`` does."""
    experiment = loading.load(path, options)
    loading.expand_steps(experiment)
    list(findings(experiment))


def loads(path: Path) -> object:
    return YAML(typ="safe").load(path.read_text())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("bad")
    (made / "key").touch()
    return made


def dumped(tree: object) -> bytes:
    """A tree as YAML that any loader reads: JSON, with what JSON has no word for."""
    return json.dumps(tree).encode()


@settings(FUZZ, max_examples=budget(COUNTS["experiments"]))
@given(seed=seeds)
def test_experiments(seed: int, folder: Path) -> None:
    rng = random.Random(seed)
    source = rng.choice(EXPERIMENTS)
    path = folder / "experiment.yaml"
    by_tree = rng.random() < 0.5
    path.write_bytes(
        dumped(mutated_tree(loads(source), rng)) if by_tree else mutated_text(source.read_text(), rng)
    )
    options = []
    if rng.random() < 0.3:
        key = rng.choice(["workload.rate_tps", "topology.storm.a.b", "steps.plan.0", "x.y", "name", ""])
        options.append(f"{key}={rng.choice(NASTY_TEXTS)}")

    with trying("experiments"):
        require_clear(lambda: check_experiment(path, options), folder)


@settings(FUZZ, max_examples=budget(COUNTS["clusters"]))
@given(seed=seeds)
def test_clusters(seed: int, folder: Path) -> None:
    rng = random.Random(seed)
    source = rng.choice(CLUSTERS)
    path = folder / "cluster.yaml"
    text = source.read_text().replace("~/.ssh/id_ed25519", str(folder / "key"))
    tree = YAML(typ="safe").load(text)
    path.write_bytes(dumped(mutated_tree(tree, rng)) if rng.random() < 0.6 else mutated_text(text, rng))
    with trying("clusters"):
        require_clear(lambda: cluster_file.load(path), folder)


@pytest.mark.parametrize("read", [loading.load, cluster_file.load])
@pytest.mark.parametrize("text", ["[" * 3000 + "]" * 3000, "- " * 3000 + "1"])
def test_thousands_of_nested_lists_are_refused_in_one_line(
    text: str, read: Callable[[Path], object], folder: Path
) -> None:
    path = folder / "nested.yaml"
    path.write_text(text)
    assert "it is nested too deeply" in require_clear(lambda: read(path), folder)


@pytest.fixture(scope="module")
def run_path(folder: Path) -> Path:
    target = folder / "runs" / "all-in-one" / ALL_IN_ONE.name
    for name in ("environment.json", "experiment.yaml", "steps/00/plan.json"):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ALL_IN_ONE / name, target / name)
    for name in ("interval.json", "quality.json"):
        shutil.copy(ALL_IN_ONE / "steps" / "00" / name, target / "steps" / "00" / name)
    return target


@settings(FUZZ, max_examples=budget(COUNTS["plans"]))
@given(seed=seeds)
def test_plans_and_what_is_written_beside_them(seed: int, folder: Path, run_path: Path) -> None:
    rng = random.Random(seed)
    name = rng.choice(["steps/00/plan.json"] * 3 + ["steps/00/interval.json", "environment.json"])
    path, source = run_path / name, ALL_IN_ONE / name
    text = source.read_text()
    path.write_bytes(
        dumped(mutated_tree(json.loads(text), rng)) if rng.random() < 0.6 else mutated_text(text, rng)
    )

    def read() -> None:
        run = Run(run_path)
        assert run.plan(0).start.query_plan.sinks is not None
        assert run.interval(0).step is not None
        assert run.quality(0).steady is not None
        assert run.finished_steps == (0,)

    try:
        with trying("plans"):
            require_clear(read, folder)
    finally:
        shutil.copy(source, path)


VARIABLES = (
    "INFLUXDB_TOKEN",
    "INFLUXDB_TOKEN_FILE",
    "NEO4J_URI",
    "NEO4J_PASSWORD",
    "NEO4J_PASSWORD_FILE",
    "NEO4J_USERNAME",
    "HARNESS_ZOOKEEPER_PASSWORD",
    "HARNESS_ZOOKEEPER_PASSWORD_FILE",
    "XDG_CACHE_HOME",
    "XDG_STATE_HOME",
)


@settings(FUZZ, max_examples=budget(COUNTS["variables"]))
@given(seed=seeds)
def test_environment_variables(seed: int, folder: Path) -> None:
    rng = random.Random(seed)
    with pytest.MonkeyPatch.context() as patch:
        for name in rng.sample(VARIABLES, rng.randint(1, 4)):
            value = rng.choice(
                [*NASTY_TEXTS, str(folder), str(folder / "key"), "bolt://127.0.0.1:1", "http://"]
            )
            if "\x00" not in value:  # which no variable can hold
                as_bytes = value.encode(errors="surrogatepass")
                patch.setenv(name, as_bytes.decode(errors="surrogateescape"))

        def use() -> None:
            installed()
            cache_folder()
            for name in ("INFLUXDB_TOKEN", "NEO4J_PASSWORD", "HARNESS_ZOOKEEPER_PASSWORD"):
                secret_files.from_environment(name)
            ProvisionedState("none").record()

        with trying("variables"):
            require_clear(use, folder)
            require_clear(_graph, folder)


def _graph() -> None:
    """Only what is wrong with the variables: what they name is not asked."""
    uri = secret_files.from_environment(stores.URI)
    if uri and not secret_files.from_environment(stores.PASSWORD):
        stores.given_graph()


@pytest.mark.deep
def test_two_thousand_were_tried_within_90_s_and_took_not_much_longer_than_right_ones(
    figure: Callable[[str], None],
) -> None:
    """After all others of this file, in the same process."""
    if not tried:
        pytest.skip("the inputs of this file were tried in no test of this process")
    assert all(tried[kind] >= number for kind, number in COUNTS.items()), tried
    begun_s = time.process_time()
    for path in EXPERIMENTS:
        check_experiment(path, [])
    right_ms = 1e3 * (time.process_time() - begun_s) / len(EXPERIMENTS)
    wrong_ms = 1e3 * took_s.total() / tried.total()
    figure(
        f"{tried.total()} inputs: {took_s.total():.0f} s of processor time, {wrong_ms:.1f} ms each;"
        f" {right_ms:.1f} ms a right one"
    )
    assert took_s.total() <= MOST_S
    assert wrong_ms < MOST_OF_A_RIGHT_ONE * right_ms
