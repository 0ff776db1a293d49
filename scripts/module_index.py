"""Writes the reading order of docs/architecture.md: every module with the first line of its docstring.

Usage: ``python scripts/module_index.py [--check]``.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from marks import replaced

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "architecture.md"


def order() -> tuple[str, ...]:
    """Return the rooms from the bottom up, as the architecture's test asserts them."""
    tree = ast.parse((ROOT / "tests" / "test_architecture.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "ROOMS":
            return tuple(n.value for n in ast.walk(node.value) if isinstance(n, ast.Constant))
    raise SystemExit("tests/test_architecture.py has no ROOMS")


def sentence(path: Path) -> str:
    """Return the first line of a module's docstring."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0]


def index() -> str:
    """Return the list, a heading a room."""
    harness = ROOT / "harness"
    lines = []
    for room in order():
        single = harness / f"{room}.py"
        if single.is_file():
            lines.append(f"- `{single.relative_to(harness)}`: {sentence(single)}")
            continue
        folder = harness / room
        if not folder.is_dir():
            continue
        lines += ["", f"**`{room}/`**: {sentence(folder / '__init__.py')}", ""]
        for path in sorted(folder.rglob("*.py"), key=lambda p: (len(p.relative_to(folder).parts) > 1, p)):
            if path.name == "__init__.py":
                if path.parent != folder:
                    lines.append(f"- `{path.parent.relative_to(harness)}/`: {sentence(path)}")
                continue
            lines.append(f"- `{path.relative_to(harness)}`: {sentence(path)}")
        lines.append("")
    return "\n".join(lines).strip() + "\n"


def main() -> None:
    """Write the page, or with ``--check`` end with 1 when that would change it."""
    text = PAGE.read_text(encoding="utf-8")
    new = replaced(text, "modules", index())
    if "--check" in sys.argv[1:]:
        raise SystemExit(0 if new == text else "docs/architecture.md: run make docs")
    PAGE.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
