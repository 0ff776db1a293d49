"""Version of the harness, as it is installed."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

try:
    HARNESS_VERSION = version("storm-harness")
except PackageNotFoundError:  # run from a checkout that is not installed
    HARNESS_VERSION = "0+unknown"
