"""Counts sentences that are hard to read, in README, docs and docstrings; none of the counts may grow.

python scripts/prose.py             # compare with reports/prose.json; exit status 1 where there is more
python scripts/prose.py --list      # and show each, with its file
python scripts/prose.py --keep      # write today's counts, when they are smaller

A sentence has at most 30 words and one colon. It says the thing instead of "what ... of", "is told", "there
is none". A docstring does not begin with What, Whether, How or Of.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import click

ROOT = Path(__file__).resolve().parent.parent
COUNTS = ROOT / "reports" / "prose.json"
MOST_WORDS = 30
CODE = re.compile(r"```.*?```|``[^`]*``|`[^`]*`|<[^>]+>|https?://\S+", flags=re.DOTALL)
MADE = re.compile(r"<!-- (?!end of)([^>]+) -->\n.*?<!-- end of \1 -->", flags=re.DOTALL)
"""Made from docstrings, which are counted themselves."""
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
PHRASES = {
    "what ... of": re.compile(r"\bwhat\b[^.,;:]{0,40}\bof\b", flags=re.IGNORECASE),
    "is told": re.compile(r"\bis told\b", flags=re.IGNORECASE),
    "there is none": re.compile(r"\bthere is none\b", flags=re.IGNORECASE),
}
FIRST_WORDS = re.compile(r"(What|Whether|How|Of)\b")


class Fault(NamedTuple):
    """A rule that a sentence breaks."""

    rule: str
    sentence: str


def sentences(text: str) -> Iterator[str]:
    r"""Yield the sentences of prose in Markdown or a docstring; tables, headings and code are none.

    >>> list(sentences("One: two. Three `a: b`.\n\n| a | b |\n"))
    ['One: two', 'Three x.']
    """
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*|#>]|\d+\.) )", CODE.sub("x", LINK.sub(r"\1", text))):
        plain = re.sub(r"^\s*(?:[-*]|\d+\.) ", "", block)
        if plain.lstrip().startswith(("|", "#", ">>>", "---")):
            continue
        yield from (part for part in re.split(r"[.?!]\s+(?=[A-Z`\"(*])", " ".join(plain.split())) if part)


def faults(text: str) -> Iterator[Fault]:
    """Yield what is wrong with a text."""
    for sentence in sentences(text):
        if len(re.findall(r"[\w'%-]+", sentence)) > MOST_WORDS:
            yield Fault("more than 30 words", sentence)
        if sentence.count(":") > 1:
            yield Fault("two colons", sentence)
        for rule, phrase in PHRASES.items():
            if phrase.search(sentence):
                yield Fault(rule, sentence)


def docstrings(path: Path) -> Iterator[str]:
    """Yield docstrings, of attributes too: their summaries and paragraphs, not their numpydoc sections."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        texts = [ast.get_docstring(node)] if isinstance(node, kinds) else []
        if isinstance(node, ast.Module | ast.ClassDef):
            texts += [_attribute_docstring(*two) for two in pairwise(node.body)]
        yield from (re.split(r"\n\w[\w ]*\n-{3,}", text)[0] for text in texts if text)


def _attribute_docstring(assignment: ast.stmt, after: ast.stmt) -> str | None:
    match assignment, after:
        case ast.Assign() | ast.AnnAssign(), ast.Expr(ast.Constant(str(text))):
            return inspect.cleandoc(text)
    return None


def found() -> Iterator[tuple[Path, Fault]]:
    """Yield each fault with its file."""
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        yield from ((path, fault) for fault in faults(MADE.sub("", path.read_text(encoding="utf-8"))))
    for path in sorted((ROOT / "harness").rglob("*.py")):
        for text in docstrings(path):
            yield from ((path, fault) for fault in faults(text))
            if FIRST_WORDS.match(text):
                yield path, Fault("begins with What, Whether, How or Of", text.splitlines()[0])


def main() -> int:
    """Count, and compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    every = list(found())
    if options.list:
        for path, fault in every:
            click.echo(f"{path.relative_to(ROOT)}: {fault.rule}: {fault.sentence[:200]}")
    counts = Counter(
        f"{'docstrings' if path.suffix == '.py' else 'pages'}: {fault.rule}" for path, fault in every
    )
    kept = json.loads(COUNTS.read_text(encoding="utf-8")) if COUNTS.is_file() else dict(counts)
    more = {rule: count for rule, count in counts.items() if count > kept.get(rule, 0)}
    for rule, count in sorted(counts.items()):
        click.echo(f"{rule}: {count} (at most {kept.get(rule, 0)})")
    if options.keep and not more:
        COUNTS.write_text(json.dumps(dict(sorted(counts.items())), indent=2) + "\n", encoding="utf-8")
    return 1 if more else 0


if __name__ == "__main__":
    sys.exit(main())
