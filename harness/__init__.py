"""Experiment harness and validation platform for performance models of stream processing."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("storm-harness")
except PackageNotFoundError:  # run from a checkout that is not installed
    __version__ = "0+unknown"
