"""rectokens' trie and its tokens. rectokens has no file for either; ours is a safetensors file with its field names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from ..errors import InputError, SpecError
from ..sids.template import TEMPLATES
from ..sids.trie import Trie
from .refusals import require_one_size
from .target import ExportJob, ExportOption, ExportTarget
from .vocabulary import token_list

__all__ = ["TARGET", "trie_arrays"]

DENSE = ExportOption("dense", int, 2, "levels that are looked up densely, 0, 1 or 2", 0)
CELLS = 1 << 27


def write(job: ExportJob, folder: Path) -> None:
    table = job.table
    size = require_one_size(table.sizes, "rectokens")
    if job.options["dense"] > 2:
        raise SpecError(f"--set dense must be 0, 1 or 2, not {job.options['dense']}")
    dense = min(job.options["dense"], len(table.sizes))
    if size**dense > CELLS:
        raise InputError(
            f"{dense} dense levels over {size:,} codes are {size**dense:,} cells; at most {CELLS:,} are written: use "
            f"--set dense={dense - 1}"
        )
    arrays = trie_arrays(Trie.of(table), size, dense)
    facts = {"vocab_size": str(size), "layers": str(len(table.sizes))}
    (folder / "trie.safetensors").write_bytes(save(arrays, facts))  # save_file would keep the file to its owner
    tokens = token_list(TEMPLATES["rectokens"], table.sizes)
    (folder / "new_tokens.json").write_text(json.dumps(tokens, indent=0) + "\n", encoding="utf-8")


def trie_arrays(trie: Trie, size: int, dense: int) -> dict[str, NDArray[Any]]:
    """The fields of a CompactCSRTrie: nodes breadth first, root 0; the last column is a sentinel."""
    tokens = np.concatenate([*trie.codes, [-1]])
    edges = len(tokens) - 1
    degree = np.concatenate([np.diff(children) for children in trie.children])  # of all nodes but the leaves
    pointers = np.full(edges + 1, edges, np.int64)
    pointers[: len(degree)] = np.concatenate([[0], np.cumsum(degree)[:-1]])
    arrays = {
        "row_ptrs": pointers,
        "stacked_cols_vals": np.stack([tokens, [*range(1, edges + 1), -1]]).astype(np.int64),
        "layer_max_branches": np.array([int(np.diff(children).max()) for children in trie.children], np.int64),
    }
    if not dense:
        return arrays | {"dense_states": np.zeros(0, np.int64)}
    states = np.zeros((size,) * dense, np.int64)
    first = 1 + sum(len(codes) for codes in trie.codes[: dense - 1])  # the number of the first node of that level
    paths = [trie.codes[0]] if dense == 1 else [np.repeat(trie.codes[0], np.diff(trie.children[1])), trie.codes[1]]
    states[tuple(paths)] = first + np.arange(len(paths[0]))
    masks = {f"dense_mask_by_layer.{level}": states.any(axis=tuple(range(level + 1, dense))) for level in range(dense)}
    return arrays | {"dense_states": states} | {name: np.ascontiguousarray(mask) for name, mask in masks.items()}


TARGET = ExportTarget(
    "rectokens",
    "rectokens",
    "trie.safetensors (the fields of CompactCSRTrie), new_tokens.json (its tokens, in the order of their ids)",
    write,
    (DENSE,),
)
