"""Which models and measurements predictions are of: stamped into their file, and compared with now's."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from pathlib import Path

import pyarrow.parquet as pq

from harness.analysis.judge.code_digest import code_digest, models_digest
from harness.machine.seals import SEAL, sha256
from harness.models import MODELS
from harness.runs import Run

KEY = b"predicted_with"
"""In the metadata of a Parquet file's schema."""
STEPS = "steps"
"""Beside the models' names, none of which it can be: the digest of the steps' files."""


def stamp(run: Run, models: Iterable[str], before: Mapping[str, str] | None = None) -> dict[bytes, bytes]:
    """Return the metadata of predictions that are made now.

    Parameters
    ----------
    run : Run
    models : iterable of str
        Those that predicted.
    before : mapping of str to str, optional
        What the file says of the models whose earlier predictions stay in it.
    """
    now = {name: model_digest(name) for name in models}
    return {KEY: json.dumps({**(before or {}), **now, STEPS: steps_digest(run)}).encode()}


def stamped(path: Path) -> dict[str, str]:
    """Return the stamp of a file of predictions or errors; empty for a file from before stamps."""
    found = (pq.read_schema(path).metadata or {}).get(KEY)
    return {str(name): str(digest) for name, digest in json.loads(found).items()} if found else {}


def stale(run: Run, path: Path, models: Iterable[str]) -> tuple[str, ...]:
    """Return those of a file's models that are not today's, or had other measurements to predict from."""
    said = stamped(path)
    if said.get(STEPS) != steps_digest(run):
        return tuple(models)
    return tuple(name for name in models if said.get(name) != model_digest(name))


def model_digest(name: str) -> str:
    """Return a digest of a model's code: of all the harness's own, and of the module of one of a user's."""
    if name in MODELS:
        return models_digest()
    try:
        spec = importlib.util.find_spec(name.partition(":")[0])
    except (ImportError, ValueError):
        spec = None
    there = spec is not None and spec.origin is not None and spec.origin.endswith(".py")
    return f"{models_digest()}-{code_digest([Path(str(spec.origin))])}" if there and spec else models_digest()


def steps_digest(run: Run) -> str:
    """Return a digest of all files of a run's finished steps."""
    digest = blake2b(digest_size=6)
    for step in run.finished_steps:
        files = sorted(p for p in run.step_path(step).iterdir() if p.is_file() and p.name != SEAL)
        digest.update("".join(f"{step}/{p.name} {sha256(p)}\n" for p in files).encode())
    return digest.hexdigest()
