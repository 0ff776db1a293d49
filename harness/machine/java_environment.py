"""Environment variables that every JVM, or Spark, obeys before its command line."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

JVM_OPTIONS = ("_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")
"""Options that a JVM takes from the environment; the first go before those of its command line."""
_OF_SPARK = re.compile(
    r"JAVA_HOME|JAVA_OPTS|CLASSPATH|SPARK_(?!LOCAL_IP$)\w+|PYSPARK_\w+|HADOOP_\w+|PYTHON(HOME|PATH)"
)


def without_jvm_options(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return an environment, this process's own if none is given, without options for JVMs.

    What is measured has the heap and the compilers that its experiment says, and no others.

    Examples
    --------
    >>> without_jvm_options({"_JAVA_OPTIONS": "-Xmx64m", "LANG": "C"})
    {'LANG': 'C'}
    """
    given = os.environ if environment is None else environment
    return {name: value for name, value in given.items() if name not in JVM_OPTIONS}


def to_blame(environment: Mapping[str, str] | None = None) -> list[str]:
    """Return the variables that may keep Spark from starting; JVMs' options come first.

    Examples
    --------
    >>> to_blame({"SPARK_CONF_DIR": "/none", "_JAVA_OPTIONS": "-Xmx64m", "HOME": "/"})
    ['_JAVA_OPTIONS', 'SPARK_CONF_DIR']
    """
    given = os.environ if environment is None else environment
    names = [name for name in JVM_OPTIONS if name in given]
    return names + sorted(name for name in given if _OF_SPARK.fullmatch(name))
