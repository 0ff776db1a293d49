"""Jars that do what is allowed and seldom: each is described as it will be measured, or refused in one line.

Every main is run for real, without a cluster, from a folder that is not its jar's.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from zipfile import ZipFile

import pytest
from foreign_jars import compiled

from harness.app.jars import jars
from harness.errors import UsageError
from harness.experiments.config import Experiment
from harness.experiments.loading import dump
from harness.experiments.preflight import findings
from harness.machine import servers
from harness.machine.servers import ServerHomes
from harness.storm import capturing
from harness.storm.deployment import METRICS_CONSUMER, storms_own
from harness.topologies.jar import JarTopology

HALF_A_LINE = "main submitted no topology"


@pytest.fixture(scope="module")
def homes() -> ServerHomes:
    return servers.install()


@pytest.fixture(scope="module")
def jar(homes: ServerHomes, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled("Odd.java", homes, tmp_path_factory.mktemp("odd"))


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which the command is given."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def known(jar: Path, homes: ServerHomes, *args: str, main: str = "Odd", **topology: object) -> Experiment:
    asked = {
        "name": "odd",
        "topology": {"jar": str(jar), "main": main, "args": ["{name}", *args], **topology},
        "steps": {"plan": [{"executors": 1, "workers": 1}]},
    }
    return capturing.known(Experiment.model_validate(asked), homes, jars())


def refused(jar: Path, homes: ServerHomes, *args: str, **topology: object) -> str:
    with pytest.raises(UsageError) as caught:
        known(jar, homes, *args, **topology)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    return str(caught.value)


def components(experiment: Experiment) -> dict[str, int]:
    return dict(experiment.topology.task_counts())


PLAIN = {"ticks": 1, "end": 2, "middle": 4}


@pytest.mark.parametrize(
    "how",
    [
        "bytes",
        *(pytest.param(how, marks=pytest.mark.deep) for how in ("closed", "unended", "child", "inactive")),
    ],
)
def test_whatever_main_does_with_its_output_it_is_known_what_it_submitted(
    jar: Path, homes: ServerHomes, how: str
) -> None:
    assert components(known(jar, homes, how)) == PLAIN


def test_a_main_may_look_whether_it_runs_already(jar: Path, homes: ServerHomes) -> None:
    assert components(known(jar, homes, "asks")) == PLAIN


def test_components_that_storm_adds_are_part_of_what_is_expected(jar: Path, homes: ServerHomes) -> None:
    """As StormCommon.addEventLogger adds them; one acker a slot."""
    experiment = known(jar, homes, "logged")
    (step,) = experiment.steps.plan
    own = storms_own(experiment, experiment.configuration(step)).executors
    assert own == {
        **{"ticks": 1, "end": 1, "middle": 1, "__acker": 4, METRICS_CONSUMER: 1},
        "__eventlogger": 2,
    }


@pytest.mark.deep
def test_limits_of_tasks_are_those_that_nimbus_applies(jar: Path, homes: ServerHomes) -> None:
    assert components(known(jar, homes, "limited")) == PLAIN | {"middle": 3}
    assert components(known(jar, homes, "limited", tasks={"middle": 6})) == PLAIN | {"middle": 6}
    with pytest.raises(
        ValueError, match=r"max\.task\.parallelism is set by the harness; its key is topology\.t"
    ):
        known(jar, homes, "plain", storm={"topology.max.task.parallelism": 2})


@pytest.mark.parametrize(
    ("how", "name"),
    [
        ("backslash", r'component "C:\\"'),
        pytest.param("comma", r'component "one\\,two"', marks=pytest.mark.deep),
    ],
)
def test_names_that_metrics_cannot_carry_are_refused(
    jar: Path, homes: ServerHomes, how: str, name: str
) -> None:
    assert f"{name} cannot be measured: metrics are named without line breaks" in refused(jar, homes, how)


@pytest.mark.deep
def test_other_strange_names_are_taken(jar: Path, homes: ServerHomes) -> None:
    assert set(components(known(jar, homes, "strange"))) == {"ticks", "end", 'split, words=1 "größe"'}


def test_a_name_that_storm_does_not_take_is_refused_before_anything_starts(
    jar: Path, homes: ServerHomes
) -> None:
    assert "Topology name 'captured-topology.v2' is not valid" in refused(jar, homes, "dotted")


def test_a_main_that_needs_more_heap_is_told_the_key(jar: Path, homes: ServerHomes) -> None:
    """It makes 320 MB of numbers."""
    assert "MB of heap that it has: raise topology.main_heap_mb" in refused(jar, homes, "large")
    assert components(known(jar, homes, "large", main_heap_mb=600)) == PLAIN


def test_main_runs_in_the_folder_of_its_jar(
    jar: Path, homes: ServerHomes, tmp_path: Path, elsewhere: Path
) -> None:
    moved = tmp_path / "moved" / "odd.jar"
    moved.parent.mkdir()
    shutil.copy(jar, moved)
    assert "main failed: java.nio.file.NoSuchFileException: words.txt" in refused(moved, homes, "file")
    (moved.parent / "words.txt").write_text("a\nb\n")
    assert components(known(moved, homes, "file")) == PLAIN
    assert list(elsewhere.iterdir()) == []


def test_the_last_lines_of_main_stand_in_the_error(jar: Path, homes: ServerHomes) -> None:
    said = refused(jar, homes, "file-told")
    assert said.endswith(
        "main failed: java.lang.IllegalArgumentException: no words;"
        " it said: cannot read none.txt / usage: Odd NAME HOW"
    )


def without(jar: Path, name: str, folder: Path) -> Path:
    made = folder / f"without-{name}.jar"
    with ZipFile(jar) as whole, ZipFile(made, "w") as cut:
        for entry in whole.namelist():
            if entry != f"{name}.class":
                cut.writestr(entry, whole.read(entry))
    return made


def test_it_is_said_which_class_is_missing(jar: Path, homes: ServerHomes, tmp_path: Path) -> None:
    cut = without(jar, "Odd$Helper", tmp_path)
    assert refused(cut, homes, "plain", main="Odd$Child").endswith(
        "class Odd$Child cannot be loaded: the class Odd$Helper is neither in the jar nor in Storm 2.8.3"
    )
    assert refused(cut, homes, "needs").endswith(
        "main failed: the class Odd$Helper is neither in the jar nor in Storm 2.8.3"
    )


def test_a_jar_of_a_storm_before_1_0_is_named(homes: ServerHomes, tmp_path: Path) -> None:
    """Packages were called backtype.storm then: a class of such a name is there when main is compiled."""
    api, old = tmp_path / "backtype" / "storm" / "Config.java", tmp_path / "Old.java"
    api.parent.mkdir(parents=True)
    api.write_text(
        "package backtype.storm; public class Config { public static int WORKERS() { return 1; } }"
    )
    old.write_text(
        "public class Old { public static void main(String[] a) { backtype.storm.Config.WORKERS(); } }"
    )
    subprocess.run(["javac", "-d", str(tmp_path), str(api), str(old)], check=True, capture_output=True)
    made = tmp_path / "old.jar"
    with ZipFile(made, "w") as zipped:
        zipped.write(tmp_path / "Old.class", "Old.class")
    assert refused(made, homes, main="Old").endswith(
        "main failed: the class backtype.storm.Config is neither in the jar nor in Storm 2.8.3:"
        " the jar is made for a Storm before 1.0"
    )


def test_secrets_of_a_jars_settings_are_not_kept(jar: Path, homes: ServerHomes) -> None:
    """By name below another name, and by shape within a URL; the workers get what main submits."""
    experiment = known(jar, homes, "secrets", "in-a-url-17", "below-a-name-17")
    assert isinstance(experiment.topology, JarTopology)
    assert experiment.topology.captured is not None
    settings = experiment.topology.captured.settings
    assert settings["shop"] == [{"api-token": "below-a-name-17"}]
    kept = (
        dump(experiment).replace("- in-a-url-17\n", "").replace("- below-a-name-17\n", "")
    )  # plain arguments
    assert "in-a-url-17" not in kept
    assert "below-a-name-17" not in kept


def test_the_heap_that_a_jar_gives_its_workers_is_said_and_counted(jar: Path, homes: ServerHomes) -> None:
    experiment = known(jar, homes, "heap")
    (said,) = [f.message for f in findings(experiment) if f.key == "cluster.worker_heap_mb"]
    assert "700 MB" in said
    assert "256 MB" in said
    assert experiment.worker_heap_mb == 700
    assert known(jar, homes, "plain").worker_heap_mb == 256


def test_a_burn_in_that_no_step_can_end_is_said(jar: Path, homes: ServerHomes) -> None:
    """Twelve buckets of a second (steady.LEAST_BUCKETS); reports come by the bucket and two seconds late."""
    experiment = known(jar, homes, "plain")
    for bucket_s, most_s, too_short in ((1, 14, True), (1, 15, False), (2, 15.5, True), (2, 16, False)):
        measure = {"bucket_s": bucket_s, "burn_in": {"least_s": 1, "most_s": most_s}}
        changed = Experiment.model_validate(experiment.model_dump() | {"measure": measure})
        said = [f.message for f in findings(changed) if f.key == "measure.burn_in.most_s"]
        assert [f"{14 + bucket_s} s at least" in message for message in said] == [True] * too_short
