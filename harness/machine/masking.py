"""Secrets in settings: recognised by their names, and left out of whatever a run keeps.

A run directory is bundled, archived and published. So a password is masked in it, whether given by ``--set``,
as a jar's argument, or as a setting of Storm or Kafka. Where a server's log repeats the password, the log is
masked, too.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

MASK = "<secret>"
"""Stands for a secret in what is kept."""
LEAST_CHARACTERS = 4
"""A shorter secret is masked where it is set, but not looked for in logs: it would be everywhere."""
KEYS = "keys"
"""A mapping whose keys name no settings."""
_NAME = re.compile(
    r"(?:^|[._-])(?:pass(?:word|wd|phrase)?|pwd|secret|token|credentials?"
    r"|(?:api|access|private|secret|account)[._-]?key|jaas[._-]config)$",
    re.IGNORECASE,
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_USER_INFO = re.compile(r"(?<=://)([^/\s:@]*):([^/\s@]+)(?=@)")
_PARAMETER = re.compile(
    r"""(?P<head>(?:^|[?&;,\s({])["']?(?P<name>[\w.-]+)["']?\s*[=:]\s*["']?)(?P<value>[^&;,\s"'(){}]+)"""
)
"""A setting within a text: of a URL's query, of JDBC or JAAS options, of a list of properties."""
_PROPERTY = re.compile(r"^(?:-D|-+)?(?P<name>[^=\s]+)=(?P<value>.*)$", re.DOTALL)


def looks_secret(name: str) -> bool:
    """Return whether a setting's value is a secret, going by its name.

    Examples
    --------
    >>> looks_secret("ssl.keystore.password"), looks_secret("apiKey"), looks_secret("INFLUXDB_TOKEN")
    (True, True, True)
    >>> looks_secret("key.serializer"), looks_secret("delegation.token.max.lifetime.ms")
    (False, False)
    """
    return _NAME.search(_CAMEL.sub(".", name)) is not None


class SecretMask:
    """Masks secrets where they are set, and remembers them, to find them in texts.

    Examples
    --------
    >>> mask = SecretMask()
    >>> mask.tree({"sink": {"db.password": "hunter2", "batch": 3}})
    {'sink': {'db.password': '<secret>', 'batch': 3}}
    >>> mask.text("login with hunter2 refused")
    'login with <secret> refused'
    """

    def __init__(self) -> None:
        self._known: set[str] = set()

    @classmethod
    def of(cls, settings: object, arguments: Sequence[str] = ()) -> SecretMask:
        """Return a mask that knows the secrets of settings, of a command line and of the environment."""
        mask = cls()
        mask.tree(settings)
        mask.arguments(arguments)
        for name, value in os.environ.items():
            if looks_secret(name):
                mask._remember(value)
        return mask

    def tree(self, value: object, name: str = "") -> object:
        """Return settings with every text masked whose name or shape says that it is a secret.

        Numbers, too, but for the weights of a workload's keys, whose names are data. The texts of a list are
        taken for arguments.
        """
        if looks_secret(name) and isinstance(value, int | float) and not isinstance(value, bool):
            return self._hidden(str(value))
        if isinstance(value, str):
            return self._hidden(value) if looks_secret(name) else self._without_shapes(value)
        if isinstance(value, Mapping):
            return {key: self.tree(inner, "" if name == KEYS else str(key)) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            pairs = zip(value, ("", *value), strict=False)
            return [
                self._element(inner, before)
                if isinstance(inner, str) and not looks_secret(name)
                else self.tree(inner, name)
                for inner, before in pairs
            ]
        return value

    def arguments(self, given: Sequence[str]) -> list[str]:
        """Return a command line with secrets masked, as in ``--password X`` and ``--set a.token=X``."""
        return [
            self._element(argument, before) for argument, before in zip(given, ("", *given), strict=False)
        ]

    def text(self, text: str) -> str:
        """Return a text with every known secret masked."""
        for secret in sorted(self._known, key=len, reverse=True):
            text = text.replace(secret, MASK)
        return text

    def line(self, line: bytes) -> bytes:
        """Return a log's line with every known secret masked."""
        for secret in sorted(self._known, key=len, reverse=True):
            line = line.replace(secret.encode(), MASK.encode())
        return line

    def _element(self, argument: str, before: object) -> str:
        """Return an argument masked, given the one before it."""
        named = isinstance(before, str) and before.startswith("-") and "=" not in before
        return self._hidden(argument) if named and looks_secret(str(before)) else self._argument(argument)

    def _argument(self, argument: str) -> str:
        matched = _PROPERTY.match(argument)
        if matched is None:
            return self._without_shapes(argument)
        head, value = argument[: matched.start("value")], matched["value"]
        if matched["name"] == "set":  # --set=KEY=VALUE
            return head + self._argument(value)
        if looks_secret(matched["name"]):
            return head + self._hidden(value)
        try:
            parsed = YAML(typ="safe").load(value) if value[:1] in ("[", "{") else None
        except YAMLError:
            parsed = None
        if isinstance(parsed, dict | list) and (hidden := self.tree(parsed)) != parsed:
            return head + json.dumps(hidden, default=str)
        return head + self._without_shapes(value)

    def _hidden(self, secret: str) -> str:
        self._remember(secret)
        return MASK

    def _without_shapes(self, text: str) -> str:
        """Return a text without the passwords of its URLs, and without its parameters that look secret."""
        for matched in _USER_INFO.finditer(text):
            self._remember(matched[2])
        text = _USER_INFO.sub(rf"\1:{MASK}", text)
        return _PARAMETER.sub(self._parameter, text)

    def _parameter(self, matched: re.Match[str]) -> str:
        if not looks_secret(matched["name"]):
            return matched[0]
        return matched["head"] + self._hidden(matched["value"])

    def _remember(self, secret: str) -> None:
        if len(secret) >= LEAST_CHARACTERS and secret != MASK:
            self._known.add(secret)
            self._known.add(json.dumps(secret)[1:-1])  # as a file of settings has it


def masked_keys(value: object, parents: tuple[str, ...] = (), whole_below: Sequence[str] = ()) -> list[str]:
    """Return the dotted keys whose values were masked, in the order of the settings.

    Directly below ``whole_below`` a value counts as one, whatever is in it.

    Examples
    --------
    >>> masked_keys({"topology": {"args": ["-u", "a", "--password=<secret>"]}})
    ['topology.args.2']
    """
    if isinstance(value, str):
        return [".".join(parents)] if MASK in value else []
    if isinstance(value, Mapping):
        inner = [(str(key), part) for key, part in value.items()]
    elif isinstance(value, list | tuple):
        inner = [(str(place), part) for place, part in enumerate(value)]
    else:
        return []
    found = [key for name, part in inner for key in masked_keys(part, (*parents, name), whole_below)]
    return [".".join(parents)] if found and ".".join(parents[:-1]) in whole_below else found
