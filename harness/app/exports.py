"""Files that other tools read, made from a run directory: nothing is written into the run.

HdrHistogram's percentile text, which https://hdrhistogram.github.io/HdrHistogram/plotFiles.html draws, JUnit
XML, CSV files and an RO-Crate (https://w3id.org/ro/crate).
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from harness.errors import UsageError
from harness.machine.whole_files import folder_atomically, write_atomically
from harness.protocols import CheckResult
from harness.runs import Run, judged, read_latency, read_table

if TYPE_CHECKING:
    from rocrate.rocrate import ROCrate

NS_PER_MS = 1_000_000
DIGITS = 3
"""Significant digits that the histogram keeps."""
LONGEST_NS = 3_600_000_000_000
"""The histogram's highest value, an hour."""
TICKS = 5
"""Lines between a percentile and the one half as far from 100 %, as HdrHistogram's own tools have it."""
TABLES = {"predictions": "harness predict RUN", "errors": "harness report RUN"}
"""Tables at the top of a run, and the command that makes each."""
_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 has no place for, as the escapes in a topology's own error."""
RESULT = {"valid": None, "invalid": "failure", "unknown": "error"}


def write_histogram(run: Run, step: int, path: Path) -> int:
    """Write a step's ground-truth latencies, in ms, as HdrHistogram's percentile text.

    Only messages due in the interval count. Values have three significant digits.

    Parameters
    ----------
    run : Run
    step : int
    path : Path
        A new file.

    Returns
    -------
    int
        Number of latencies.

    Raises
    ------
    UsageError
        When the file exists, or the step has no ground truth.
    """
    from hdrh.histogram import HdrHistogram  # noqa: PLC0415 (nothing else needs it)

    _require_new(path)
    latencies_ns = _ground_truth_ns(run, step)
    if not len(latencies_ns):
        raise UsageError(f"{run.path}: step {step} has no ground-truth latency", "export it with --csv")
    histogram = HdrHistogram(1, LONGEST_NS, DIGITS)
    for value_ns, count in zip(*np.unique(latencies_ns, return_counts=True), strict=True):
        histogram.record_value(int(value_ns), int(count))
    text = io.BytesIO()
    histogram.output_percentile_distribution(text, NS_PER_MS, TICKS)
    write_atomically(path, _scale_deviation(text.getvalue().decode(), histogram.get_stddev() / NS_PER_MS))
    return len(latencies_ns)


def _scale_deviation(text: str, deviation_ms: float) -> str:
    """Put the standard deviation in the unit of the values: the library's text has it unscaled."""
    return re.sub(r"(StdDeviation\s*=\s*)[\d.]+", lambda match: f"{match[1]}{deviation_ms:.3f}", text)


def _ground_truth_ns(run: Run, step: int) -> npt.NDArray[np.int64]:
    rows = judged(read_latency(run.step_path(step)), run.interval(step).latency)
    values = rows.filter(rows["in_interval"])["ground_truth_ms"].drop_null().to_numpy()
    rounded: npt.NDArray[np.int64] = np.round(values[np.isfinite(values)] * NS_PER_MS).astype(np.int64)
    return rounded


