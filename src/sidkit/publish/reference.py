"""What new items are compared with: readings of items that were not in the fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data.inputs import as_source
from ..errors import InputError, SpecError
from ..files.atomic import replace_file
from ..files.folder import check_digest, with_digest
from ..stages.scalar import FSQ
from ..stages.vae.r3vae import R3VAE
from ..stages.vae.rqvae import RQVAE
from .readings import FEWEST, Readings, readings_of

if TYPE_CHECKING:
    from ..tokenizer.tokenizer import FittedTokenizer

__all__ = ["held_out_reference", "read_reference", "write_reference"]

FORMAT = "sidkit-reference"
ROWS = 100_000  # rows of the fit that are read at most
HELD_OUT = 0.1  # the share of them that the second fit leaves out


def held_out_reference(fitted: FittedTokenizer, X: Any, seed: int = 0) -> Readings:
    """Readings as new items of the same source would have, from the rows X that a tokenizer was fitted to.

    The rows of a fit are nearer to their centroids than other rows of the same source, so they cannot be the reference.
    The recipe is fitted again to nine tenths of them, and the other tenth gives the distances; their tokens are those
    of the tokenizer itself. A fit to fewer rows is a little worse, which makes alarms rarer, not more frequent.
    """
    for stage in fitted.spec.stages:
        if isinstance(stage, RQVAE | R3VAE) or (isinstance(stage, FSQ) and stage.projection == "learned"):
            raise SpecError(
                f"{type(stage).__name__} takes long to train a second time; name embeddings of items that were not in "
                "the fit with --reference, for example the first that were appended"
            )
    source = as_source(X)
    order = np.random.default_rng(seed).permutation(source.shape[0])[:ROWS]
    cut = int(len(order) * HELD_OUT)
    if cut < FEWEST:
        raise InputError(f"{len(order)} rows are too few for a reference; give at least {int(FEWEST / HELD_OUT)}")
    left_out = np.asarray(source.take(np.sort(order[:cut])))
    second = fitted.spec.fit(np.asarray(source.take(np.sort(order[cut:]))), seed=fitted.seed)
    other = readings_of(second, left_out, seed)
    return Readings(readings_of(fitted, left_out, seed).codes, other.distance, other.distortion, other.gaps)


def write_reference(path: Path, readings: Readings, digest: str) -> None:
    """Write readings as JSON; digest: of the tokenizer that they are for."""
    with replace_file(path) as temporary:
        plain = {"format": FORMAT, "tokenizer": digest, **readings.to_plain()}
        temporary.write_text(json.dumps(with_digest(plain)), "utf-8")


def read_reference(path: Path, fitted: FittedTokenizer) -> Readings:
    """What `write_reference` wrote; an error if it is for another tokenizer."""
    try:
        plain = json.loads(path.read_text("utf-8"))
        check_digest(plain, path, "make it again")
        named = plain["format"], plain["tokenizer"]
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{path} is no reference of sidkit publish watch: {error}") from None
    if named != (FORMAT, fitted.digest):
        raise InputError(f"{path} is a reference for the tokenizer {named[1]}, not for {fitted.digest}")
    return Readings.from_plain(plain, len(fitted.sizes))
