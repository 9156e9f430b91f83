"""Templates: what the model reads and writes in each stage, as TOML files that a user can copy and edit."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import SpecError, did_you_mean

__all__ = ["FIELDS", "STAGES", "TemplateTask", "read_templates", "template_file"]

FIELDS = (
    "query", "query_sid", "title", "item_sid", "category", "query_category",
    "profile", "user_sid", "recent_queries", "history",
)  # fmt: skip
STAGES = ("content", "pairs", "personal")
FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class TemplateTask:
    """One task of a stage: its name, and input and output as parts, each a text or a field."""

    name: str
    input: tuple[tuple[str, str], ...]  # ("text", "query: ") or ("field", "query")
    output: tuple[tuple[str, str], ...]

    @property
    def fields(self) -> set[str]:
        return {value for kind, value in (*self.input, *self.output) if kind == "field"}


def template_file(name: str) -> Path:
    """The file of a language that sidkit brings ("en", "zh"), or the TOML file of this path."""
    known = sorted(path.stem for path in FOLDER.glob("*.toml"))
    path = FOLDER / f"{name}.toml" if name in known else Path(name)
    if not path.is_file():
        raise SpecError(f"no templates {name!r}{did_you_mean(name, known)} (known: {', '.join(known)}, or a TOML file)")
    return path


def read_templates(name: str) -> dict[str, tuple[TemplateTask, ...]]:
    """The tasks of every stage: of a language that sidkit brings ("en", "zh"), or of a TOML file."""
    path = template_file(name)
    try:
        plain = tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise SpecError(f"cannot read the templates {path}: {error}") from error
    for stage in plain:
        if stage not in STAGES:
            raise SpecError(f"{path}: unknown stage {stage!r}{did_you_mean(stage, STAGES)}")
    return {stage: _tasks(plain.get(stage, {}), f"{path}: {stage}") for stage in STAGES}


def _tasks(plain: Any, where: str) -> tuple[TemplateTask, ...]:
    tasks = plain.get("tasks", []) if isinstance(plain, dict) else None
    if not isinstance(tasks, list):
        raise SpecError(f"{where}: tasks must be a list of tables with name, input and output")
    found = []
    for one in tasks:
        if not isinstance(one, dict) or set(one) != {"name", "input", "output"}:
            raise SpecError(f"{where}: a task has a name, an input and an output, and nothing else")
        if not all(isinstance(value, str) for value in one.values()):
            raise SpecError(f"{where}: name, input and output of a task are strings")
        found.append(TemplateTask(one["name"], _parts(one["input"], where), _parts(one["output"], where)))
    return tuple(found)


def _parts(text: str, where: str) -> tuple[tuple[str, str], ...]:
    parts: list[tuple[str, str]] = []
    for i, part in enumerate(re.split(r"\{([^{}]*)\}", text)):
        if i % 2 and part not in FIELDS:
            raise SpecError(f"{where}: unknown field {{{part}}}{did_you_mean(part, FIELDS)}")
        if part:
            parts.append(("field" if i % 2 else "text", part))
    if not any(kind == "field" for kind, _ in parts):
        raise SpecError(f"{where}: {text!r} names no field")
    return tuple(parts)
