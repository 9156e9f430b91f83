"""docs/cli.md, generated from the commands: python -m sidkit.cli.reference > docs/cli.md

Names and help texts come from the commands, types and defaults from their signatures. Nothing comes from what Typer
prints, so the page does not depend on the width of a terminal or on the versions of Typer and Python.
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

Every command, as `sidkit COMMAND --help` prints it. `python -m sidkit.cli.reference > docs/cli.md` generates this page,
and a test checks that it is up to date. The examples use the files that `sidkit demo` writes; any other file is made by
the commands listed after the example.
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
    call = inspect.unwrap(command.callback)
    kinds, signature = get_type_hints(call), inspect.signature(call).parameters
    arguments, options = [], []
    for one in command.params:
        if one.name not in signature:  # --help
            continue
        cells = _meaning_and_default(one, signature[one.name].default)
        if one.param_type_name == "argument":
            arguments.append((f"`{one.name}`", *cells))
        else:
            names = ", ".join(f"`{name}`" for name in (*one.opts, *one.secondary_opts))
            options.append((f"{names} {one.metavar or _value(kinds[one.name])}".rstrip(), *cells))
    body = "\n\n".join(map(_paragraph, inspect.cleandoc(call.__doc__ or "").split("\n\n")))
    return f"## {name}\n\n{body}\n" + _table("argument", arguments) + _table("option", options)


def _paragraph(text: str) -> str:
    return f"```\n{' '.join(text.split())}\n```" if text.startswith("sidkit ") else _text(text)


def _value(kind: Any) -> str:
    """The kind of value an option takes: PATH, INTEGER, error|drop; nothing for a flag."""
    if get_origin(kind):  # int | None, list[str], list[str] | None
        return _value(next(part for part in get_args(kind) if part is not NoneType))
    return "|".join(one.value for one in kind) if issubclass(kind, Enum) else VALUES[kind]


def _meaning_and_default(one: Any, default: Any) -> tuple[str, str]:
    """The help of a parameter, and its default: from the end of the help, or from the signature."""
    words, _, described = one.help.partition(" [default: ")
    if described:
        return _text(words), _text(described.removesuffix("]"))
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
    """Prose for Markdown, with < escaped outside of backticks."""
    parts = re.split("(`[^`]*`)", words)
    return "".join(part if part.startswith("`") else part.replace("<", r"\<") for part in parts)


if __name__ == "__main__":
    print(reference(), end="")
