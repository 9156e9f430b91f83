"""The first weights of a search model: a fresh BART or one of a local folder, with rows for SID tokens.

A SID token starts from the centroid that it stands for, where the tokenizer has one: the codebook of a level is mapped
to the model's width by an orthogonal matrix, each level by its own, so tokens of a level are as near to each other as
their centroids are. Its rows have the mean and the length of rows of words. Other SID tokens start at random.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ...errors import InputError, need
from ...files.pretrained import quiet, reading, require_plain, whole
from ...stages.stage import HasCodebooks
from ...tokenizer.tokenizer import FittedTokenizer
from ..bart.shape import BartShape, build_bart, shape_of
from ..bart.weights import Weights, from_state
from ..training.plan import SearchPlan
from ..training.tokens import Tokens

__all__ = ["centroid_rows", "first_weights", "plan_of_folder", "start_of"]


def first_weights(plan: SearchPlan, tokens: Tokens, tokenizer: FittedTokenizer | None, start: Path | None) -> Weights:
    """The weights that a training begins with; start: a local folder of a BART."""
    torch.manual_seed(plan.seed)
    if start is None:
        special = {"pad": tokens.pad, "bos": tokens.bos, "eos": tokens.eos}
        weights = from_state(build_bart(plan.shape, tokens.size, special).state_dict(), plan.shape)
    else:
        weights = start_of(start, plan.shape)
        weights["shared"] = _resized(weights["shared"], tokens, plan.seed)
    if plan.from_centroids and tokenizer is not None:
        for at, rows in centroid_rows(tokenizer, weights["shared"][: tokens.first], plan.seed).items():
            weights["shared"][tokens.first + at : tokens.first + at + len(rows)] = rows
    return weights


def start_of(folder: Path, shape: BartShape) -> Weights:
    """The weights of a local BART, which has this shape."""
    return from_state(_pretrained(folder).state_dict(), shape)


def plan_of_folder(plan: SearchPlan, start: Path) -> SearchPlan:
    """The plan with the shape of a local BART."""
    return replace(plan, shape=shape_of(_pretrained(start).config))


def centroid_rows(tokenizer: FittedTokenizer, words: Any, seed: int) -> dict[int, Any]:
    """By the index of a level's first SID token, the rows of its tokens: (size, d) each.

    words: (V, d) the rows of words, whose mean and length they get. Levels without one centroid per code are absent.
    """
    mean = words.mean(0)
    length = float((words - mean).norm(dim=1).mean())
    rows, at, level = {}, 0, 0
    for stage in tokenizer.stages:
        books: list[Any] = list(stage.codebooks) if isinstance(stage, HasCodebooks) else [None] * len(stage.sizes)
        for size, book in zip(stage.sizes, books, strict=False):
            if book is not None and np.shape(book)[0] == size:
                rows[at] = mean + length * _turned(np.asarray(book, np.float64), words.shape[1], (seed, level))
            at, level = at + size, level + 1
    return rows


def _turned(book: NDArray[np.float64], width: int, seed: tuple[int, int]) -> Any:
    """A codebook (K, d) in `width` dimensions, its rows of mean length one, with the mean removed."""
    centred = book - book.mean(0)
    d = max(width, centred.shape[1])
    matrix = np.linalg.qr(np.random.default_rng(seed).normal(size=(d, min(width, centred.shape[1]))))[0]
    turned = centred @ (matrix.T if centred.shape[1] <= width else matrix)
    turned /= max(float(np.linalg.norm(turned, axis=1).mean()), 1e-12)
    return torch.as_tensor(turned, dtype=torch.float32)


def _resized(shared: Any, tokens: Tokens, seed: int) -> Any:
    """Rows of words as they are, and rows for all tokens after them, drawn with their mean and deviation."""
    words = shared[: tokens.first]
    drawn = torch.randn(tokens.size - len(words), words.shape[1], generator=torch.Generator().manual_seed(seed))
    return torch.cat([words, words.mean(0) + words.std(0) * drawn])


def _pretrained(folder: Path) -> Any:
    need("transformers", "search", "a search model that starts from a folder")
    from transformers import BartForConditionalGeneration

    if not folder.is_dir():
        raise InputError(f"no such model folder: {folder}; --start names a local folder with a BART")
    advice = "give the folder of a whole BART"
    require_plain(folder, advice)
    with reading(f"read a BART from {folder}", advice), quiet():
        own: dict[str, Any] = {"local_files_only": True, "use_safetensors": True, "output_loading_info": True}
        return whole(BartForConditionalGeneration.from_pretrained(folder, **own))
