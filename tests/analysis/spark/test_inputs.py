"""Wrong input: one line that names the file, and nothing written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from synthetic_run import FakeRun, FakeStep, build

from harness.analysis.analyse import OUTPUTS, analyse
from harness.analysis.spark.inputs import read_run, spark_path
from harness.errors import UsageError
from harness.schemas import SCHEMA_VERSION


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    steps = [FakeStep(1, seconds=4, burn_in_s=2)]
    return build(tmp_path_factory.mktemp("good") / "run", FakeRun(steps=steps))


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-200])


def foreign(path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), path)


def retyped(path: Path) -> None:
    table = pq.read_table(path)
    at = table.schema.get_field_index("left_ns")
    pq.write_table(table.set_column(at, "left_ns", table["left_ns"].cast(pa.float64())), path)


def newer(path: Path) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema": SCHEMA_VERSION + 1}))


STEP = "steps/00/"


@pytest.mark.parametrize(
    ("file", "spoil", "says"),
    [
        (STEP + "latency.parquet", Path.unlink, "no such file"),
        (STEP + "latency.parquet", truncate, "not a whole Parquet file"),
        (STEP + "metrics.parquet", foreign, "no column 'bucket_end_ms'"),
        (STEP + "latency.parquet", retyped, "column 'left_ns' is double"),
        (STEP + "plan.json", lambda p: p.write_text("{}"), "the key 'asked' is missing"),
        (STEP + "interval.json", lambda p: p.write_text("{"), "interval.json"),
        (STEP + "quality.json", Path.unlink, "No such file"),
        ("experiment.yaml", lambda p: p.write_text("a: [1"), "not readable"),
        ("experiment.yaml", lambda p: p.write_text("a: 1"), "no key 'name'"),
        ("environment.json", newer, "newer than this harness reads"),
        ("environment.json", Path.unlink, "not a run directory"),
        ("predictions.parquet", Path.unlink, "harness predict"),
        ("predictions.parquet", truncate, "not a whole Parquet file"),
        ("steps", shutil.rmtree, "no folder 'steps'"),
        (STEP.rstrip("/"), shutil.rmtree, "no finished step"),
    ],
)
def test_each_wrong_file_is_named_in_one_line(
    good: Path, tmp_path: Path, file: str, spoil: Callable[[Path], object], says: str
) -> None:
    path = tmp_path / "run"
    shutil.copytree(good, path)
    spoil(path / file)
    with pytest.raises(UsageError) as error:
        analyse(path)
    assert says in str(error.value)
    assert "\n" not in str(error.value)
    assert not [name for name in OUTPUTS if (path / name).exists()]
    assert not list(path.glob(".*.partial"))


def test_columns_may_be_added_and_dictionaries_left_out(good: Path, tmp_path: Path) -> None:
    path = tmp_path / "run"
    shutil.copytree(good, path)
    file = path / STEP / "latency.parquet"
    table = pq.read_table(file)
    at = table.schema.get_field_index("path")
    table = table.set_column(at, "path", table["path"].cast(pa.string()))
    pq.write_table(table.append_column("more", pa.array([1] * table.num_rows)), file)
    assert read_run(path).steps[0].latency_rows == table.num_rows


def test_paths_keep_their_characters() -> None:
    assert spark_path(Path("/a/b[1]{x}*?")) == "/a/b\\[1\\]\\{x\\}\\*\\?"
