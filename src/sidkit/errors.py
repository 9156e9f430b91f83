"""Every error sidkit raises on purpose.

    SidkitError
    ├── InputError          data given by the user cannot be used
    │   └── BadRowsError    rows with NaN, infinity or zero length
    ├── SpecError           a recipe, size or option that makes no sense
    ├── StoreError          a model folder or file that cannot be read or written
    └── MissingExtraError   an optional dependency is not installed

Messages say what came, what was needed and what to do. They are written for the command line, which prints them
without a traceback; `str(error)` names the arguments of Python in place of options (`in_python`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any

__all__ = [
    "BadRowsError",
    "InputError",
    "MissingExtraError",
    "SidkitError",
    "SpecError",
    "StoreError",
    "count_of",
    "did_you_mean",
    "in_python",
    "need",
    "need_package",
]

SWITCHES = ("constrained", "file-order", "force", "lite", "resume", "spread")  # options without a value
ELSEWHERE = {"out with --bad-rows drop": "out: numpy.delete(X, error.rows, axis=0)"}  # what Python does otherwise
HINT = re.compile(r"did you mean --([a-z][a-z-]*[a-z]) ('[^']*'|\S+?)\?")
VALUE = re.compile(r"(?<![\w-])--([a-z][a-z-]*[a-z]) (cpu|drop|random|tfidf)\b")
OPTION = re.compile(r"(?<![\w-])--([a-z][a-z-]*[a-z])\b")


class SidkitError(Exception):
    """Base of the tree."""

    def __str__(self) -> str:
        return in_python(self.typed)

    @property
    def typed(self) -> str:
        """The message for the command line, which names options."""
        return super().__str__()


class InputError(SidkitError):
    """Data given by the user cannot be used."""


class BadRowsError(InputError):
    """Some rows hold NaN, infinity or only zeros; `rows` are their row numbers."""

    def __init__(self, message: str, rows: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.rows = list(rows)


class SpecError(SidkitError):
    """A recipe, size or option that makes no sense."""


class StoreError(SidkitError):
    """A model folder or file that cannot be read or written."""


class MissingExtraError(SidkitError):
    """An optional dependency is not installed."""


def in_python(message: str) -> str:
    """A message with arguments of Python in place of options: device='cpu' for --device cpu."""
    for option, words in ELSEWHERE.items():
        message = message.replace(option, words)
    message = HINT.sub(lambda found: f"did you mean {_name(found[1])}={found[2].strip(chr(39))!r}?", message)
    message = VALUE.sub(lambda found: f"{_name(found[1])}={found[2]!r}", message)
    return OPTION.sub(lambda found: _name(found[1]) + ("=True" if found[1] in SWITCHES else ""), message)


def _name(option: str) -> str:
    return option.replace("-", "_")


def need_package(package: str, purpose: str) -> Any:
    """Import a package that no extra of sidkit installs; the error names it."""
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise MissingExtraError(f"{purpose} needs {package}: pip install {package}") from None


def need(module: str, extra: str, purpose: str) -> Any:
    """Import an optional dependency; the error names the extra that installs it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != module.partition(".")[0]:
            raise
        raise MissingExtraError(f"{purpose} needs the '{extra}' extra: pip install 'sidkit[{extra}]'") from None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """'; did you mean …?' if a known word is close, else an empty string."""
    close = get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""


def count_of(count: int, noun: str, plural: str | None = None) -> str:
    """1 item, 2,000 items."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
