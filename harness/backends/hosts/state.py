"""State of a cluster between commands: the cluster as asked, how far it got, keys, Terraform's state.

The state is not in the cache folder: who empties a cache must not lose the only record of servers that cost
money.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from harness.backends.hosts.certificates import STORE_PASSWORD, Certificates, Holder
from harness.backends.hosts.variables import literal_yaml, nimbus_client
from harness.errors import HarnessError, MissingTool, UsageError
from harness.experiments.cluster_file import DATA_SERVERS, ClusterFile, ExistingHosts
from harness.machine import secret_files
from harness.machine.locks import held
from harness.machine.named_paths import user_folder
from harness.machine.trust import Trust
from harness.plans import Frozen
from harness.storm.running_cluster import Left

Phase = Literal["hosts", "software", "ready"]
"""The part that is being made: a cluster is half-provisioned as long as it is not ready."""
CONTROLLER = "controller"
"""Name of the certificate by which this machine is known to the cluster's servers."""
SECRETS = ("zookeeper_password", "neo4j_password", "influxdb_token")
_SECRET = re.compile(r"[A-Za-z0-9._~+/=-]{8,}")
"""A secret that needs no quoting wherever a server reads its password, and is long enough for all of them."""


class ClusterRecord(Frozen):
    """A cluster as it was asked, and how far it was made.

    Attributes
    ----------
    cluster : ClusterFile
        What was asked.
    phase : str
        How far it got.
    instrumentation : str
        SHA-256 of the jar in its workers' class path; empty while it is not ready.
    left_out : tuple of str
        Roles that were asked for, and whose server the cache did not have.
    """

    cluster: ClusterFile
    phase: Phase
    instrumentation: str = ""
    left_out: tuple[str, ...] = ()

    @property
    def data_servers(self) -> tuple[str, ...]:
        """InfluxDB and Neo4j, as far as it has them."""
        return tuple(r for r in DATA_SERVERS if self.cluster.having(r) and r not in self.left_out)


def clusters_folder() -> Path:
    """Return where clusters are kept (``XDG_STATE_HOME``, else ``~/.local/state``)."""
    return user_folder("XDG_STATE_HOME", ".local/state") / "storm-harness" / "clusters"


def known() -> list[str]:
    """Return the names of the clusters there are, whole or half-provisioned."""
    return sorted(path.parent.name for path in clusters_folder().glob("*/cluster.json"))


