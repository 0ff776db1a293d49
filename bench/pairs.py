"""Times another version of the models beside this one: one prediction, one move, the simulator.

    git worktree add ../before COMMIT
    python bench/pairs.py ../before [--rounds 5]

Each round runs the figures of ``bench/models.py`` in a new process of either version, and which is first
alternates. What is printed is the quotient of a round's two CPU times: whatever else the machine does in that
round slows both.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import click
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
CHILD = """
import sys
sys.path.insert(0, "bench")
import models
models.rivals = lambda *_: None
models.line_network = lambda *_: sys.exit()  # behind our simulator are others'
models.thousand()
models.simulators()
"""
FIGURES = {
    "one prediction with percentiles": "one prediction, 1,000 executors",
    "with intervals": "the same with intervals",
    "one executor moved, median": "one executor moved",
    "simulator,": "simulator",
}
"""Beginnings of the lines that are compared, and what is printed of each."""
LINE = re.compile(r"^\s*(.+): ([\d.]+) ms", re.MULTILINE)


def figures_ms(tree: Path) -> dict[str, float]:
    """Return a version's figures, by name."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD],
        cwd=tree,
        env=os.environ | {"PYTHONPATH": str(tree)},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    found = {
        name: float(value)
        for what, value in LINE.findall(done.stdout)
        for begins, name in FIGURES.items()
        if what.startswith(begins)
    }
    if missing := FIGURES.values() - found.keys():
        raise click.ClickException(f"{tree}: no figure of {', '.join(sorted(missing))}")
    return found


@click.command()
@click.argument("before", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1))
def main(before: Path, rounds: int) -> None:
    """Print a table: CPU time of BEFORE and of this version, and the quotients of all rounds."""
    figures_ms(before.resolve()), figures_ms(ROOT)  # machine code is made, and kept
    seen: dict[Path, list[dict[str, float]]] = {before.resolve(): [], ROOT: []}
    for number in range(rounds):
        for tree in sorted(seen, key=lambda tree: (tree == ROOT) == (number % 2 == 0)):
            seen[tree].append(figures_ms(tree))
        click.echo(f"round {number + 1} of {rounds}", err=True)
    click.echo("| | before, ms | now, ms | now / before: median (least to most) |\n| --- | --- | --- | --- |")
    for name in FIGURES.values():
        old, new = (np.array([figures[name] for figures in of]) for of in seen.values())
        quotients = new / old
        click.echo(
            f"| {name} | {np.median(old):.3g} | {np.median(new):.3g}"
            f" | {np.median(quotients):.3f} ({quotients.min():.3f} to {quotients.max():.3f}) |"
        )


if __name__ == "__main__":
    main()
