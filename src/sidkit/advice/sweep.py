"""Fit candidates on a sample, count their SIDs on many rows, and choose the sizes that meet a target."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.inputs import as_source
from ..data.joint import Joint, items_of
from ..data.sequences import Sequences
from ..errors import InputError, SpecError
from ..measure.counting import held_out, require_counted
from ..progress import Progress, Silent
from ..rows.checks import require_good_rows
from ..rows.seam import CHUNK
from ..rows.sources import Source
from ..sids.prefixes import prefix_numbers
from ..tokenizer.tokenizer import FittedTokenizer, Tokenizer
from .by_counting import counted_on, first_stages
from .candidates import CLOSE, Advice, Candidate, Sizes, Target, choose
from .filling import filling
from .intervals import Trial, pairs_of, predicted

__all__ = ["advise"]

Make = Callable[[Sizes], Tokenizer]

ROWS_PER_CODE = 32  # below 16, fits on a sample have more collisions than full fits (docs/choosing-sizes.md)
LARGEST = 4096  # codewords per level that a sweep tries


def advise(
    X: Any,
    target: Target,
    make: Make,
    sizes: Sequence[Sizes] | None = None,
    levels: int = 3,
    sample: int = 20_000,
    count: int = 200_000,
    seed: int = 0,
    device: str = "auto",
    progress: Progress | None = None,
    rows_per_code: int = ROWS_PER_CODE,
    sequences: Sequences | None = None,
) -> Advice:
    """Which sizes meet a target with all rows of X. Of a `Joint`, all rows are fitted and items alone are counted.

    make     sizes -> the tokenizer to fit, such as `sidkit.prq_kmeans`
    sizes    the candidates; by default levels of 16, 32, 64 ... codewords each, until the target is met
    levels   the most tokens an item may have, where sizes are not given
    sample   rows to fit on; more where a codeword would have fewer than rows_per_code; all rows if there are no more
    count    rows whose SIDs are counted

    Fitting passes over rows dozens of times, encoding once, so fitting on a sample and encoding other rows is quick.
    Every candidate is fitted twice, on a sample and on another of half its size. The mean of both fits is the
    prediction; their difference, over all candidates, gives its interval. Where not all rows are counted, two laws
    extrapolate the counts (`filling`); half their difference widens the interval.

    sequences: of the items' rows. Every fit then encodes all items, as they are and spread, and candidates are ranked
    by how well they recommend by counting (`choose`). The default sizes grow until that gains less than CLOSE.
    """
    report = progress or Silent()
    source = as_source(X)
    items = items_of(source)
    n = items.shape[0]
    _require_sense(n, sizes, sample, count)
    report.start("check", source.shape[0])
    require_good_rows(source, report)
    known = None if sequences is None else require_counted(sequences)
    pool = _Pool(source, min(count, n), seed, device, report, rows_per_code, known)
    trials: list[Trial] = []
    for tried in pool.grid(levels) if sizes is None else sizes:
        trials += pool.try_sizes(make, tried, sample, prefixes=sizes is None)
        candidates = predicted(trials, source.shape[0], n / pool.size)
        if sizes is None and _is_enough(candidates, target):
            break
    chosen = choose(candidates, target)
    members = source.members if isinstance(source, Joint) else []
    others = {role: member.shape[0] for role, member in members if member is not items}
    return Advice(
        n,
        pool.size,
        target,
        candidates,
        chosen,
        pairs_of(trials),
        others,
        0 if known is None else len(held_out(known, "valid")[0]),
    )


def _require_sense(n: int, sizes: Sequence[Sizes] | None, sample: int, count: int) -> None:
    if n < 2:
        raise InputError("there are too few rows to advise on")
    if sizes is not None and not sizes:
        raise SpecError("there are no sizes to try")
    if sample < 2 or count < 2:
        raise SpecError(f"cannot fit on {sample} rows and count {count}; give at least 2 of each")


def _is_enough(candidates: Sequence[Candidate], target: Target) -> bool:
    """Whether larger sizes need not be tried: the target is met, or counting gains little over the size before."""
    counted = [one.counted.best for one in candidates if one.counted and len(one.sizes) == len(candidates[-1].sizes)]
    if counted:
        return len(counted) > 1 and counted[-1] < (1 + CLOSE) * counted[-2]
    return candidates[-1].meets(target) == "yes"


@dataclass
class _Pool:
    """The items that are counted, and the same share of other roles; samples are taken from a random order of all."""

    source: Source
    size: int  # items that are counted
    seed: int
    device: str
    report: Progress
    rows_per_code: int
    sequences: Sequences | None = None
    n: int = field(init=False)  # all items
    rows: NDArray[Any] = field(init=False)
    items: slice = field(init=False)  # those of the rows that are items
    order: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        rng, items = np.random.default_rng(self.seed), items_of(self.source)
        self.n = items.shape[0]
        parts: list[NDArray[Any]] = []
        for member in self.source.sources if isinstance(self.source, Joint) else [items]:
            if member is items:
                first = sum(len(part) for part in parts)
                self.items = slice(first, first + self.size)
            parts.append(_drawn(member, round(member.shape[0] * self.size / self.n), rng))
        self.rows = parts[0] if len(parts) == 1 else np.concatenate(parts)
        self.order = rng.permutation(len(self.rows))

    def grid(self, levels: int) -> Iterator[Sizes]:
        """Equal sizes in powers of two, from about one SID per item up to what the rows can fit."""
        if levels < 1:
            raise SpecError(f"an item needs at least one token, not {levels}")
        rows = len(self.rows)
        most = min(LARGEST, rows // 4 if self.size == self.n else rows // self.rows_per_code)
        size = 2 ** max(4, int(np.log2(self.n) / levels))
        if size > most:
            raise InputError(f"{rows:,} rows are too few to try codebooks of {size}; name what to try with --sizes")
        while size <= most:
            yield (size,) * levels
            size *= 2

    def try_sizes(self, make: Make, sizes: Sizes, sample: int, prefixes: bool) -> list[Trial]:
        """Fit the sizes. Where the recipe is nested, the first tokens, two and more, are trials as well."""
        tokenizer = make(sizes)
        rows = min(max(sample, self.rows_per_code * max(sizes)), len(self.rows))
        bar = _Bar(self.report, "-".join(map(str, sizes)), 40 * len(sizes) * rows + 2 * self.size)
        if rows == self.source.shape[0]:
            fits = [tokenizer.fit(self.rows, seed=self.seed, device=self.device, progress=bar)]
            codes = [np.asarray(fits[0].fit_codes)[self.items]]
        else:
            other = rows // 2 if rows // 2 >= max(sizes) else rows
            samples = (self.order[:rows], self.order[-other:])
            fits = [self._fitted(tokenizer, part, self.seed + i, bar) for i, part in enumerate(samples)]
            codes = [fit.encode(self.rows[self.items], device=self.device, progress=bar) for fit in fits]
        lengths = [k for k in range(2, len(sizes)) if prefixes and _is_nested(make, sizes, k)]
        made = [(k, make(sizes[:k])) for k in [*lengths, len(sizes)]]
        return [
            self._counted(sizes[:k], rows, codes, k == len(sizes), [first_stages(f, t) for f in fits]) for k, t in made
        ]

    def _fitted(self, tokenizer: Tokenizer, part: NDArray[np.int64], seed: int, bar: Progress) -> FittedTokenizer:
        return tokenizer.fit(self.rows[part], seed=seed, device=self.device, progress=bar)

    def _counted(
        self, sizes: Sizes, rows: int, codes: Sequence[Any], independent: bool, fits: Sequence[FittedTokenizer]
    ) -> Trial:
        numbers = [prefix_numbers(of_fit[:, : len(sizes)], sizes)[-1] for of_fit in codes]
        counts = [np.unique(number, return_counts=True)[1] for number in numbers]
        fillings = [filling(of_fit, self.n, self.seed) for of_fit in counts]
        counted = None
        if self.sequences is not None:
            counted = counted_on(fits, items_of(self.source), self.sequences, self.device, self.report)
        return Trial(sizes, rows, fillings, len(counts[0]), independent, counted)


def _drawn(source: Source, count: int, rng: np.random.Generator) -> NDArray[Any]:
    """A random sample of the rows, in their order."""
    n = source.shape[0]
    if count == n:
        return np.concatenate(list(source.chunks(CHUNK)))
    return source.take(np.sort(rng.choice(n, count, replace=False)))


@dataclass
class _Bar:
    """One progress bar for all passes of a candidate."""

    report: Progress
    label: str
    rows: int

    def __post_init__(self) -> None:
        self.report.start(self.label, self.rows)

    def start(self, label: str, rows: int) -> None:
        self.report.note(label)

    def advance(self, rows: int) -> None:
        self.report.advance(rows)

    def note(self, text: str) -> None: ...

    def workers(self, text: str) -> None:
        self.report.workers(text)


def _is_nested(make: Make, sizes: Sizes, length: int) -> bool:
    """Whether the tokenizer of the first sizes is the beginning of the tokenizer of all."""
    shorter = make(sizes[:length]).stages
    return make(sizes).stages[: len(shorter)] == shorter
