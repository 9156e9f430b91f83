"""A tokenizer and what goes with it, loaded together and replaced together.

A request takes the snapshot that is current when it arrives and keeps it to its end, so that a reload neither loses a
request nor mixes two tokenizers in one answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..embed.encoder import Encoder
from ..embed.store import load as load_encoder
from ..errors import InputError
from ..rows.local import LocalRows
from ..rows.sources import ArraySource
from ..sids.template import Template, template_named
from ..sids.writer import SidWriter
from ..tokenizer.pairs import require_made_by
from ..tokenizer.store import FORMAT
from ..tokenizer.tokenizer import FittedTokenizer, load
from .options import ServeOptions
from .published import Published, open_published

__all__ = ["Snapshot", "state_of"]


@dataclass(frozen=True, eq=False)
class Snapshot:
    """What one answer is made from."""

    fitted: FittedTokenizer
    published: Published | None
    encoder: Encoder | None
    retriever: Any
    search: Any
    state: tuple[Any, ...]  # of the files when they were loaded

    @classmethod
    def load(cls, options: ServeOptions, before: Snapshot | None = None) -> Snapshot:
        """Everything that options name; models of the snapshot before are kept, as they do not change."""
        state = state_of(options)
        fitted = load(options.tokenizer)
        published = None
        if options.sids:
            same = before is not None and before.published is not None and before.state[1] == state[1]
            published = before.published if same and before else open_published(options.sids)
            assert published is not None
            require_made_by(published.origin, options.sids, fitted, options.tokenizer)
            if tuple(published.sizes) != tuple(fitted.sizes):
                raise InputError(f"{options.sids} has sizes {published.sizes}, {options.tokenizer} {fitted.sizes}")
        if before is not None:
            return cls(fitted, published, before.encoder, before.retriever, before.search, state)
        encoder = load_encoder(options.encoder) if options.encoder else None
        if encoder is not None and (width := encoder.embed(["x"], query=True).shape[1]) != fitted.d:
            raise InputError(f"{options.encoder} makes vectors of {width} dimensions, the tokenizer takes {fitted.d}")
        return cls(fitted, published, encoder, _retriever(options.retriever), _search(options.search), state)

    @cached_property
    def template(self) -> Template:
        """How SIDs are written: as the published ones are."""
        return self.published.template if self.published else template_named("letters")

    @cached_property
    def _words(self) -> list[list[str]]:
        return [self.template.words(level, size) for level, size in enumerate(self.fitted.sizes)]

    def written(self, codes: NDArray[np.int32]) -> list[str]:
        """codes (n, levels) as SIDs."""
        words, form = self._words, self.template
        tokens = ([words[level][code] for level, code in enumerate(one)] for one in codes.tolist())
        return [form.begin + form.between.join(one) + form.end for one in tokens]

    @cached_property
    def written_as_arrow(self) -> SidWriter:
        """Codes (n, levels) as an Arrow array of SIDs."""
        return SidWriter(self.template, self._words)

    def encode(self, x: NDArray[Any]) -> NDArray[np.int32]:
        """Vectors (n, d), checked before and in the dtype of the tokenizer, to codes (n, levels)."""
        return LocalRows(ArraySource(x)).map(self.fitted.chain).codes()


def _retriever(run: str | None) -> Any:
    if run is None:
        return None
    from ..retriever.retriever import Retriever

    return Retriever.load(run)


def _search(run: str | None) -> Any:
    if run is None:
        return None
    from ..search.model.model import SearchModel

    return SearchModel.load(Path(run))


def state_of(options: ServeOptions) -> tuple[Any, ...]:
    """Changes when the tokenizer or the file of SIDs is replaced."""
    return tuple(_stat(path) for path in (Path(options.tokenizer) / FORMAT.config, options.sids))


def _stat(path: str | Path | None) -> Any:
    try:
        facts = Path(path).stat() if path else None
    except OSError:
        return None
    return facts and (facts.st_ino, facts.st_mtime_ns, facts.st_size)
