"""Files that belong together: SIDs and the tokenizer and embeddings that they were made from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..data.inputs import as_rows
from ..errors import InputError
from ..files.atomic import replace_file
from ..sids.origin import Origin
from .fingerprint import DIGEST_ROWS, embeddings_digest, fingerprint, spaced_rows

if TYPE_CHECKING:
    from ..rows.sources import Source
    from .tokenizer import FittedTokenizer

__all__ = [
    "note_start",
    "other_embeddings",
    "require_fitted_on",
    "require_made_by",
    "require_started_by",
    "verify_fitted_on",
]

START = "origin.json"  # in OUTPUT.unfinished


def require_made_by(origin: Origin, sids: Any, fitted: FittedTokenizer, tokenizer: Any) -> None:
    """An error if SIDs are noted to be made by another tokenizer than this one."""
    if origin.tokenizer_digest and origin.tokenizer_digest != fitted.digest:
        raise InputError(
            f"{sids} was made by the tokenizer {origin.tokenizer} ({origin.tokenizer_digest}), not by {tokenizer} "
            f"({fitted.digest}); give that one, or use --force"
        )


def require_fitted_on(fitted: FittedTokenizer, tokenizer: Any, source: Source, embeddings: Any) -> None:
    """An error if a tokenizer was fitted on as many rows of the same width as these are, but on others."""
    facts = fitted.facts
    if (facts.get("rows"), fitted.d) != source.shape or facts.get("roles"):
        return
    ours = fingerprint(as_rows(source, "cpu", check="done"))
    if facts["data_fingerprint"] != ours:
        raise InputError(
            f"{tokenizer} was fitted on other embeddings ({facts['data_fingerprint'][:16]}) than {embeddings} "
            f"({ours[:16]}); give those, or use --force"
        )


def verify_fitted_on(fitted: FittedTokenizer, tokenizer: Any, source: Source, embeddings: Any) -> None:
    """An error unless these are the embeddings that a tokenizer was fitted on, as far as its fingerprint tells."""
    if fitted.facts.get("roles"):
        raise InputError(f"{tokenizer} was fitted on several files together, which --verify cannot compare with one")
    rows = fitted.facts.get("rows"), fitted.d
    if rows != source.shape:
        raise InputError(
            f"{tokenizer} was fitted on {rows[0]} rows of {rows[1]} dimensions, and {embeddings} has {source.shape[0]} "
            f"of {source.shape[1]}; --verify is for the embeddings of the fit"
        )
    require_fitted_on(fitted, tokenizer, source, embeddings)


def other_embeddings(origin: Origin, source: Source) -> bool:
    """Whether SIDs were made from as many vectors of the same width as these are, but from others."""
    shape, _, digest = origin.embeddings_digest.partition(":")
    if shape != f"{source.shape[0]}x{source.shape[1]}":
        return False
    return embeddings_digest(spaced_rows(as_rows(source, "cpu", check="done"), DIGEST_ROWS), source.shape) != (
        f"{shape}:{digest}"
    )


def note_start(folder: Path, fitted: FittedTokenizer, tokenizer: Any) -> None:
    """Note in the folder of an unfinished encoding which tokenizer it was started with."""
    note = {"tokenizer": str(tokenizer), "tokenizer_digest": fitted.digest}
    with replace_file(folder / START) as temporary:
        temporary.write_text(json.dumps(note) + "\n", encoding="utf-8")


def require_started_by(folder: Path, fitted: FittedTokenizer, tokenizer: Any) -> None:
    """An error if an unfinished encoding was started with another tokenizer."""
    try:
        note = json.loads((folder / START).read_text(encoding="utf-8"))
        name, digest = note["tokenizer"], note["tokenizer_digest"]
    except (OSError, ValueError, KeyError, TypeError):  # of an older version; its states name what they belong to
        return
    if digest != fitted.digest:
        raise InputError(
            f"{folder} was started with the tokenizer {name} ({digest}), not with {tokenizer} ({fitted.digest}); "
            "resume with that one, or start again with --force"
        )
