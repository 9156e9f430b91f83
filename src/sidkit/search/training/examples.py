"""Training examples by stage: which rows fill the fields of a task's template.

An example is a task and one index for each of its fields: into the queries, the items or the events. Tokens are put
together when a batch is made, so tens of millions of examples take a few bytes each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..bart.packing import Ragged, RaggedVectors, TokenExamples
from ..templates import TemplateTask
from .tokens import Tokens

__all__ = ["Filled", "TaskExamples", "join"]

Integers = NDArray[np.int64]

# Which fields are shortened, in this order, where an input is too long. SIDs of the answer's side are never shortened.
GIVES_WAY = ("recent_queries", "history", "profile", "title", "category", "query_category", "query")
OLDEST_FIRST = ("recent_queries", "history")  # these lose their beginning, the others their end


@dataclass(frozen=True, eq=False)
class TaskExamples:
    """The examples of one task: for every field the row of its table, (n,) each, and "event" where there are events."""

    task: TemplateTask
    rows: Mapping[str, Integers]

    def __len__(self) -> int:
        return len(next(iter(self.rows.values())))


class Histories(Protocol):
    """The source of the vectors of histories, by event."""

    def take(self, rows: Integers) -> RaggedVectors: ...


class Filled:
    """The examples of a stage, all tasks together, as inputs and outputs of tokens on demand.

    tables: for every field its tokens, by row; longest: tokens of an input or output at most. Where there are more,
    fields are shortened in the order of GIVES_WAY: what a user typed long ago goes first, the query itself last.
    Blanks at the ends of a template's texts are not tokens: a text that follows starts with its own.
    histories: what gives vectors by event, and as how many tokens they are read; an input begins with padding there.
    """

    def __init__(
        self,
        tasks: Sequence[TaskExamples],
        tables: Mapping[str, Ragged],
        tokens: Tokens,
        longest: int = 128,
        histories: tuple[Histories, int] | None = None,
    ) -> None:
        self.tasks, self.tables, self.longest = list(tasks), tables, longest
        self.eos, self.levels, self._histories = tokens.eos, len(tokens.sizes), histories
        self.begin = [*[tokens.pad] * (histories[1] if histories is not None else 0), tokens.bos]
        self.starts = np.cumsum([0, *(len(one) for one in tasks)])
        texts = {value for one in tasks for kind, value in (*one.task.input, *one.task.output) if kind == "text"}
        self.literals = {text: tokens.texts([text], longest) for text in sorted(texts)}

    def __len__(self) -> int:
        return int(self.starts[-1])

    def take(self, index: Integers) -> TokenExamples:
        """The examples with these indices, in this order."""
        outputs = self._by_task(index, lambda one, rows: self._filled(one, one.task.output, rows, []))
        return TokenExamples(self.inputs(index), outputs, self.histories(index))

    def inputs(self, index: Integers) -> Ragged:
        """The inputs alone: what is asked where the answer is not known."""
        return self._by_task(index, lambda one, rows: self._filled(one, one.task.input, rows, self.begin))

    def histories(self, index: Integers) -> RaggedVectors | None:
        """The vectors of the history of each of these examples, if the model reads them."""
        if self._histories is None:
            return None
        which = np.searchsorted(self.starts, index, side="right") - 1
        events = np.zeros(len(index), np.int64)
        for number in np.unique(which):
            of_task = which == number
            events[of_task] = self.tasks[number].rows["event"][index[of_task] - self.starts[number]]
        return self._histories[0].take(events)

    def _by_task(self, index: Integers, filled: Callable[[TaskExamples, Integers], Ragged]) -> Ragged:
        which = np.searchsorted(self.starts, index, side="right") - 1
        parts, order = [Ragged.of([])], [np.zeros(0, np.int64)]
        for number in np.unique(which):
            of_task = np.flatnonzero(which == number)
            parts.append(filled(self.tasks[number], index[of_task] - self.starts[number]))
            order.append(of_task)
        return _stack(parts).take(np.argsort(np.concatenate(order)))

    def _filled(
        self, examples: TaskExamples, parts: Sequence[tuple[str, str]], rows: Integers, begin: list[int]
    ) -> Ragged:
        n, room = len(rows), self.longest - 1 - len(begin)
        pieces = []
        for kind, value in parts:
            table = self.literals[value] if kind == "text" else self.tables[value]
            pieces.append(table.take(np.zeros(n, np.int64) if kind == "text" else examples.rows[value][rows]))
        inside = _cut(join(self._shortened(parts, pieces, room)), room)
        return join([*(_constant(n, token) for token in begin), inside, _constant(n, self.eos)])

    def _shortened(self, parts: Sequence[tuple[str, str]], pieces: list[Ragged], room: int) -> list[Ragged]:
        """The pieces of each part, shortened where a row has more than `room` tokens; a history loses whole SIDs."""
        over = np.maximum(sum(np.diff(piece.starts) for piece in pieces) - room, 0)
        if not over.any():
            return pieces
        fields = sorted(
            (GIVES_WAY.index(value), i, value)
            for i, (kind, value) in enumerate(parts)
            if kind == "field" and value in GIVES_WAY
        )
        for _, i, value in fields:
            unit = self.levels if value == "history" else 1
            less = np.minimum(-(-over // unit) * unit, np.diff(pieces[i].starts))
            pieces[i] = _without(pieces[i], less, first=value in OLDEST_FIRST)
            over = np.maximum(over - less, 0)
        return pieces


def join(parts: Sequence[Ragged]) -> Ragged:
    """Sequences that follow each other: part 1 of row i, then part 2 of row i, and so on."""
    lengths = np.stack([np.diff(part.starts) for part in parts], 1)  # (n, parts)
    starts = np.concatenate([[0], np.cumsum(lengths.sum(1))])
    begin = starts[:-1, None] + np.cumsum(lengths, 1) - lengths
    tokens = np.empty(starts[-1], np.int32)
    for i, part in enumerate(parts):
        where = np.repeat(begin[:, i] - part.starts[:-1], lengths[:, i]) + np.arange(len(part.tokens))
        tokens[where] = part.tokens
    return Ragged(tokens, starts)


def _stack(parts: Sequence[Ragged]) -> Ragged:
    """The sequences of all parts, one part after the other."""
    lengths = np.concatenate([np.diff(part.starts) for part in parts])
    return Ragged(np.concatenate([part.tokens for part in parts]), np.concatenate([[0], np.cumsum(lengths)]))


def _cut(rows: Ragged, longest: int) -> Ragged:
    """At most the first `longest` tokens of each sequence."""
    return _without(rows, np.maximum(np.diff(rows.starts) - longest, 0), first=False)


def _without(rows: Ragged, less: Integers, first: bool) -> Ragged:
    """Sequences without `less` (n,) of their first or of their last tokens."""
    if not less.any():
        return rows
    lengths = np.diff(rows.starts)
    inside = np.arange(len(rows.tokens)) - np.repeat(rows.starts[:-1], lengths)
    kept = inside >= np.repeat(less, lengths) if first else inside < np.repeat(lengths - less, lengths)
    return Ragged(rows.tokens[kept], np.concatenate([[0], np.cumsum(lengths - less)]))


def _constant(n: int, token: int) -> Ragged:
    return Ragged(np.full(n, token, np.int32), np.arange(n + 1))
