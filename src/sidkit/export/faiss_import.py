"""Codes from a faiss index that someone else wrote.

faiss trusts what it reads: a damaged or hostile file can crash the process, or make it ask for all memory. So another
process reads it (`faiss_child.py`), with limits on memory and time, and hands over plain arrays.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, need
from ..sids.table import SidTable
from .imports import Foreign

__all__ = ["read_faiss"]

SECONDS = 600


def read_faiss(path: Path, how: Foreign) -> SidTable:
    """The codes of an IndexResidualQuantizer or IndexPQ, also behind transforms and with ids of its own."""
    need("faiss", "faiss", "reading faiss indexes")
    with TemporaryDirectory() as folder:
        result = Path(folder) / "codes.npz"
        command = [sys.executable, "-m", "sidkit.export.faiss_child", str(path.absolute()), str(result)]
        here = os.pathsep.join(filter(None, sys.path))
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                timeout=SECONDS,
                env=os.environ | {"PYTHONPATH": here},
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise InputError(f"{path}: faiss did not read it within {SECONDS} seconds") from None
        if done.returncode:
            lines = done.stderr.strip().splitlines()
            said = re.split(r"\.cpp:\d+: ", lines[-1])[-1][:300] if lines else ""  # without where in faiss
            reason = said if done.returncode == 1 and said else f"it crashed (exit {done.returncode})"
            raise InputError(f"faiss cannot read {path}: {reason}")
        with np.load(result, allow_pickle=False) as arrays:
            packed, bits, ids = (arrays[name] for name in ("codes", "bits", "ids"))
    sizes = tuple(2 ** int(bit) for bit in bits)
    if how.sizes is None:
        how = Foreign(how.levels, sizes[: how.levels], how.first, how.notes)
    return how.table(ids, unpacked(packed, bits.tolist()))


def unpacked(packed: NDArray[np.uint8], bits: list[int]) -> NDArray[np.int64]:
    """The codes of faiss's bit strings, level 0 in the low bits: (n, bytes) -> (n, levels)."""
    digits = np.unpackbits(packed, axis=1, bitorder="little")
    ends = np.cumsum(bits)
    columns = [
        digits[:, end - bit : end].astype(np.int64) @ (1 << np.arange(bit, dtype=np.int64))
        for bit, end in zip(bits, ends, strict=True)
    ]
    return np.stack(columns, axis=1)
