"""How long work reports its progress: four calls, and a silent default."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """What a fit or an encoding reports while it runs."""

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
