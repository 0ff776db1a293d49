"""Writes docs/commands.md from the commands' own --help; a test keeps it equal."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli import main

TARGET = Path(__file__).resolve().parent.parent / "docs" / "commands.md"
HEAD = """\
# Commands

Generated from `--help` by `make docs`.

| exit status | meaning |
| --- | --- |
| 0 | done and valid |
| 1 | failed |
| 2 | usage or configuration |
| 3 | done but the measurement is invalid |
| 4 | validity unknown |
| 5 | a forecast above the limit of an alert |

A shell completes commands, options, experiments, runs, models and cluster names, once its start file has \
one of these lines:

```
eval "$(_HARNESS_COMPLETE=bash_source harness)"     # ~/.bashrc
eval "$(_HARNESS_COMPLETE=zsh_source harness)"      # ~/.zshrc
_HARNESS_COMPLETE=fish_source harness | source      # ~/.config/fish/completions/harness.fish
```
"""


def reference() -> str:
    """Return the page."""
    parts = [HEAD]

    def add(command: click.Command, path: str, parent: click.Context | None) -> None:
        settings = {**command.context_settings, "max_content_width": 100, "terminal_width": 100}
        context = click.Context(command, info_name=path, parent=parent, **settings)
        parts.append(f"\n## {context.command_path}\n\n```\n{command.get_help(context)}\n```\n")
        if isinstance(command, click.Group):
            for name in command.list_commands(context):
                child = command.get_command(context, name)
                assert child is not None
                add(child, name, context)

    add(main, "harness", None)
    return "".join(parts)


if __name__ == "__main__":
    TARGET.write_text(reference(), encoding="utf-8")
