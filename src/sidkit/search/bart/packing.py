"""Examples as flat token arrays, and batches of them without padding.

An example is an input and an output. All inputs lie in one array, end to end, and so do all outputs; a batch gathers
the tokens of its examples. On a GPU token counts are rounded up, so that few shapes occur: a step of each is recorded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from .former import History
from .network import PackedRows, packed

__all__ = ["PackedBatch", "Ragged", "RaggedVectors", "TokenExamples", "batch_of", "epoch", "on_device"]

ROUND = 512  # on a GPU, tokens of all inputs are padded to a multiple of this,
PADDING = 128  # by sequences of at most so many tokens,
LONGEST = 16  # and those of all outputs, and the length of the longest sequence, to a multiple of this
NONE = -100  # the label of a token that is not learned


@dataclass(frozen=True, eq=False)
class Ragged:
    """Sequences of tokens laid end to end: tokens (T,) int32, starts (n + 1,) int64."""

    tokens: NDArray[np.int32]
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, lists: Any) -> Ragged:
        parts = [np.asarray(one, np.int32) for one in lists]
        tokens = np.concatenate(parts) if parts else np.zeros(0, np.int32)
        return cls(tokens, np.cumsum([0, *(len(one) for one in parts)]))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def take(self, index: NDArray[np.int64]) -> Ragged:
        """The sequences with these indices, in this order; -1 is the last one, as in numpy."""
        index = np.where(index < 0, index + len(self), index)
        lengths = self.starts[index + 1] - self.starts[index]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        source = np.repeat(self.starts[index] - starts[:-1], lengths) + np.arange(starts[-1])
        return Ragged(self.tokens[source], starts)


@dataclass(frozen=True, eq=False)
class RaggedVectors:
    """Sequences of vectors laid end to end: vectors (T, v) float32, starts (n + 1,) int64."""

    vectors: NDArray[np.float32]
    starts: NDArray[np.int64]

    def take(self, index: NDArray[np.int64]) -> RaggedVectors:
        """The sequences with these indices, in this order."""
        rows = Ragged(np.arange(len(self.vectors), dtype=np.int32), self.starts).take(index)
        return RaggedVectors(self.vectors[rows.tokens], rows.starts)


@dataclass(frozen=True, eq=False)
class TokenExamples:
    """Inputs and outputs, n of each. An output ends with the end token and does not contain the start token.

    histories: of each input the vectors of a history, if the model reads them; the input begins with tokens that they
    take the place of.
    """

    inputs: Ragged
    outputs: Ragged
    histories: RaggedVectors | None = None

    def __len__(self) -> int:
        return len(self.inputs)


class PackedBatch(NamedTuple):
    """The arguments of the loss: source and target, and labels (Td,) with -100 for padding."""

    source: PackedRows
    target: PackedRows
    labels: Any


def batch_of(examples: TokenExamples, index: NDArray[np.int64], start: int, pad: int, device: Any) -> PackedBatch:
    """The examples of a batch on a device; start is the token that a decoder begins with."""
    outputs = examples.outputs.take(index)
    labels = outputs.tokens.astype(np.int64)
    shifted = np.roll(labels, 1)
    shifted[outputs.starts[:-1]] = start
    target = Ragged(shifted.astype(np.int32), outputs.starts)
    histories = None if examples.histories is None else examples.histories.take(index)
    source = on_device(device, examples.inputs.take(index), pad, histories)
    target_rows = on_device(device, target, pad, rounded=LONGEST)  # padding would be the longest of short sequences
    padded = np.full(len(target_rows.tokens), NONE, np.int64)
    padded[: len(labels)] = labels
    return PackedBatch(source, target_rows, torch.from_numpy(padded).to(device, non_blocking=True))


def epoch(n: int, batch: int, seed: tuple[int, ...]) -> Iterator[NDArray[np.int64]]:
    """The indices of n examples in random order, `batch` at a time; the last batch may be smaller."""
    order = np.random.default_rng(seed).permutation(n)
    for first in range(0, n, batch):
        yield order[first : first + batch]


def on_device(
    device: Any, rows: Ragged, pad: int, histories: RaggedVectors | None = None, rounded: int = ROUND
) -> PackedRows:
    """Sequences on a device, and behind them padding, of 1 token at least; histories: of these sequences.

    rounded: on a GPU, all tokens are a multiple of this. Padding is as many sequences each time, perhaps of no token,
    the same number for inputs and outputs; on a CPU it is one.
    """
    rounded, by, count = (rounded, LONGEST, ROUND // PADDING) if torch.device(device).type == "cuda" else (1, 1, 1)
    total = (len(rows.tokens) // rounded + 1) * rounded
    tokens = np.full(total, pad, np.int64)
    tokens[: len(rows.tokens)] = rows.tokens
    ends = len(rows.tokens) + np.arange(1, count + 1) * PADDING
    starts = np.append(rows.starts, np.minimum(ends, total))
    longest = int(np.diff(starts).max())
    there, begin = (torch.from_numpy(array).to(device, non_blocking=True) for array in (tokens, starts))
    sequences = packed(there, begin, -(-longest // by) * by, total - len(rows.tokens))
    if histories is None:
        return sequences
    longest = int(np.diff(histories.starts).max(initial=1))
    vectors, begin = (torch.from_numpy(array).to(device) for array in (histories.vectors, histories.starts))
    return sequences._replace(history=History(vectors, begin.to(torch.int32), -(-longest // by) * by))
