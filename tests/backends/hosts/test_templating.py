"""A cluster's file is data: no text of it is a template of Ansible's or an option of ssh's."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from budgets import budget
from hypothesis import example, given, settings
from hypothesis import strategies as st

from harness.backends.hosts.state import ProvisionedState
from harness.backends.hosts.variables import literal_yaml, variables
from harness.errors import UsageError
from harness.experiments.cluster_file import load
from harness.machine.server_archive import ServerArchive
from harness.machine.ssh import Login

PLAYBOOK = """\
- hosts: localhost
  connection: local
  gather_facts: false
  tasks:
    - ansible.builtin.copy:
        content: "{{ {'own': 1} | combine(storm_settings) | to_json }}"
        dest: "{{ target }}"
    - ansible.builtin.debug:
        msg: "{{ ssh_options }} {{ controllers | join(', ') }}"
"""
"""As the role does that writes storm.yaml (``infra/ansible/roles/storm/defaults/main.yml``)."""


def cluster_text(key: Path, **changes: str) -> str:
    values = {
        "name": "c",
        "ssh_user": "u",
        "ssh_key": str(key),
        "controllers": "[192.0.2.9]",
        "machine": "control",
        "address": "192.0.2.1",
        "settings": "{}",
        **changes,
    }
    return """\
name: {name}
hosts:
  kind: existing
  ssh_user: {ssh_user}
  ssh_key: {ssh_key}
  controllers: {controllers}
  machines:
    - {{ name: {machine}, address: {address}, roles: [zookeeper, nimbus, kafka, supervisor] }}
storm: {{ settings: {settings} }}
""".format(**values)


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    path.touch()
    return path


def test_a_template_in_a_setting_reaches_the_hosts_as_it_is_written(
    tmp_path: Path, key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By ansible-playbook itself: the lookup would make a file."""
    program = Path(sys.executable).with_name("ansible-playbook")
    if not program.exists():
        pytest.skip("Ansible is not installed")
    evil = tmp_path / "evil"
    templates = {
        "topology.x": f"{{{{ lookup('pipe', 'touch {evil}') }}}}",
        "topology.list": [f"{{{{ lookup('pipe', 'touch {evil}') }}}}", "{% raw %}", "{# gone #}"],
    }
    file = tmp_path / "cluster.yaml"
    file.write_text(cluster_text(key, settings=json.dumps(templates)))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    state = ProvisionedState("c")
    archive = ServerArchive(tmp_path / "a.tar", "a", "v", 1)
    with state.locked():
        state.write_variables(variables(load(file), archive, {}, "-o A=b"))
    (tmp_path / "play.yml").write_text(PLAYBOOK)
    target = tmp_path / "storm.json"
    python = f"ansible_python_interpreter={sys.executable}"
    given = [part for value in (f"@{state.variables}", f"target={target}", python) for part in ("-e", value)]
    command = [str(program), "-i", "localhost,", *given]
    home = {"ANSIBLE_HOME": str(tmp_path / "home"), "ANSIBLE_LOCALHOST_WARNING": "False"}
    played = subprocess.run(
        [*command, str(tmp_path / "play.yml")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **home},
    )
    assert played.returncode == 0, played.stdout + played.stderr
    written = json.loads(target.read_text())
    assert {name: written[name] for name in templates} == templates
    assert not evil.exists()


TEXTS = st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(
    ["", "7", "1.5", "yes", "null", "~", "2024-01-01", "0x1f", "1e3", "{{ 1 }}", "{% raw %}", "- a", "a: b"]
)


