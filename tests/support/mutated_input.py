"""Input that somebody got wrong, or made to do harm: mutations of texts and trees that are right."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from copy import deepcopy
from typing import Any

NASTY_TEXTS = (
    "",
    " ",
    "\n",
    "\x00",
    "\x1b[2J",
    "\ud800",
    "../../evil",
    "/etc/shadow",
    "-oProxyCommand=touch evil",
    "--help",
    "{{ lookup('pipe', 'touch evil') }}",
    "${jndi:ldap://127.0.0.1/a}",
    "$(touch evil)",
    "'; touch evil; '",
    "~nobody/x",
    "a" * 5000,
    "é\u202e\u0000",
    "NaN",
    "127.0.0.1:0",
    "<script>",
)
NASTY_VALUES: tuple[object, ...] = (
    *NASTY_TEXTS,
    None,
    True,
    0,
    -1,
    1,
    2**31,
    2**63,
    2**64,
    -(2**63) - 1,
    10**400,
    0.0,
    -0.0,
    1e-320,
    1e308,
    float("inf"),
    float("nan"),
    [],
    {},
    [[]],
    {"": ""},
    {"a": {"b": {"c": 1}}},
    [1] * 1000,
    ["x", 1, None],
)
NASTY_YAML = (
    "a: &a [*a, *a]\n",
    "!!python/object/apply:os.system ['touch evil']\n",
    "a: !!binary '###'\n",
    "a: 2024-13-45\n",
    "a: 1:99:99\n",
    "? [a, b]\n: 1\n",
    "<<: *none\n",
    "%YAML 9.9\n---\n",
    "---\na: 1\n---\nb: 2\n",
    "a: 'x\n",
    "\t- tab\n",
    "a: |\n",
    "a: 0x" + "f" * 5000 + "\n",
    "a: " + "9" * 5000 + "\n",
    "[" * 2000 + "\n",
    "{a: " * 500 + "\n",
    "\ufeff\ufeff",
    "a: 1\na: 2\n",
    "a: &b {<<: *b}\n",
    "".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9) if n else 'lol'}]\n" for n in range(12)),
)
"""Parts of files; the last is twelve lines that stand for 9^11 values."""


def mutated_tree(tree: Any, rng: random.Random) -> Any:
    """Return a copy of a tree with one to three parts replaced, removed, moved or added."""
    copy = json.loads(json.dumps(tree))
    for _ in range(rng.randint(1, 3)):
        places = list(_places(copy))
        if not places:
            break
        node, key = rng.choice(places)
        kind = rng.randrange(5)
        if kind <= 1:
            node[key] = deepcopy(rng.choice(NASTY_VALUES))  # a later change must not reach the list
        elif kind == 2:
            del node[key]
        elif kind == 3 and isinstance(node, dict):
            node[rng.choice([t for t in NASTY_TEXTS if isinstance(t, str)])] = node.pop(key)
        else:
            other, place = rng.choice(places)
            try:
                node[key] = json.loads(json.dumps(other[place]))
            except (KeyError, IndexError, ValueError):
                node[key] = None
    return copy


def _places(node: Any) -> Any:
    """Every parent and key below a node."""
    if isinstance(node, dict):
        for key in list(node):
            yield node, key
            yield from _places(node[key])
    elif isinstance(node, list):
        for place in range(len(node)):
            yield node, place
            yield from _places(node[place])


def mutated_text(text: str, rng: random.Random) -> bytes:
    """Return a text with one to four places cut, doubled, replaced or filled, some of it no UTF-8."""
    contents = text.encode()
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(contents) + 1)
        to = min(len(contents), at + rng.randrange(1, 60))
        ways: tuple[Callable[[], bytes], ...] = (
            lambda: contents[:at] + contents[to:],  # noqa: B023 (called at once)
            lambda: contents[:to] + contents[at:],  # noqa: B023
            lambda: contents[:at] + bytes([rng.randrange(256)]) + contents[at + 1 :],  # noqa: B023
            lambda: contents[:at] + rng.choice(NASTY_TEXTS).encode(errors="surrogatepass") + contents[at:],  # noqa: B023
            lambda: _with_line(contents, rng.choice(NASTY_YAML).encode(), rng),  # noqa: B023
            lambda: _without_line(contents, rng),  # noqa: B023
        )
        contents = rng.choice(ways)()
    return contents


def _with_line(contents: bytes, line: bytes, rng: random.Random) -> bytes:
    lines = contents.splitlines(keepends=True)
    lines.insert(rng.randrange(len(lines) + 1), line)
    return b"".join(lines)


def _without_line(contents: bytes, rng: random.Random) -> bytes:
    lines = contents.splitlines(keepends=True)
    if lines:
        del lines[rng.randrange(len(lines))]
    return b"".join(lines)
