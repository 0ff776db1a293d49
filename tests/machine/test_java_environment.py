"""Variables that every JVM obeys: named where they keep Spark from starting, kept from what is measured."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.machine.java_environment import JVM_OPTIONS, without_jvm_options

START = """
from harness.analysis.spark.session import spark_session
from harness.errors import HarnessError
try:
    with spark_session():
        print("it started")
except HarnessError as error:
    print(error)
"""


@pytest.mark.deep
@pytest.mark.parametrize(
    ("variable", "options"), [("_JAVA_OPTIONS", "-Xmx64m"), ("JDK_JAVA_OPTIONS", "-XX:NoSuchOption")]
)
def test_each_variable_that_keeps_spark_from_starting_is_named(
    variable: str, options: str, tmp_path: Path
) -> None:
    """The first takes the place of Spark's own heap, with too little; the second ends any JVM at once."""
    given = {**without_jvm_options(), variable: options, "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", START], capture_output=True, text=True, check=True, env=given, timeout=300
    )
    (said,) = done.stdout.splitlines()
    assert said.startswith("Spark did not start (")
    assert f"try without {variable}" in said


def test_what_is_measured_is_started_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in JVM_OPTIONS:
        monkeypatch.setenv(variable, "-Xmx64m")
    assert without_jvm_options() == {k: v for k, v in os.environ.items() if k not in JVM_OPTIONS}
