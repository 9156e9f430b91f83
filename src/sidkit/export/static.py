"""STATIC's index for constrained decoding: a dense head, then a sparse transition matrix.

STATIC builds these arrays in memory and has no file of its own; ours is an .npz with the names of its arrays.

    states: 0 is the end; the first token t is state t + 1; prefixes of 2 … L-1 tokens follow from V + 1, level by level
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, SpecError
from ..sids.trie import Trie
from .target import ExportJob, ExportOption, ExportTarget
from .vocabulary import offsets

__all__ = ["TARGET", "static_arrays"]

DENSE = ExportOption(
    "dense", int, None, "levels that are looked up densely, 1 or 2 [default: 2, or 1 of two levels]", 1
)
NUMBERS = ExportOption("numbers", str, "codes", "codes (all levels share 0 … K-1) or offset (level-major from 0)")
CELLS = 1 << 27  # of a dense table, at most: 128 MB of booleans and 512 MB of states


def write(job: ExportJob, folder: Path) -> None:
    table, numbers = job.table, job.options["numbers"]
    if numbers not in ("codes", "offset"):
        raise SpecError(f"--set numbers must be codes or offset, not {numbers!r}")
    levels, V = len(table.sizes), max(table.sizes) if numbers == "codes" else sum(table.sizes)
    dense = job.options["dense"] or min(2, levels - 1)
    if levels < 2 or not 1 <= dense <= min(2, levels - 1):
        raise InputError(f"STATIC needs fewer dense levels than SIDs have ({levels}), 1 or 2; got {dense}")
    if V**dense > CELLS:
        raise InputError(
            f"{dense} dense levels over {V:,} tokens are {V**dense:,} cells; at most {CELLS:,} are written: use --set "
            "dense=1, or --set numbers=codes"
        )
    trie = Trie.of(table)
    starts = offsets(table.sizes) if numbers == "offset" else np.zeros(levels, np.int64)
    words = [codes.astype(np.int64) + start for codes, start in zip(trie.codes, starts, strict=True)]
    arrays = static_arrays(words, trie.children, V, dense)
    np.savez(folder / "static_index.npz", **arrays)  # type: ignore[arg-type]


def static_arrays(
    words: list[NDArray[np.int64]], children: tuple[NDArray[Any], ...], V: int, dense: int
) -> dict[str, NDArray[Any]]:
    """The arrays of STATIC. words: per level, the last token of every node; children: as `Trie` has them."""
    levels = len(words)
    state = [words[0] + 1]  # the state of every node, level by level
    used = V + 1
    for level in range(1, levels - 1):
        state.append(used + np.arange(len(words[level])))
        used += len(words[level])
    state.append(np.zeros(len(words[-1]), np.int64))
    edges = sum(map(len, words[1:]))
    if max(used, edges + V) >= 2**31:
        raise InputError("STATIC numbers states in 32 bits, and this catalogue has more of them")
    degree = np.zeros(used, np.int64)
    for level in range(1, levels):
        degree[state[level - 1]] = np.diff(children[level])
    packed = np.concatenate([np.stack([word, next_], 1) for word, next_ in zip(words[1:], state[1:], strict=True)])
    padding = np.tile([V, 0], (V, 1))
    indptr = np.concatenate([[0], np.cumsum(degree), [edges + V]])
    branches = [len(words[0]), *(int(np.diff(children[level]).max()) for level in range(1, levels))]
    mask, states = np.zeros((V,) * dense, bool), np.zeros((V,) * dense, np.int32)
    paths = [words[0]] if dense == 1 else [np.repeat(words[0], np.diff(children[1])), words[1]]
    mask[tuple(paths)], states[tuple(paths)] = True, state[dense - 1]
    return {
        "packed_csr": np.concatenate([packed, padding]).astype(np.int32),
        "indptr": indptr.astype(np.int32),
        "layer_max_branches": np.array(branches, np.int64),
        "start_mask": np.isin(np.arange(V), words[0]),
        "dense_mask": mask,
        "dense_states": states,
    }


TARGET = ExportTarget(
    "static", "STATIC (youtube/static-constraint-decoding)", "static_index.npz", write, (DENSE, NUMBERS)
)
