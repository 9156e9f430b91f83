"""Token sequences for a model of one's own: a Dataset of torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import torch

from ..data.ids import match
from ..data.sequences import Sequences, read_sequences
from ..errors import InputError, SpecError
from ..sids.table import SidTable
from .data import Split, Vocabulary, examples, require_known

if TYPE_CHECKING:
    Tensor = Any

__all__ = ["SidSequences"]


class SidSequences(torch.utils.data.Dataset):  # type: ignore[misc]
    """Examples of next-item prediction: the SIDs of the items that a user took, and the SID of the next one.

        data = SidSequences(table, "sequences.parquet", split="train")
        loader = torch.utils.data.DataLoader(data, batch_size=256, shuffle=True, collate_fn=data.collate)

    table       the SIDs of all items
    sequences   a path (as for `sidkit train`), `Sequences`, or lists of item ids in time order
    split       "train", "valid" or "test": leave one out, as `sidkit train` does; "all": every item but the first of
                each sequence is a target, for data that are split already
    history     items before the target, at most

    An element has `input_ids`, the tokens of the history, (length * levels,), and `labels`, those of the target,
    (levels,), as int64 tensors. Tokens are those of `vocabulary`: code + the sizes of the levels before + 1; 0 pads.
    A batch of `collate` is what transformers' encoder-decoders take: `model(**batch).loss`.
    """

    def __init__(
        self,
        table: SidTable,
        sequences: Sequences | str | PathLike[str] | Iterable[Sequence[Any]],
        split: Split | str = "train",
        history: int = 20,
    ) -> None:
        if split not in ("train", "valid", "test", "all"):
            raise SpecError(f"split must be 'train', 'valid', 'test' or 'all', not {split!r}")
        if history < 1:
            raise SpecError(f"history must be at least 1, not {history}")
        self.vocabulary = Vocabulary(table.sizes)
        self.sequences = _read(sequences, table)
        require_known(self.sequences)
        self.examples = _all(self.sequences, history) if split == "all" else _of_split(self.sequences, split, history)
        self._tokens = torch.from_numpy(self.vocabulary.tokens(table.codes)[self.sequences.rows])  # (events, levels)

    def __len__(self) -> int:
        return len(self.examples[0])

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        position, length = (int(part[index]) for part in self.examples)
        return {
            "input_ids": self._tokens[position - length : position].reshape(-1),
            "labels": self._tokens[position],
        }

    @staticmethod
    def collate(batch: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
        """Elements as a batch, padded on the right with token 0: input_ids, attention_mask and labels."""
        pad = torch.nn.utils.rnn.pad_sequence
        inputs = [one["input_ids"] for one in batch]
        return {
            "input_ids": pad(inputs, batch_first=True),
            "attention_mask": pad([torch.ones_like(one) for one in inputs], batch_first=True),
            "labels": torch.stack([one["labels"] for one in batch]),
        }


def _read(sequences: Any, table: SidTable) -> Sequences:
    if isinstance(sequences, Sequences):
        return sequences
    if isinstance(sequences, str | PathLike):
        return read_sequences(sequences, table.ids, known_as=table.origin.id_column)
    lists = [list(one) for one in sequences]
    items = [item for one in lists for item in one]
    try:
        rows = match(pa.array(items, table.ids.type), table.ids) if items else np.zeros(0, np.int64)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InputError(f"items of sequences must be ids like {table.ids[0].as_py()!r}: {error}") from None
    unknown = len({item for item, row in zip(items, rows, strict=True) if row < 0})
    return Sequences(np.asarray(rows, np.int64), np.cumsum([0, *map(len, lists)]), unknown)


def _of_split(sequences: Sequences, split: Any, history: int) -> tuple[Any, Any]:
    found = examples(sequences, split, history)
    return found.position, found.length


def _all(sequences: Sequences, history: int) -> tuple[Any, Any]:
    """Every item but the first of its sequence: its position, and the number of items before it."""
    lengths = np.diff(sequences.starts)
    before = np.arange(len(sequences.rows)) - np.repeat(sequences.starts[:-1], lengths)
    position = np.flatnonzero(before > 0)
    return position, np.minimum(before[position], history)