def write_junit(run: Run, name: str, path: Path) -> int:
    """Write the verdict's checks as JUnit XML: a suite a step, and one of the whole run.

    A check that found the measurement invalid is a failure, one that does not know an error.

    Parameters
    ----------
    run : Run
    name : str
        Of the experiment.
    path : Path
        A new file.

    Returns
    -------
    int
        Number of checks.

    Raises
    ------
    UsageError
        When the file exists, or the run has no verdict yet.
    """
    _require_new(path)
    checks = _checks(run)
    root = ET.Element("testsuites", name=f"{name} {run.path.name}")
    for step in sorted({c.step for c in checks}, key=lambda s: -1 if s is None else s):
        of_step = [c for c in checks if c.step == step]
        results = [RESULT[c.status] for c in of_step]
        suite = ET.SubElement(
            root,
            "testsuite",
            name="run" if step is None else f"step {step}",
            tests=str(len(of_step)),
            failures=str(results.count("failure")),
            errors=str(results.count("error")),
            skipped="0",
        )
        for check, result in zip(of_step, results, strict=True):
            case = ET.SubElement(suite, "testcase", classname=name, name=check.check, time="0")
            if result is not None:
                ET.SubElement(case, result, message=_NO_XML.sub("\ufffd", check.detail))
            elif check.detail:
                ET.SubElement(case, "system-out").text = _NO_XML.sub("\ufffd", check.detail)
    ET.indent(root)
    write_atomically(path, ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n")
    return len(checks)


def _checks(run: Run) -> list[CheckResult]:
    if run.verdict == "not reported":
        raise UsageError(f"{run.path}: no verdict", "make it with: harness report RUN")
    try:
        listed = json.loads((run.path / "verdict.json").read_text(encoding="utf-8"))["checks"]
        return [CheckResult(c["check"], c["status"], c["step"], c["detail"]) for c in listed]
    except (ValueError, KeyError, TypeError):
        raise UsageError(
            f"{run.path}/verdict.json: holds no checks", "make it again with: harness report RUN"
        ) from None


def write_csv(run: Run, path: Path) -> tuple[list[str], list[str]]:
    """Write latencies of every step, predictions and errors as CSV files.

    Of ``latency.parquet`` all columns but the lists of hops, with the step's number before them.

    Parameters
    ----------
    run : Run
    path : Path
        A new folder.

    Returns
    -------
    written, missing : list of str
        Names of the files, and of the tables that the run has not.

    Raises
    ------
    UsageError
        When the folder exists or no step is finished.
    """
    _require_new(path)
    written, missing = [], []
    with folder_atomically(path) as folder:
        latencies = pa.concat_tables(_latencies(run), promote_options="permissive")
        _write_csv(latencies, folder / "latency.csv")
        written.append("latency.csv")
        for name in TABLES:
            if (table := run.path / f"{name}.parquet").is_file():
                _write_csv(read_table(table), folder / f"{name}.csv")
                written.append(f"{name}.csv")
            else:
                missing.append(name)
    return written, missing


def _latencies(run: Run) -> Iterator[pa.Table]:
    steps = run.finished_steps
    if not steps:
        raise UsageError(f"{run.path}: no finished step", "measure it with harness run --resume")
    for step in steps:
        rows = read_latency(run.step_path(step))
        flat = [n for n, kind in zip(rows.column_names, rows.schema.types, strict=True) if not _nested(kind)]
        yield rows.select(flat).add_column(0, "step", pa.array([step] * rows.num_rows, pa.int32()))


def _nested(kind: pa.DataType) -> bool:
    return bool(pa.types.is_nested(kind))


def _write_csv(table: pa.Table, path: Path) -> None:
    for at, column in enumerate(table.schema):
        if pa.types.is_dictionary(column.type):
            table = table.set_column(at, column.name, pc.cast(table[column.name], column.type.value_type))
    pa_csv.write_csv(table, path)


def write_crate(run: Run, name: str, path: Path) -> int:
    """Copy a run into an RO-Crate, which says what each file is, when and on what it was measured.

    Parameters
    ----------
    run : Run
    name : str
        Of the experiment.
    path : Path
        A new folder.

    Returns
    -------
    int
        Number of the run's files in it.

    Raises
    ------
    UsageError
        When the folder exists.
    """
    from rocrate.rocrate import ROCrate  # noqa: PLC0415 (nothing else needs it)

    _require_new(path)
    crate = ROCrate()
    crate.name = f"{name} {run.path.name}"
    crate.description = (
        f"Measured run of the experiment {name} on {run.environment.get('cluster_kind', 'an unknown')}"
        f" cluster; verdict: {run.verdict}. Columns and units: docs/run-directory.md of storm-harness."
    )
    files = [p for p in sorted(run.path.rglob("*")) if p.is_file() and not p.name.startswith(".")]
    for file in files:
        _add(crate, run, file)
    _say_how_it_came_about(crate, run)
    with folder_atomically(path) as folder:
        crate.write(folder)
    return len(files)


def _add(crate: ROCrate, run: Run, file: Path) -> None:
    inside = file.relative_to(run.path).as_posix()
    kinds = {
        ".json": "application/json",
        ".yaml": "application/yaml",
        ".parquet": "application/vnd.apache.parquet",
        ".html": "text/html",
        ".txt": "text/plain",
        ".jsonl": "application/jsonl",
    }
    described = {"name": inside, "contentSize": str(file.stat().st_size)}
    if kind := kinds.get(file.suffix):
        described["encodingFormat"] = kind
    crate.add_file(str(file), dest_path=inside, properties=described)


def _say_how_it_came_about(crate: ROCrate, run: Run) -> None:
    """Name the measuring, as the crate's specification has it: when, by which software, on which machine."""
    from rocrate.model.softwareapplication import SoftwareApplication  # noqa: PLC0415 (as above)

    known = run.environment
    properties = {
        "name": "storm-harness",
        "softwareVersion": known.get("harness", "unknown"),
        "identifier": known.get("commit", "unknown"),
    }
    software = crate.add(SoftwareApplication(crate, "#storm-harness", properties=properties))
    machine = known.get("machine", {})
    measuring = {
        "name": "measuring",
        "startTime": known.get("started", "unknown"),
        "description": ", ".join(f"{key}: {value}" for key, value in machine.items()),
    }
    crate.add_action(software, "#measuring", result=[crate.root_dataset], properties=measuring)


def _require_new(path: Path) -> None:
    if path.exists():
        raise UsageError(f"--out {path}: exists already", "name a new one")
    if not path.parent.is_dir():
        raise UsageError(f"--out {path}: {path.parent} is no folder", "make it, or name another")
