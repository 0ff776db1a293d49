"""``provenance.json``: what a step was measured with, by which steps of one run can be told apart.

A run that is resumed goes on with what it began with: the same experiment, jar, machine and code.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import blake2b
from pathlib import Path

from pydantic import ValidationError
from ruamel.yaml import YAML

from harness.errors import UsageError, describe_fault
from harness.experiments.loading import HISTORY, PLACEMENT, TRACE
from harness.plans import Frozen
from harness.runs import Run

PROVENANCE = "provenance.json"
NOT_MEASURED_WITH = ("models",)
"""Keys of an experiment that say what is done with its steps once they are measured."""
PLACES = ("cluster.file",)
"""Keys that say where a file was; the keys of its cluster are beside it."""


class Provenance(Frozen):
    """Experiment, machine and code with which a step was measured.

    Attributes
    ----------
    experiment : mapping of str to str
        A digest by key of the experiment's file, and by name of each file that it names.
    machine : mapping of str to str
        What is known of the machine that led the campaign.
    code : str
        Digest of the harness's code and jars, as far as they measure or decide plans.
    """

    experiment: Mapping[str, str]
    machine: Mapping[str, str]
    code: str

    def differences(self, other: Provenance) -> tuple[str, ...]:
        """Return in what another differs, each with the key that says it.

        Examples
        --------
        >>> here = Provenance(experiment={"name": "1"}, machine={"cores": "2"}, code="a")
        >>> here.differences(here.model_copy(update={"machine": {"cores": "4"}}))
        ('machine: cores is 4 and was 2',)
        """
        keys = changed_keys(self.experiment, other.experiment)
        machine = sorted(
            f"machine: {key} is {other.machine.get(key)} and was {self.machine.get(key)}"
            for key in self.machine.keys() | other.machine.keys()
            if self.machine.get(key) != other.machine.get(key)
        )
        code = ("code: the harness's own is another",) if self.code != other.code else ()
        return (*(f"experiment: {key}" for key in keys), *machine, *code)


def changed_keys(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """Return the keys whose digests differ, or that only one of both has, but for ``PLACES``.

    Examples
    --------
    >>> changed_keys({"name": "1", "cluster.file": "2"}, {"name": "3", "cluster.file": "4"})
    ('name',)
    """
    keys = (before.keys() | after.keys()) - set(PLACES)
    return tuple(sorted(key for key in keys if before.get(key) != after.get(key)))


def experiment_digests(files: Mapping[str, str]) -> dict[str, str]:
    """Return a digest by key of the files that a run keeps of its experiment.

    Parameters
    ----------
    files : mapping of str to str
        As ``harness.experiments.loading.files`` returns them: ``experiment.yaml`` and what it names.

    Examples
    --------
    >>> sorted(experiment_digests({"experiment.yaml": "workload: {rate_tps: 1.0}", "trace.txt": "0"}))
    ['trace.txt', 'workload.rate_tps']
    """
    tree = YAML(typ="safe").load(files["experiment.yaml"])
    leaves = dict(_leaves(tree, ())) if isinstance(tree, Mapping) else {}
    named = {name: text for name, text in files.items() if name != "experiment.yaml"}
    return {key: _digest(value) for key, value in {**leaves, **named}.items()}


def kept_files(run_path: Path) -> dict[str, str]:
    """Return the files that a run keeps of its experiment, as they are now, by name."""
    of_steps = [p.name for kept in (PLACEMENT, HISTORY) for p in run_path.glob(kept.format("*"))]
    names = ("experiment.yaml", TRACE, *of_steps)
    there = (run_path / name for name in names)
    return {path.name: path.read_text(encoding="utf-8") for path in there if path.is_file()}


def _leaves(tree: Mapping[str, object], above: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for key, value in tree.items():
        where = (*above, str(key))
        if where[0] in NOT_MEASURED_WITH:
            continue
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, where)
        else:
            yield ".".join(where), repr(value)


def _digest(text: str) -> str:
    return blake2b(text.encode(), digest_size=6).hexdigest()


def of_step(folder: Path) -> Provenance | None:
    """Return what a step was measured with; None of one from before that was kept.

    Raises
    ------
    UsageError
        When the file is not what it should be.
    """
    path = folder / PROVENANCE
    if not path.is_file():
        return None
    try:
        return Provenance.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise UsageError(f"{path}: not readable ({describe_fault(error)})") from None


def kept_with(run: Run, now: Provenance) -> Run:
    """Return the run so that every step that is written keeps what it was measured with.

    Raises
    ------
    UsageError
        When a finished step was measured with something else: both are no one run.
    """
    for step in run.finished_steps:
        before = of_step(run.step_path(step))
        where = f"{run.path}: step {step} was measured"
        if before is None:
            raise UsageError(f"{where} before it was kept with what", "start a new run")
        if found := before.differences(now):
            more = f", and {rest} more" if (rest := len(found) - 1) else ""
            raise UsageError(f"{where} with another: {found[0]}{more}", "undo the change, or start a new run")
    return Run(run.path, {PROVENANCE: now.model_dump_json(indent=1)})
