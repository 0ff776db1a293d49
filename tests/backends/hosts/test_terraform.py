"""The Terraform modules, run for real where that is possible, and how failures are told."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness.backends.hosts import terraform
from harness.backends.hosts.terraform import Terraform, error_in, infra_folder
from harness.errors import ClusterError, HarnessError

HOSTS = infra_folder() / "terraform" / "hosts"
IMPLEMENTATIONS = ("local", "existing", "openstack", "hetzner")


def tool() -> list[str]:
    try:
        return terraform.tool()
    except HarnessError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("name", IMPLEMENTATIONS[1:])
def test_the_interface_is_the_same_everywhere(name: str) -> None:
    interface = (HOSTS / "local" / "interface.tf").read_text()
    assert (HOSTS / name / "interface.tf").read_text() == interface


def test_the_modules_are_formatted() -> None:
    done = subprocess.run(
        [*tool(), f"-chdir={HOSTS.parent}", "fmt", "-recursive", "-check", "-diff"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", ["local", "existing"])
def test_terraform_test(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("CHECKPOINT_DISABLE", "1")
    for command in (["init", "-input=false"], ["test", "-no-color"]):
        done = subprocess.run(
            [*tool(), f"-chdir={HOSTS / name}", *command], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert "0 failed" in done.stdout
    assert not (HOSTS / name / ".terraform.lock.hcl").exists()


def inputs(**machine: object) -> dict[str, object]:
    return {
        "cluster": "ours",
        "machines": [{"name": "control", "roles": ["nimbus"], **machine}],
        "ssh": {"user": "debian", "public_key": ""},
    }


def test_hosts_that_exist(tmp_path: Path) -> None:
    tool()
    hosts = Terraform(tmp_path / "state", "existing")
    assert not hosts.made
    assert hosts.apply(inputs(address="192.0.2.1"))
    assert hosts.outputs()["hosts"] == {
        "control": {"address": "192.0.2.1", "ssh_address": "192.0.2.1", "roles": ["nimbus"]}
    }
    assert hosts.resources() == ["terraform_data.addresses"]
    assert not hosts.apply(inputs(address="192.0.2.1"))  # nothing to do
    assert hosts.apply(inputs(address="192.0.2.2"))
    hosts.destroy()
    assert hosts.resources() == []


def test_what_terraform_refuses_is_one_line(tmp_path: Path) -> None:
    tool()
    with pytest.raises(ClusterError) as raised:
        Terraform(tmp_path, "existing").apply(inputs(size="gigantic", address="192.0.2.1"))
    message = str(raised.value)
    assert "\n" not in message
    assert "a size is small, medium or large" in message
    assert str(tmp_path / "terraform.log") in message


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("Error: Unsupported argument\n\n  on main.tf line 3:\n", "Unsupported argument"),
        (
            "│ Error: local-exec provisioner error\n│ \n│   with module.hosts,\n│ \n"
            "│ Error running command 'bash': exit status 1. Output: there is no ip here\n│ \n",
            "there is no ip here",
        ),
        (
            "Error: local-exec provisioner error\n\nError running command: exit status 1. Output: not up\n"
            "after 60 s: fail: sshd\n\nError: local-exec provisioner error\n",
            "not up after 60 s: fail: sshd",
        ),
        (
            "Error: Invalid value for variable\n\n  on main.tf.json line 3\n\n"
            "machines: two have the same name.\n\n"
            "This was checked by the validation rule at interface.tf:30.\n",
            "Invalid value for variable: machines: two have the same name.",
        ),
        ("panic: something\n", "panic: something"),
        ("", "it said nothing"),
    ],
)
def test_the_cause_in_terraforms_output(output: str, expected: str) -> None:
    assert error_in(output) == expected
