"""A user, folders, files and links in one task: to start a module on a host takes longer than what it does.

    placed:
      user: kafka                           # a system user that cannot log in
      folders: [{path: /etc/x, owner: kafka, mode: "0750"}]
      files: [{path: /etc/x/a, content: "...", owner: kafka, mode: "0400"}]
      links: [{path: /etc/service/x, target: /etc/sv/x}]
      stale: [/etc/stale/x]                 # made when a file is written: who read it has to start anew

What is as it should be stays untouched, as do owner and mode where none are given. Of a file with
``part: true`` only the lines between two marks are ours, as with ``ansible.builtin.blockinfile``; one with
``at_start: false`` makes nothing stale; the contents of one with ``encoded: true`` are given in base 64.
Contents are shown nowhere.
"""

from __future__ import annotations

import base64
import os
import pwd
from collections.abc import Mapping

from ansible.module_utils.basic import AnsibleModule

BEGIN, END = "# BEGIN harness\n", "# END harness\n"


def with_part(text: str, part: str) -> str:
    """Return a text in which the lines between the marks are these; at its end when it has no marks."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        before, after = text if text.endswith("\n") or not text else f"{text}\n", ""
    return f"{before}{BEGIN}{part}{END}{after}"


class Host:
    """What is done to this host; ``changed`` names it."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.changed: list[str] = []

    def user(self, name: str) -> None:
        """Make a user of the system."""
        try:
            pwd.getpwnam(name)
        except KeyError:
            command = ["useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", name]
            self.module.run_command(command, check_rc=True)
            self.changed.append(f"user {name}")

    def folder(self, path: str, owner: str | None, mode: str | None) -> None:
        """Make a folder."""
        if not os.path.isdir(path):
            os.makedirs(path)
            self.changed.append(path)
        self._belongs(path, owner, mode)

    def file(
        self,
        path: str,
        content: str,
        owner: str | None,
        mode: str | None,
        part: bool,
        stale: list[str],
    ) -> None:
        """Write a file when its contents are others; those who are stale then are told before it is there."""
        there = _contents(path)
        wanted = with_part(there or "", content) if part else content
        if there != wanted:
            new = f"{path}.harness-new"
            _write(new, wanted)
            for mark in stale:
                os.makedirs(os.path.dirname(mark), exist_ok=True)
                _write(mark, "")
            if there is None:  # root's alone until it has its owner
                os.replace(new, path)
            else:
                self.module.atomic_move(new, path)
            self.changed.append(path)
        self._belongs(path, owner, mode or ("0644" if there is None else None))

    def link(self, path: str, target: str) -> None:
        """Make a symbolic link."""
        if not os.path.islink(path) or os.readlink(path) != target:
            if os.path.lexists(path):
                os.remove(path)
            os.symlink(target, path)
            self.changed.append(path)

    def _belongs(self, path: str, owner: str | None, mode: str | None) -> None:
        changed = self.module.set_owner_if_different(path, owner, False)
        if self.module.set_mode_if_different(path, mode, changed) and path not in self.changed:
            self.changed.append(path)


def _contents(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as there:
            return there.read()
    except FileNotFoundError:
        return None


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w", encoding="utf-8", errors="surrogateescape", newline="") as to:
        to.write(text)
    os.utime(path)


def main() -> None:
    """Be the module."""
    path = {"type": "path", "required": True}
    access = {"path": path, "owner": {"type": "str"}, "mode": {"type": "str"}}
    contents = {
        "content": {"type": "str", "required": True, "no_log": True},
        "part": {"type": "bool", "default": False},
        "at_start": {"type": "bool", "default": True},
        "encoded": {"type": "bool", "default": False},
    }
    lists: Mapping[str, Mapping[str, object]] = {
        "folders": access,
        "files": {**access, **contents},
        "links": {"path": path, "target": path},
    }
    spec: dict[str, dict[str, object]] = {
        name: {"type": "list", "elements": "dict", "options": options, "default": []}
        for name, options in lists.items()
    }
    spec["user"] = {"type": "str"}
    spec["stale"] = {"type": "list", "elements": "path", "default": []}
    module = AnsibleModule(spec)
    asked = module.params
    host = Host(module)
    try:
        if asked["user"]:
            host.user(asked["user"])
        for folder in asked["folders"]:
            host.folder(**folder)
        for given in asked["files"]:
            file = dict(given)  # what was given is part of the answer, which takes no bytes
            stale = asked["stale"] if file.pop("at_start") else []
            if file.pop("encoded"):
                file["content"] = base64.b64decode(file["content"]).decode("utf-8", errors="surrogateescape")
            host.file(**file, stale=stale)
        for link in asked["links"]:
            host.link(**link)
    except OSError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=bool(host.changed), placed=host.changed)


if __name__ == "__main__":
    main()
