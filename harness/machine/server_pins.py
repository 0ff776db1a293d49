"""The SHA-256 of every jar of the servers, pinned in this repository and compared before they are started.

Maven's own checksums come from the place of the jars, and the cache's list lies beside the jars. The sums
pinned here were reviewed with the poms. All jars are read each time, half a second for 245 MB. Nothing is
remembered of the sizes and times of files, because whoever changes a jar can set those.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path

from harness.errors import HarnessError

READERS = 2
"""Threads that read and hash; more are no faster on two cores."""
_LINE = re.compile(r"([0-9a-f]{64})  (\S.*)")


def pinned(name: str) -> Mapping[str, str]:
    """Return jar -> SHA-256 of a set of servers, as ``sha256sum`` writes it.

    Parameters
    ----------
    name : str
        ``storm-kafka`` or ``neo4j``; the file is ``harness/assets/servers/NAME.sha256``.
    """
    return read_pins((files("harness") / "assets" / "servers" / f"{name}.sha256").read_text(encoding="ascii"))


def read_pins(text: str) -> Mapping[str, str]:
    """Return jar -> SHA-256 as ``sha256sum`` writes it.

    Examples
    --------
    >>> read_pins("0" * 64 + "  lib/a.jar")["lib/a.jar"][:4]
    '0000'
    """
    lines = [_LINE.fullmatch(line) for line in text.splitlines()]
    return {line[2]: line[1] for line in lines if line is not None}


def purls() -> Mapping[str, str]:
    """Return jar's name -> package URL of every pinned jar, as Maven's repository has it."""
    listed = (files("harness") / "assets" / "servers" / "purls.txt").read_text(encoding="ascii").splitlines()
    return {jar_of(purl): purl for purl in listed}


def jar_of(purl: str) -> str:
    """Return the file's name of a Maven artifact.

    Examples
    --------
    >>> jar_of("pkg:maven/io.netty/netty-transport-native-epoll@4.1.137.Final?classifier=linux-x86_64")
    'netty-transport-native-epoll-4.1.137.Final-linux-x86_64.jar'
    """
    at, _, classifier = purl.rpartition("/")[2].partition("?classifier=")
    return "-".join(filter(None, (*at.split("@"), classifier))) + ".jar"


def sha256_of(root: Path) -> dict[str, str]:
    """Return jar -> SHA-256 of every jar below a folder."""
    jars = sorted(path for path in root.rglob("*") if path.suffix.lower() == ".jar")
    with ThreadPoolExecutor(READERS) as readers:
        digests = list(readers.map(_sha256, jars))
    return {path.relative_to(root).as_posix(): digest for path, digest in zip(jars, digests, strict=True)}


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def require_pinned(root: Path, expected: Mapping[str, str]) -> None:
    """Raise HarnessError unless the jars below a folder are the pinned ones, no fewer and no others.

    Parameters
    ----------
    root : Path
        A folder of class paths; a jar more would be on one of them.
    expected : mapping
        Jar -> SHA-256.

    Raises
    ------
    HarnessError
        Naming the first jar that is not as pinned.
    """
    try:
        actual = sha256_of(root)
    except OSError as error:
        raise HarnessError(f"{error.filename}: cannot be read: {error.strerror}", f"remove {root}") from None
    for name in sorted(expected.keys() | actual.keys()):
        if name not in actual:
            what = "is missing"
        elif name not in expected:
            what = "is none of the pinned jars"
        elif actual[name] != expected[name]:
            what = f"its SHA-256 is {actual[name][:16]}..., not the pinned {expected[name][:16]}..."
        else:
            continue
        raise HarnessError(f"{root / name}: {what}", f"remove {root}, and it is fetched anew")