@settings(max_examples=budget(200), deadline=None)
@given(
    st.dictionaries(
        st.text('abc.\u00e9{"\\', max_size=5),
        st.recursive(
            TEXTS | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | st.booleans() | st.none(),
            lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=3),
            max_leaves=12,
        ),
        max_size=5,
    )
)
@example({"long": {"\x1f" * 200: "a key of more than 1,024 characters when it is escaped"}})
def test_ansible_reads_every_text_as_it_was_and_takes_none_for_a_template(values: dict[str, object]) -> None:
    """By Ansible's own loader, as it reads a file of variables."""
    dataloader = pytest.importorskip("ansible.parsing.dataloader", reason="Ansible is not installed")
    template = pytest.importorskip("ansible.template")

    def require_same(read: object, written: object) -> None:
        if isinstance(written, dict):
            assert isinstance(read, dict)
            assert list(read) == list(written)
            for key, inner in written.items():
                require_same(read[key], inner)
        elif isinstance(written, list):
            assert isinstance(read, list)
            for one, other in zip(read, written, strict=True):
                require_same(one, other)
        else:
            assert read == written
            assert read is written or isinstance(read, type(written))
            assert not isinstance(read, str) or not template.is_trusted_as_template(read)

    require_same(dataloader.DataLoader().load(template.trust_as_template(literal_yaml(values))), values)


# -- what a cluster's file may say ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"ssh_user": '"-oProxyCommand=touch /tmp/PWNED;false #"'}, "hosts.ssh_user"),
        ({"ssh_user": '"{{ lookup(1) }}"'}, "hosts.ssh_user"),
        ({"ssh_user": '"a b"'}, "hosts.ssh_user"),
        ({"ssh_user": '"u\\n"'}, "hosts.ssh_user"),
        ({"controllers": '["192.0.2.1 }; flush ruleset; {"]'}, "hosts.controllers.0"),
        ({"controllers": '["192.0.2.0/24"]'}, "hosts.controllers.0"),
        ({"address": '"192.0.2.1 evil"'}, "hosts.machines.0.address"),
        ({"address": '"-oProxyCommand=x"'}, "hosts.machines.0.address"),
        ({"address": '"{{ 1 }}"'}, "hosts.machines.0.address"),
        ({"address": "host.example"}, "hosts.machines.0.address"),
        ({"address": '"::1"'}, "hosts.machines.0.address"),
        ({"machine": '"-x"'}, "hosts.machines.0.name"),
        ({"machine": '"a;b"'}, "hosts.machines.0.name"),
        ({"name": '"../c"'}, "name"),
        ({"settings": '{"{{ 1 }}": 1}'}, "storm.settings"),
        ({"settings": '{"a\\nb": 1}'}, "storm.settings"),
    ],
)
def test_names_and_addresses_that_are_none_are_refused_in_one_line(
    tmp_path: Path, key: Path, changes: dict[str, str], named: str
) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(cluster_text(key, **changes))
    with pytest.raises(UsageError) as refused:
        load(file)
    assert str(refused.value).startswith(f"{file}: {named}")
    assert "\n" not in str(refused.value)
    file.write_text(cluster_text(key))
    load(file)  # only that was wrong


@pytest.mark.parametrize("name", ["k -o ProxyCommand=x", "k;touch x", "k$(x)", "k'", "%h"])
def test_a_key_s_path_that_ssh_would_take_apart_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    file = tmp_path / "cluster.yaml"
    file.write_text(cluster_text(tmp_path / "key", ssh_key=json.dumps(str(tmp_path / name))))
    with pytest.raises(UsageError, match=r"hosts\.ssh_key: no path with "):
        load(file)
    linked = tmp_path / "linked"
    linked.symlink_to(tmp_path / name)
    file.write_text(cluster_text(linked))
    with pytest.raises(UsageError, match=r"hosts\.ssh_key: ssh cannot be given the path"):
        load(file)


@pytest.mark.skipif(shutil.which("ssh") is None, reason="there is no ssh here")
def test_what_a_user_is_called_is_no_option_of_ssh_s(tmp_path: Path) -> None:
    """The command as it is given, for a record that an earlier version took."""
    evil = tmp_path / "evil"
    login = Login(f"-oProxyCommand=touch {evil};false #", tmp_path / "key", tmp_path / "known")
    command = login.command("127.0.0.1", "true")
    done = subprocess.run(command, capture_output=True, check=False, timeout=60, stdin=subprocess.DEVNULL)
    assert done.returncode != 0
    assert not evil.exists()
