"""Templates: what the model reads and writes in each stage, as TOML files that a user can copy and edit."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import SpecError, did_you_mean

__all__ = ["FIELDS", "STAGES", "TemplateTask", "read_templates", "template_file"]

OF_QUERY = ("query", "query_sid")
OF_ITEM = ("title", "item_sid", "category")
OF_USER = ("profile", "user_sid", "recent_queries", "history")
FIELDS = (*OF_QUERY, "query_category", *OF_ITEM, *OF_USER)
STAGES = ("content", "pairs", "personal")
KEYS = ("name", "input", "output")
FOLDER = Path(__file__).parent

Parts = tuple[tuple[str, str], ...]  # ("text", "query: ") or ("field", "query")


@dataclass(frozen=True)
class TemplateTask:
    """One task of a stage: its name, and input and output as parts, each a text or a field."""

    name: str
    input: Parts
    output: Parts

    @property
    def inputs(self) -> set[str]:
        """The fields of the input."""
        return {value for kind, value in self.input if kind == "field"}

    @property
    def outputs(self) -> set[str]:
        """The fields of the output."""
        return {value for kind, value in self.output if kind == "field"}

    @property
    def fields(self) -> set[str]:
        return self.inputs | self.outputs


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
    except (ValueError, OSError, RecursionError) as error:
        raise SpecError(f"cannot read the templates {path}: {error}") from error
    for stage in plain:
        if stage not in STAGES:
            raise SpecError(f"{path}: unknown stage {stage!r}{did_you_mean(stage, STAGES)} (known: {_list(STAGES)})")
    for stage in STAGES:
        if stage not in plain:
            raise SpecError(
                f"{path}: stage {stage!r} is missing; a file has the stages {_list(STAGES)}, "
                f"and an empty one is written [{stage}] with tasks = []"
            )
    templates = {stage: _tasks(plain[stage], stage, f"{path}, stage {stage!r}") for stage in STAGES}
    if not templates["personal"] or templates["personal"][0].output != (("field", "item_sid"),):
        raise SpecError(
            f"{path}, stage 'personal': the first task answers queries, so there must be one, "
            "with the output {item_sid}"
        )
    return templates


def _tasks(plain: Any, stage: str, where: str) -> tuple[TemplateTask, ...]:
    if not isinstance(plain, dict) or list(plain) != ["tasks"] or not isinstance(plain["tasks"], list):
        raise SpecError(f"{where}: a stage has tasks = [...], a list of tables with {_list(KEYS)}, and nothing else")
    tasks: list[TemplateTask] = []
    for number, entry in enumerate(plain["tasks"], 1):
        task = _task(entry, number, where)
        label = f"{where}, task {task.name!r}"
        if task.name in [other.name for other in tasks]:
            raise SpecError(f"{label}: the stage has another task of this name")
        for side, fields, allowed in _allowed(task, stage):
            for field in sorted(fields - set(allowed)):
                raise SpecError(f"{label}: {side} cannot contain {{{field}}} here (allowed: {_list(allowed)})")
        tasks.append(task)
    return tuple(tasks)


def _task(entry: Any, number: int, where: str) -> TemplateTask:
    label = f"{where}, task {number}"
    if not isinstance(entry, dict):
        raise SpecError(f"{label}: a task is a table with {_list(KEYS)}, not {entry!r}")
    if isinstance(entry.get("name"), str):
        label = f"{where}, task {entry['name']!r}"
    for key in KEYS:
        if key not in entry:
            raise SpecError(f"{label}: no {key}; a task has {_list(KEYS)}")
    for key, value in entry.items():
        if key not in KEYS:
            raise SpecError(f"{label}: unknown key {key!r}{did_you_mean(key, KEYS)} (a task has {_list(KEYS)})")
        if not isinstance(value, str):
            raise SpecError(f"{label}: {key} must be a string, not {value!r}")
    input, output = (_parts(entry[side], f"{label}, {side}") for side in ("input", "output"))
    return TemplateTask(entry["name"], input, output)


def _allowed(task: TemplateTask, stage: str) -> list[tuple[str, set[str], Sequence[str]]]:
    """What may be in which side of a task: (side, its fields, the allowed ones). Only what fills one row is possible,
    and what a user is to be shown must not be in an input of the last stage."""
    if stage == "content":
        if task.fields & {*OF_QUERY, "query_category"}:
            return [("a task about queries", task.fields, (*OF_QUERY, "query_category"))]
        return [("a task about items", task.fields, OF_ITEM)]
    if stage == "pairs":
        return [("a task", task.fields, (*OF_QUERY, *OF_ITEM))]
    return [("the input", task.inputs, (*OF_QUERY, *OF_USER)), ("the output", task.outputs, OF_ITEM)]


def _parts(text: str, where: str) -> Parts:
    parts: list[tuple[str, str]] = []
    for i, part in enumerate(re.split(r"\{([^{}]*)\}", text)):
        if i % 2 and part not in FIELDS:
            raise SpecError(f"{where}: unknown field {{{part}}}{did_you_mean(part, FIELDS)} (known: {_list(FIELDS)})")
        if not i % 2 and re.search(r"[{}]", part):
            raise SpecError(f"{where}: {text!r} has a brace without its partner; a field is written {{query}}")
        if part:
            parts.append(("field" if i % 2 else "text", part))
    if not any(kind == "field" for kind, _ in parts):
        raise SpecError(f"{where}: {text!r} contains no field (known: {_list(FIELDS)})")
    return tuple(parts)


def _list(words: Sequence[str]) -> str:
    return ", ".join(words)
