"""A tokenizer is a tuple of stages; fitting one returns another object that encodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.inputs import as_rows
from ..errors import SpecError
from ..files.hub import HubFolder
from ..progress import Progress, shown
from ..rows.run_report import ran_on
from ..rows.seam import Rows
from ..sids.table import SidTable
from ..sids.template import Template
from ..stages.prepare import FittedRemoveMean
from ..stages.stage import FitContext, FitsSeeds, Fitted, HasCodebooks, Stage, require_stages
from .card import facts_of, model_card
from .chain import StageChain
from .decode import decode_codes
from .fingerprint import tokenizer_digest
from .fitting import fit_stages
from .numbering import number_equal, require_private
from .show import fitted_html, fitted_line, spec_html, spec_line
from .source_like_fit import ids_and_origin, source_like_fit
from .spread import copied_if_slow, require_spreadable
from .spread import spread as spread_rows
from .store import StoredTokenizer, check_target, read_parts, write_parts
from .windows import encode_in_windows

__all__ = ["FittedTokenizer", "Tokenizer", "load"]


@dataclass(frozen=True)
class Tokenizer:
    """How to make semantic IDs: a frozen value, not fitted."""

    stages: tuple[Stage, ...]
    name: str = field(default="", compare=False)  # the recipe it came from, for people

    def __post_init__(self) -> None:
        require_stages(self.stages)

    def __repr__(self) -> str:
        return spec_line(self.name, self.stages)

    def _repr_html_(self) -> str:
        return spec_html(self.name, self.stages)

    def fit(
        self,
        X: Any,
        seed: int = 0,
        init: Sequence[NDArray[np.integer[Any]]] | None = None,
        device: str = "auto",
        progress: Progress | bool | None = None,
        checkpoint: str | Path | None = None,
        starts: Mapping[int, NDArray[Any]] | None = None,
    ) -> FittedTokenizer:
        """Fit to embeddings: an array, a tensor, a path, Rows, or a frame or a column of pandas, polars or Arrow.

        progress     True for bars, in a notebook too
        init         per level, the numbers of the rows whose current residuals start the codebook, which makes a fit
                     reproducible against any other implementation
        checkpoint   a folder for finished stages and, once a minute, the state of an unfinished one: a fit that was
                     killed and is called again ends as if it had never stopped
        starts       level -> centroids (K, d) that start its codebook, for a refit (`tokenizer/warm.py`)
        """
        return self._fit(X, [seed], init, device, progress, checkpoint, starts)[0]

    def fit_seeds(
        self,
        X: Any,
        seeds: Sequence[int],
        init: Sequence[NDArray[np.integer[Any]]] | None = None,
        device: str = "auto",
        progress: Progress | bool | None = None,
        checkpoint: str | Path | None = None,
    ) -> list[FittedTokenizer]:
        """Fit with several seeds: [spec.fit(X, seed=seed) for seed in seeds], with the same results.

        Learned tokenizers train all seeds at once, which on a GPU takes little longer than one. Rows are read and
        checked once. The arguments are those of `fit`; a checkpoint is resumed by a call with the same seeds.
        """
        return self._fit(X, seeds, init, device, progress, checkpoint, None)

    @property
    def fits_seeds_at_once(self) -> bool:
        """Whether `fit_seeds` saves time, as for learned tokenizers."""
        return any(isinstance(stage, FitsSeeds) for stage in self.stages)

    def _fit(
        self,
        X: Any,
        seeds: Sequence[int],
        init: Sequence[NDArray[np.integer[Any]]] | None,
        device: str,
        progress: Progress | bool | None,
        checkpoint: str | Path | None,
        starts: Mapping[int, NDArray[Any]] | None,
    ) -> list[FittedTokenizer]:
        _require_seeds(seeds)
        with shown(progress) as report:
            runs = [FitContext(int(seed), init, report, device, starts=starts) for seed in seeds]
            fits = fit_stages(self.stages, X, runs, checkpoint)
        return [
            FittedTokenizer(
                self, fit.stages, fit.rows.shape[1], np.dtype(fit.rows.dtype).name, run.seed, fit.rows,
                fit.data_fingerprint, roles=fit.roles, columns=fit.columns,
            )
            for run, fit in zip(runs, fits, strict=True)
        ]  # fmt: skip


def _require_seeds(seeds: Sequence[int]) -> None:
    for seed in seeds:
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
            raise SpecError(f"the seed must be a whole number from 0 on, not {seed!r}")
    if len(set(seeds)) < len(seeds) or not len(seeds):
        raise SpecError(f"the seeds must be one or more different numbers, not {list(seeds)}")


@dataclass(frozen=True, eq=False)
class FittedTokenizer(HubFolder):
    """Fitted stages. Encodes, saves, and shows what it learned."""

    spec: Tokenizer
    stages: tuple[Fitted, ...]
    d: int
    dtype: str
    seed: int
    fitted_rows: Rows | None = field(default=None, repr=False)  # the rows it was fitted on; not saved
    data_fingerprint: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict, repr=False)  # of the fit, as saved in config.json
    roles: Mapping[str, tuple[int, int]] = field(default_factory=dict, repr=False)  # of a joint fit: role -> its rows
    columns: Mapping[str, Any] = field(default_factory=dict, repr=False)  # role -> the columns of its file, as `facts`

    def __repr__(self) -> str:
        return fitted_line(self)

    def _repr_html_(self) -> str:
        return fitted_html(self)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of codes of each token."""
        return self.chain.sizes

    @property
    def mean(self) -> NDArray[Any] | None:
        """The global mean mu, (d,); None if the tokenizer removes none."""
        return next((stage.mean for stage in self.stages if isinstance(stage, FittedRemoveMean)), None)

    @property
    def codebooks(self) -> list[NDArray[Any]]:
        """The centroids of each token, (K, d) each, in the space the token is decided in.

        A level with a codebook per parent has one array, parent after parent; FSQ tokens have none.
        """
        return [book for stage in self.stages if isinstance(stage, HasCodebooks) for book in stage.codebooks]

    @property
    def fit_codes(self) -> NDArray[np.int32] | None:
        """The tokens of the rows it was fitted on; None once loaded from disk."""
        return None if self.fitted_rows is None else self.fitted_rows.codes()

    def encode(
        self,
        X: Any,
        device: str = "auto",
        progress: Progress | bool | None = None,
        checkpoint: str | Path | None = None,
        spread: bool = False,
        ran: dict[str, Any] | None = None,
        digests: dict[str, str] | None = None,
        numbered: bool = False,
    ) -> NDArray[np.int32]:
        """Semantic IDs of embeddings, given as for `fit`: int32, (n, number of tokens). `table` has their ids as well.

        checkpoint   a folder for the codes of every million rows: a call that was killed and is made again does not
                     compute them again
        spread       items that would share a SID take free codes of the last level (`tokenizer/spread.py`). A row's
                     last token then depends on the others, so encode all items of a catalogue together
        ran          a dictionary to fill with the device that did the work (`run_report.ran_on`); it stays empty if
                     there was none to do
        digests      with a checkpoint, a dictionary to fill with the digest of the embeddings, as SID files note it
        numbered     equal rows of a parent with few rows take different codes of its codebook, as far as there are
                     (`tokenizer/numbering.py`); as with spread, encode all items of a catalogue together
        """
        with shown(progress) as report:
            if numbered:
                require_private(self)
            if spread:
                require_spreadable(self)
                folder = None if checkpoint is None else Path(checkpoint).absolute().parent
                X = copied_if_slow(X, self.d, folder, report)
            if checkpoint is not None:
                rows, codes = encode_in_windows(self, X, device, report, checkpoint, ran, digests)
            else:
                rows = as_rows(X, device, report, np.dtype(self.dtype), self.d, "read", work=sum(self.sizes))
                rows.prepare(float(sum(self.sizes)) * rows.shape[0] * rows.shape[1])
                report.start("encode", rows.shape[0])
                encoded = rows.map(self.chain)
                codes = encoded.codes()
                if ran is not None:
                    ran.update(ran_on(encoded, encoding=True))
            codes = number_equal(self, codes) if numbered else codes
            return spread_rows(self, rows, codes, report) if spread else codes

    def table(
        self,
        X: Any,
        ids: Any = None,
        template: Template | str = "letters",
        id_column: str | None = None,
        column: str | None = None,
        **encoding: Any,
    ) -> SidTable:
        """The SIDs of items with their ids: encode, as a table.

        X: as for `encode`. The ids are those of the file or frame, in the column that the fit remembers, if there is
        one of that name; row numbers where there are none; or those given.
        id_column, column: names of the columns of ids and vectors; encoding: further arguments of `encode`.
        """
        source = source_like_fit(self.columns, X, id_column, column)
        codes = self.encode(source, **encoding)
        found, origin = ids_and_origin(source, self.digest)
        return SidTable(found if ids is None else ids, codes, self.sizes, template, origin)

    def decode(self, codes: Any) -> NDArray[Any]:
        """The vectors that codes (n, tokens) stand for, (n, d); fewer tokens than a SID has are decoded as a prefix.

        Plain RQ-KMeans, PQ, OPQ and faiss's quantizers: the sum of the chosen centroids, so that x - decode(encode(x))
        is what was left of x. RQ-VAE: what its decoder makes of the codewords.

        Where rows and residuals are scaled to length one, as in PRQ-KMeans, RQ-KMeans and their variants, no code
        contains the lengths; every level is scaled back by the length that is left on average, since a centroid is the
        mean of the rows that chose it:

            r^ = c + sqrt(1 - |c|^2) r^',   r^' = the same of the next level, without its part along c if c was
                                            projected out; nothing after the last level

        and the global mean likewise. The result is an estimate of the row of length one: its length is below one by
        what the codes do not tell. R3-VAE and the tokens of FSQ stand for no vector, and are refused.
        """
        return decode_codes(self.stages, codes, self.d, self.dtype)

    @cached_property
    def chain(self) -> StageChain:
        """All stages as one: every token of a chunk in a single pass."""
        return StageChain(self.stages)

    @cached_property
    def digest(self) -> str:
        """16 digits that identify it; a SID file notes those of the tokenizer that made it."""
        return tokenizer_digest(self.stages, self.spec.stages, self.dtype)

    def save(self, path: str | Path) -> Path:
        """Write the model folder: config.json, model.safetensors, README.md."""
        path = Path(path)
        check_target(path)
        fitted = replace(self, facts=self.facts or facts_of(self))
        parts = StoredTokenizer(
            self.spec.name, self.spec.stages, self.stages, self.d, self.dtype, self.seed, fitted.facts
        )
        write_parts(path, parts, model_card(fitted, path.name))
        return path

    @classmethod
    def _read(cls, folder: Path, **options: Any) -> FittedTokenizer:
        return load(folder)

    def _card(self, name: str) -> str:
        return model_card(replace(self, facts=self.facts or facts_of(self)), name)


def load(path: str | Path) -> FittedTokenizer:
    """Read a model folder, checking all of it."""
    parts = read_parts(Path(path))
    spec = Tokenizer(parts.spec, parts.name)
    columns = parts.facts.get("columns", {})
    return FittedTokenizer(spec, parts.stages, parts.d, parts.dtype, parts.seed, facts=parts.facts, columns=columns)
