"""How long work reports on itself: four calls, and a silent default."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """What a fit or an encode tells while it runs."""

    def start(self, label: str, rows: int) -> None:
        """A piece of work over so many rows begins; 0: nobody knows how many."""

    def advance(self, rows: int) -> None:
        """So many more rows are done."""

    def note(self, text: str) -> None:
        """A word on how it goes, such as the mean cosine."""

    def workers(self, text: str) -> None:
        """Who is at work, where that is more than this process: "3/8 shards, 4 workers, 1 retries"."""


class Silent:
    """Says nothing."""

    def start(self, label: str, rows: int) -> None: ...

    def advance(self, rows: int) -> None: ...

    def note(self, text: str) -> None: ...

    def workers(self, text: str) -> None: ...
