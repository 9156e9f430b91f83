"""The tokens of SIDs as a vocabulary: in which order, and under which ids.

Level-major order over all codes, used or not, gives a code an id that never changes:

    id = base + K_0 + … + K_{l-1} + c
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, SpecError
from ..files.folder import read_json
from ..sids.template import Template
from .refusals import require_path
from .target import ExportJob, ExportOption

__all__ = ["BASE", "LETTERS", "TEMPLATE", "VOCABULARY", "base_of", "offsets", "token_ids", "token_list"]

BASE = ExportOption("base", int, None, "the vocabulary id of the first SID token")
VOCABULARY = ExportOption("vocabulary", str, None, "a tokenizer folder of transformers that has the SID tokens")
TEMPLATE = ExportOption("template", str, None, "how tokens are written, as for `encode` [default: as in the SIDs]")
LETTERS = ExportOption("template", str, "letters", "how tokens are written, as for `encode`")
LIMIT = 1 << 28  # bytes of a tokenizer.json


def token_list(form: Template, sizes: Sequence[int]) -> list[str]:
    """All tokens: those of level 0, of level 1, …, then what begins and ends a SID."""
    tokens = [word for level, size in enumerate(sizes) for word in form.words(level, size)]
    tokens += [part.strip() for part in (form.begin, form.end) if part.strip()]
    if len(set(tokens)) < len(tokens):
        raise SpecError(
            f"the template {form.token!r} writes the same token for two codes; levels must differ, as by {{letter}}"
        )
    return tokens


def offsets(sizes: Sequence[int]) -> NDArray[np.int64]:
    """(levels,) the number of codes of all earlier levels."""
    return np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)


def token_ids(codes: NDArray[Any], sizes: Sequence[int], base: int) -> NDArray[np.int64]:
    """The level-major ids of codes (n, levels)."""
    return codes.astype(np.int64) + offsets(sizes) + base


def base_of(job: ExportJob) -> int:
    """The id of the first SID token: given, or found in a tokenizer folder, whose ids are then checked."""
    base, folder = job.options["base"], job.options["vocabulary"]
    if (base is None) == (folder is None):
        raise SpecError(
            "this target holds vocabulary ids: give --set base=ID (the id of the first SID token) or --set "
            "vocabulary=DIR (a tokenizer that has the SID tokens, as `sidkit export --to huggingface` writes it)"
        )
    if base is None:
        return _found(require_path(folder, VOCABULARY), token_list(job.template, job.sizes))
    if base < 0 or base + sum(job.sizes) > 2**31 - 1:
        raise SpecError(f"vocabulary ids must lie between 0 and 2^31; base {base} with {sum(job.sizes)} codes does not")
    return int(base)


def _found(folder: Path, tokens: Sequence[str]) -> int:
    ids = _added_tokens(folder)
    missing = [token for token in tokens if token not in ids]
    if missing:
        raise InputError(
            f"{folder} has no token {missing[0]!r} ({len(missing):,} of {len(tokens):,} are missing); make it with: "
            "sidkit export … --to huggingface"
        )
    first = ids[tokens[0]]
    for index, token in enumerate(tokens):
        if ids[token] != first + index:
            raise InputError(
                f"{folder} has {token!r} under id {ids[token]}, not {first + index}: its SID tokens are not level by "
                "level, all codes in order, so their ids cannot be computed from codes"
            )
    return first


def _added_tokens(folder: Path) -> Mapping[str, int]:
    """Token -> id of the tokens that were added to a tokenizer of transformers."""
    file = folder / "tokenizer.json" if folder.is_dir() else folder
    if not file.is_file():
        raise InputError(f"{folder} holds no tokenizer.json, which lists the added tokens")
    try:
        return {
            entry["content"]: int(entry["id"]) for entry in read_json(file, "fetch it again", LIMIT)["added_tokens"]
        }
    except (KeyError, TypeError, ValueError):
        raise InputError(f"{file} lists no added tokens") from None
