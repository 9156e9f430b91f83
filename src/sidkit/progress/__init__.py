"""How long work reports its progress: four calls, and a silent default.

bars.py       bars in a terminal
notebook.py   bars in a notebook
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

__all__ = ["Progress", "Silent", "in_notebook", "shown"]


class Progress(Protocol):
    """The calls by which a fit or an encoding reports its progress."""

    def start(self, label: str, rows: int) -> None:
        """Work over this many rows begins; 0 if their number is not known."""

    def advance(self, rows: int) -> None:
        """This many more rows are done."""

    def note(self, text: str) -> None:
        """A short text on the state of the work, such as the mean cosine."""

    def workers(self, text: str) -> None:
        """The state of other processes that share the work: "3/8 shards, 4 workers, 1 retries"."""


class Silent:
    """Reports nothing."""

    def start(self, label: str, rows: int) -> None: ...

    def advance(self, rows: int) -> None: ...

    def note(self, text: str) -> None: ...

    def workers(self, text: str) -> None: ...


@contextmanager
def shown(progress: Progress | bool | None) -> Iterator[Progress]:
    """What work reports to: the given progress, nothing for None and False, and bars for True.

    Bars are drawn below the cell of a notebook, or on standard error where that is a terminal.
    """
    if progress is True:
        with _bars() as bars:
            yield bars
    else:
        yield progress or Silent()


def _bars() -> Any:
    if in_notebook():
        from .notebook import NotebookBars

        return NotebookBars()
    from .bars import TerminalBars

    return TerminalBars()


def in_notebook() -> bool:
    """Whether a notebook, and not a terminal, shows what Python displays."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")
