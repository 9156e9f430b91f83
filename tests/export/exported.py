"""What the tests of exports share: the running example, fitted tokenizers, and a way to export."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sidkit import SidTable
from sidkit.data.sequences import Sequences
from sidkit.export.job import export
from sidkit.export.target import ExportJob

SIZES = (256, 256, 256)
IDS = [5, 9, 12]
CODES = [[12, 3, 77], [12, 3, 78], [200, 0, 1]]
TITLES = ["red shoe", 'a "blue"\tshoe', "tent"]
BASE = 151669  # len(tokenizer) of Qwen3


def table(ids=IDS, codes=CODES, sizes=SIZES, template="letters"):
    return SidTable(ids, np.array(codes), sizes, template)


def crowded():
    """Items of which three share a SID and two another."""
    return table([1, 2, 3, 4, 5, 6], [[1, 3, 2], [1, 3, 3], [1, 3, 2], [2, 0, 1], [1, 3, 2], [2, 0, 1]], (4, 4, 4))


def titles(texts=TITLES):
    return pa.array(texts, pa.large_string())


def visits(*lists):
    return Sequences.of(lists or [[0, 1, 2, 0], [2, 1]])


def exported(name, folder, sids=None, **parts):
    """Export the running example, or other SIDs; the folder and the record. options=... are those of --set."""
    job = ExportJob(sids if sids is not None else table(), **parts)
    return folder, export(name, job, folder)


def random_table(n=500, sizes=(16, 8, 4), seed=0, ids=None):
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, size, n) for size in sizes], axis=1)
    return SidTable(np.arange(1, n + 1) if ids is None else ids, codes, sizes)


def pairs(sids):
    """The multiset of (item, codes)."""
    return sorted(zip(map(str, sids.ids.to_pylist()), map(tuple, sids.codes.tolist()), strict=True))
