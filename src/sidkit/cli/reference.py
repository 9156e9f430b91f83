"""docs/cli.md, written from the commands themselves: python -m sidkit.cli.reference > docs/cli.md

Names and words come from the commands, types and defaults from their signatures, and nothing from what Typer prints, so
that neither a terminal's width nor a version of Typer or Python changes a letter.
"""

import inspect
import re
import shlex
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from typer.main import get_command

from . import app

__all__ = ["reference"]

VALUES = {str: "TEXT", Path: "PATH", int: "INTEGER", float: "NUMBER", bool: ""}
OPENING = """# The command line

Every command, as `sidkit COMMAND --help` tells it. This page is made by `python -m sidkit.cli.reference > docs/cli.md`,
and a test holds it to the commands. The examples use the files of the folder that `sidkit demo` leaves;
what else one needs is made by the commands that follow it.
"""


def reference() -> str:
    """The page: a list of the commands, then each with its example, arguments and options."""
    commands = list(_commands(get_command(app), "sidkit"))
    listed = [f"- [`{name}`](#{name.replace(' ', '-')}): {command.short_help}" for name, command in commands]
    return "\n".join([OPENING, *listed, "", *(_section(name, command) for name, command in commands)])


def _commands(group: Any, path: str) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, f"{path} {name}")
        elif not command.hidden:
            yield f"{path} {name}", command


def _section(name: str, command: Any) -> str:
    made = inspect.unwrap(command.callback)
    kinds, signature = get_type_hints(made), inspect.signature(made).parameters
    arguments, options = [], []
    for one in command.params:
        if one.name not in signature:  # --help
            continue
        told = _told(one, signature[one.name].default)
        if one.param_type_name == "argument":
            arguments.append((f"`{one.name}`", *told))
        else:
            ways = ", ".join(f"`{way}`" for way in (*one.opts, *one.secondary_opts))
            options.append((f"{ways} {one.metavar or _value(kinds[one.name])}".rstrip(), *told))
    body = "\n\n".join(map(_paragraph, inspect.cleandoc(made.__doc__ or "").split("\n\n")))
    return f"## {name}\n\n{body}\n" + _table("argument", arguments) + _table("option", options)


def _paragraph(text: str) -> str:
    return f"```\n{' '.join(text.split())}\n```" if text.startswith("sidkit ") else _text(text)


def _value(kind: Any) -> str:
    """What is written after an option: PATH, INTEGER, error|drop; nothing after a flag."""
    if get_origin(kind):  # int | None, list[str], list[str] | None
        return _value(next(part for part in get_args(kind) if part is not NoneType))
    return "|".join(one.value for one in kind) if issubclass(kind, Enum) else VALUES[kind]


def _told(one: Any, default: Any) -> tuple[str, str]:
    """The help of a parameter, and its default: as the help says it, or as the signature has it."""
    words, _, said = one.help.partition(" [default: ")
    if said:
        return _text(words), _text(said.removesuffix("]"))
    if default is inspect.Parameter.empty:
        return _text(words), "required"
    if isinstance(one.show_default, str):
        return _text(words), f"`{one.show_default}`"
    if default is None or default is False:
        return _text(words), ""
    shown = one.opts[0] if default is True else shlex.quote(str(default))
    return _text(words), f"`{shown}`"


def _table(name: str, rows: list[tuple[str, str, str]]) -> str:
    lines = ["| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |" for row in rows]
    return "\n".join([f"\n| {name} | meaning | default |", "|---|---|---|", *lines]) + "\n" if rows else ""


def _text(words: str) -> str:
    """Prose for Markdown: outside of backticks nothing is taken for HTML."""
    parts = re.split("(`[^`]*`)", words)
    return "".join(part if part.startswith("`") else part.replace("<", r"\<") for part in parts)


if __name__ == "__main__":
    print(reference(), end="")
