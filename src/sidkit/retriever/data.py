"""Users' histories as examples: which items came before, and which came next.

A leave-one-out split gives the last item of every sequence to the test, the one before it to validation, and every item
before those, but the first, to training. An example is an index into one long array of items: its target is at
`position`, its history is the `length` items before it. Nothing is copied and nothing is padded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..data.sequences import Sequences
from ..errors import InputError
from ..sids.vocabulary import Vocabulary

__all__ = ["Examples", "Split", "Vocabulary", "examples", "require_known"]

Split = Literal["train", "valid", "test"]


@dataclass(frozen=True, eq=False)
class Examples:
    """position, length: (n,). The target of example i is rows[position[i]]; its history is just before it."""

    position: NDArray[np.int64]
    length: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.position)


def examples(sequences: Sequences, split: Split, history: int = 20) -> Examples:
    """The examples of a split, in the order of the sequences; of each history at most the latest `history` items.

    A sequence too short for a split (fewer than 2 items for the test, 3 for validation, 4 for training) is left out.
    """
    first, stop = sequences.starts[:-1], sequences.starts[1:]
    if split == "train":
        counts = np.maximum(stop - first - 3, 0)
        which = np.repeat(np.arange(len(sequences)), counts)
        within = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
        position = first[which] + 1 + within
    else:
        which, position = sequences.held_out({"valid": 2, "test": 1}[split])
    return Examples(position, np.minimum(position - first[which], history))


def require_known(sequences: Sequences) -> None:
    """Every item of every sequence needs a semantic ID."""
    unknown = int((sequences.rows < 0).sum())
    if unknown:
        raise InputError(
            f"{unknown:,} of {len(sequences.rows):,} items in the sequences ({sequences.unknown_items:,} different) "
            "have no semantic ID; encode all items, or leave the others out of the sequences"
        )
