"""Small tables and sequences whose answers are known, for the tests of the retriever."""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from sidkit import SidTable
from sidkit.data.sequences import Sequences
from sidkit.retriever.model import Shape, new_weights

SMALL = Shape(layers=2, d_model=32, d_ff=48, heads=3, d_kv=8)


def shop(items=60, sizes=(8, 8, 8), seed=0, twins=20):
    """A table in which the last `twins` items share their SIDs with the first."""
    codes = np.random.default_rng(seed).integers(0, sizes, (items, len(sizes)))
    codes[items - twins :] = codes[:twins]
    return SidTable([f"p{i}" for i in range(items)], codes, sizes)


def walks(items=60, users=30, seed=0, most=30):
    """Sequences of items at random."""
    rng = np.random.default_rng(seed)
    return Sequences.of([rng.integers(0, items, rng.integers(3, most)) for _ in range(users)])


def ring(users=120, items=32, seed=0):
    """Most steps go to the next item on a ring, so that the best guess is known."""
    rng, lists = np.random.default_rng(seed), []
    for _ in range(users):
        walk = [int(rng.integers(items))]
        for _ in range(int(rng.integers(4, 8))):
            walk.append((walk[-1] + 1) % items if rng.random() < 0.95 else int(rng.integers(items)))
        lists.append(walk)
    codes = np.stack([np.arange(items) // 8, np.arange(items) % 8], 1)
    return SidTable([f"p{i}" for i in range(items)], codes, (4, 8)), Sequences.of(lists)


def write_files(folder, table, sequences):
    """sids.parquet and sequences.parquet, as the commands read them."""
    table.to_parquet(folder / "sids.parquet")
    lists = [table.ids.take(part).to_pylist() for part in np.split(sequences.rows, sequences.starts[1:-1])]
    pq.write_table(pa.table({"items": lists}), folder / "sequences.parquet")


class StopAt:
    """Progress that interrupts the training as soon as its note contains all of these words."""

    def __init__(self, *words):
        self.words = words

    def start(self, label, rows): ...

    def advance(self, rows): ...

    def note(self, text):
        if all(word in text for word in self.words):
            raise KeyboardInterrupt


@cache
def fresh_weights(shape, words, seed):
    """`new_weights`, drawn once; not to be written to."""
    return new_weights(shape, words, seed)


def peaked(weights, by=4.0):
    """Fresh weights give nearly equal chances; sharper attention and biases make the beams differ."""
    return {name: value * by if "q" in name or "bias" in name else value for name, value in weights.items()}


def padded(sequences, split, tokens, chosen, levels=3):
    """What transformers takes: histories padded on the left, and the targets."""
    width = int(split.length[chosen].max()) * levels
    inputs = np.zeros((len(chosen), width), np.int64)
    for row, example in enumerate(chosen):
        at, n = split.position[example], split.length[example]
        inputs[row, width - n * levels :] = tokens[sequences.rows[at - n : at]].ravel()
    return torch.tensor(inputs), torch.tensor(tokens[sequences.rows[split.position[chosen]]])


def generated(model, inputs, beams, *processors, levels=3):
    best = model.generate(
        input_ids=inputs,
        attention_mask=(inputs != 0).long(),
        num_beams=beams,
        num_return_sequences=beams,
        max_length=1 + levels,
        logits_processor=list(processors),
        return_dict_in_generate=True,
        output_scores=True,
    )
    return best.sequences.view(len(inputs), beams, -1)[:, :, 1:], best.sequences_scores.view(len(inputs), beams)