class ProvisionedState:
    """The folder of one cluster.

    Parameters
    ----------
    name : str
        The cluster's name.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.folder = clusters_folder() / name

    @property
    def terraform(self) -> Path:
        """Terraform's root module and state."""
        return self.folder / "terraform"

    @property
    def ansible(self) -> Path:
        """Ansible's logs."""
        return self.folder / "ansible"

    @property
    def hosts(self) -> Path:
        """Pid files, locks and logs of hosts of kind local."""
        return self.folder / "hosts"

    @property
    def inventory(self) -> Path:
        """Ansible's inventory."""
        return self.folder / "inventory.yaml"

    @property
    def variables(self) -> Path:
        """Ansible's variables, of which no text is taken for a template."""
        literal = self.folder / "variables.yaml"
        return literal if literal.exists() else self.plain_variables  # of an earlier version's cluster

    @property
    def plain_variables(self) -> Path:
        """The same as JSON, for whoever else reads them."""
        return self.folder / "variables.json"

    @property
    def secrets(self) -> Path:
        """Ansible's variables that nobody else may read."""
        return self.folder / "secrets.json"

    @property
    def certificates(self) -> Certificates:
        """Certificates of its servers, and the authority that signed them."""
        return Certificates(self.folder / "tls", self.name)

    @property
    def certificate_values(self) -> Path:
        """Ansible's variables with the certificates and their keys."""
        return self.folder / "certificates.json"

    @property
    def trust(self) -> Trust:
        """Files by which its servers are known on this machine, and this machine to them."""
        own = self.certificates
        return Trust(own.certificate(), own.certificate(CONTROLLER), own.key(CONTROLLER))

    @property
    def storm_settings(self) -> Path:
        """Settings of Storm's by which Java programs of this machine reach Nimbus."""
        return self.folder / "storm.yaml"

    @property
    def known_hosts(self) -> Path:
        """The hosts' public keys, as ssh keeps them."""
        return self.folder / "known_hosts"

    def record(self) -> ClusterRecord:
        """Return the record of the cluster.

        Raises
        ------
        UsageError
            When there is nothing.
        """
        try:
            return ClusterRecord.model_validate_json(
                (self.folder / "cluster.json").read_text(encoding="utf-8")
            )
        except (FileNotFoundError, NotADirectoryError):
            others = ", ".join(known())
            hint = f"there are: {others}" if others else "harness provision CLUSTER.yaml makes one"
            raise UsageError(f"there is no cluster {self.name}", hint) from None
        except ValidationError:
            what = f"{self.folder / 'cluster.json'} is of another version of the harness"
            raise UsageError(what, "deprovision with the version that made it") from None

    def write(
        self, cluster: ClusterFile, phase: Phase, instrumentation: str = "", left_out: tuple[str, ...] = ()
    ) -> None:
        """Record how far a cluster is."""
        record = ClusterRecord(
            cluster=cluster, phase=phase, instrumentation=instrumentation, left_out=left_out
        )
        self._write("cluster.json", record.model_dump_json(indent=1) + "\n")

    def write_inventory(self, text: str) -> None:
        """Keep the inventory that the hosts' module wrote."""
        self._write("inventory.yaml", text)

    def write_addresses(self, addresses: dict[str, str]) -> None:
        """Keep the hosts' addresses within the cluster, by name."""
        self._write("addresses.json", json.dumps(addresses, indent=1) + "\n")

    def addresses(self) -> dict[str, str]:
        """Return the hosts' addresses within the cluster, by name.

        Raises
        ------
        UsageError
            When the hosts are not made yet.
        """
        try:
            text = (self.folder / "addresses.json").read_text(encoding="utf-8")
        except FileNotFoundError:
            raise UsageError(f"the hosts of {self.name} are not made yet", "harness provision") from None
        found: dict[str, str] = json.loads(text)
        return found

    def left(self) -> Left:
        """Return what runs have left on the cluster: of one that was killed, all that it made."""
        try:
            return Left.model_validate_json((self.folder / "left.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return Left()

    def write_left(self, left: Left) -> None:
        """Keep what is to be removed from the cluster."""
        self._write("left.json", left.model_dump_json(indent=1) + "\n")

    def write_variables(self, values: dict[str, object]) -> None:
        """Keep Ansible's variables."""
        self._write("variables.json", json.dumps(values, indent=1) + "\n")
        self._write("variables.yaml", literal_yaml(values) + "\n")

    def make_certificates(self, subjects: tuple[Holder, ...]) -> None:
        """Make what certificates are missing or not as asked, and keep them for Ansible, mode 0600."""
        there = self.certificates
        there.make((*subjects, Holder(CONTROLLER)))
        self._write("certificates.json", json.dumps(there.values(subjects)) + "\n")
        settings = nimbus_client(str(there.store()), str(there.store(CONTROLLER)), STORE_PASSWORD)
        self._write("storm.yaml", json.dumps(settings, indent=1) + "\n")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Let one command at a time change or use the cluster.

        Raises
        ------
        UsageError
            When another one does.
        """
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = self.folder / "lock"
        lock.touch()
        with held(lock, UsageError(f"another command uses the cluster {self.name}", "wait for it")):
            yield

    def key(self, cluster: ClusterFile) -> Path:
        """Return the private key that opens the hosts: the user's own, or one made for this cluster."""
        if isinstance(cluster.hosts, ExistingHosts):
            return cluster.hosts.ssh_key.expanduser().resolve()
        return self._key_pair("login")

    def host_key(self) -> Path:
        """Return the private key by which local hosts show who they are."""
        return self._key_pair("host")

    def make_secrets(self) -> None:
        """Write the secrets' file, mode 0600, or what is missing in it.

        Each is taken from the environment (``HARNESS_ZOOKEEPER_PASSWORD`` or the file that
        ``HARNESS_ZOOKEEPER_PASSWORD_FILE`` names ...), else drawn at random, and stays as long as the
        cluster.

        Raises
        ------
        UsageError
            When one that was given cannot be a password.
        """
        values: dict[str, str] = json.loads(secret_files.read(self.secrets)) if self.secrets.exists() else {}
        missing = [name for name in SECRETS if name not in values]
        for name in missing:
            variable = f"HARNESS_{name.upper()}"
            values[name] = secret_files.from_environment(variable) or secrets.token_hex(24)
            if not _SECRET.fullmatch(values[name]):
                raise UsageError(
                    f"{variable} cannot be a {name.rpartition('_')[2]}",
                    "give 8 or more letters, digits and ._~+/=-",
                )
        if missing:
            self._write("secrets.json", json.dumps(values) + "\n")

    def secret(self, name: str) -> str:
        """Return one of the secrets."""
        values: dict[str, str] = json.loads(secret_files.read(self.secrets))
        return values[name]

    def remove(self) -> None:
        """Forget the cluster."""
        shutil.rmtree(self.folder, ignore_errors=True)
        for parent in (clusters_folder(), clusters_folder().parent):
            if parent.is_dir() and not any(parent.iterdir()):
                parent.rmdir()

    def _key_pair(self, name: str) -> Path:
        path = self.folder / f"{name}_ed25519"
        if not path.exists():
            tool = shutil.which("ssh-keygen")
            if tool is None:
                raise MissingTool("there is no ssh-keygen on PATH", "apt-get install openssh-client")
            command = [tool, "-q", "-t", "ed25519", "-N", "", "-C", f"harness {self.name}", "-f", str(path)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise HarnessError(f"ssh-keygen: {done.stderr.strip()}")
        return path

    def _write(self, name: str, text: str) -> None:
        partial = self.folder / f"{name}.partial"
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        partial.rename(self.folder / name)
