"""Every error sidkit raises on purpose.

    SidkitError
    ├── InputError          data given by the user cannot be used
    │   └── BadRowsError    rows with NaN, infinity or zero length
    ├── SpecError           a recipe, size or option that makes no sense
    ├── StoreError          a model folder or file that cannot be read or written
    └── MissingExtraError   an optional dependency is not installed

Messages say what came, what was needed and what to do. The command line prints them without a traceback.
"""

from __future__ import annotations

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
    "need",
]


class SidkitError(Exception):
    """Base of the tree."""


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
