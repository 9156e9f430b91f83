"""Fit candidates on a sample, count their SIDs on many rows, and say which sizes meet a target."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..checks import require_good_rows
from ..errors import InputError, SpecError
from ..open import as_source
from ..progress import Progress, Silent
from ..rows import CHUNK, Source
from ..sids import prefix_numbers
from ..tokenizer import Tokenizer
from .occupancy import Filling, filling, log_odds, share_of

__all__ = ["Advice", "Candidate", "Target", "advise"]

Make = Callable[[tuple[int, ...]], Tokenizer]
Sizes = tuple[int, ...]

ROWS_PER_CODE = (
    32  # below 16 rows a codeword, sample fits have more collisions than whole ones (docs/choosing-sizes.md)
)
LARGEST = 4096
# How far two fits of the same sizes differ on four public datasets, in log-odds and in log; as good as PRIOR pairs.
USUAL = Filling(icr_per_sid=0.09, sids_per_item=0.09, largest_bucket=0.4)
PRIOR = 4


@dataclass(frozen=True)
class Target:
    """What the SIDs must reach; what is None does not matter."""

    icr_per_sid: float | None = None
    sids_per_item: float | None = None
    largest_bucket: int | None = None

    def __post_init__(self) -> None:
        for name, share in (("ICR", self.icr_per_sid), ("SIDs per item", self.sids_per_item)):
            if share is not None and not 0 < share < 1:
                raise SpecError(
                    f"a target of {share:g} for {name} cannot be used; give a share between 0 and 1, as 0.95"
                )
        if self.largest_bucket is not None and self.largest_bucket < 1:
            raise SpecError(f"the largest bucket holds at least 1 item, not {self.largest_bucket}")

    def met_by(self, icr: float, sids: float, bucket: float) -> bool:
        return (
            (self.icr_per_sid is None or icr >= self.icr_per_sid)
            and (self.sids_per_item is None or sids >= self.sids_per_item)
            and (self.largest_bucket is None or bucket <= self.largest_bucket)
        )


@dataclass(frozen=True)
class Candidate:
    """Sizes, and what is expected of them with all items; low and high are a 90 % interval."""

    sizes: Sizes
    codewords: int  # in all levels together
    fitted_on: int  # rows of the larger fit
    measured: bool  # fitted on all rows: nothing is predicted
    icr_per_sid: float
    icr_per_sid_low: float
    icr_per_sid_high: float
    sids_per_item: float
    sids_per_item_low: float
    sids_per_item_high: float
    largest_bucket: float
    largest_bucket_low: float
    largest_bucket_high: float

    def meets(self, target: Target) -> str:
        """yes: the whole interval does; likely: its middle does; no."""
        if target.met_by(self.icr_per_sid_low, self.sids_per_item_low, self.largest_bucket_high):
            return "yes"
        return "likely" if target.met_by(self.icr_per_sid, self.sids_per_item, self.largest_bucket) else "no"


@dataclass(frozen=True)
class Advice:
    """Every candidate, and the one with the fewest codewords that meets the target; None if none does."""

    items: int
    counted: int  # items whose SIDs were counted
    target: Target
    candidates: Sequence[Candidate]
    chosen: Candidate | None
    pairs: int = 0  # pairs of fits behind the intervals

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        told = asdict(self)
        for plain, candidate in zip(told["candidates"], self.candidates, strict=True):
            plain["meets"] = candidate.meets(self.target)
        return told


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
) -> Advice:
    """Which sizes meet a target with all rows of X.

    make     sizes -> the tokenizer to fit, such as `sidkit.prq_kmeans`
    sizes    the candidates; by default levels of 16, 32, 64 ... codewords each, until the target is met
    levels   the most tokens an item may have, where sizes are not given
    sample   rows to fit on, more where that is fewer than rows_per_code for a codeword; all rows if there are no more
    count    rows whose SIDs are counted

    Fitting on a sample and encoding other rows with it is what makes this quick: fitting passes over rows dozens of
    times, encoding once. Every candidate is fitted twice, on a sample and on another of half its size; their mean is
    the prediction, and how far they differ, over all candidates, its interval. Where not all rows are counted, two laws
    carry the counts on to all (`filling`); half of what they differ by widens the interval.
    """
    report = progress or Silent()
    source = as_source(X)
    if source.shape[0] < 2:
        raise InputError("there are too few rows to advise on")
    if sample < 2 or count < 2:
        raise SpecError(f"cannot fit on {sample} rows and count {count}; give at least 2 of each")
    report.start("check", source.shape[0])
    require_good_rows(source, report)
    pool = _Pool(source, min(count, source.shape[0]), seed, device, report, rows_per_code)
    runs: list[_Run] = []
    for tried in pool.grid(levels) if sizes is None else sizes:
        runs += pool.run(make, tried, sample, prefixes=sizes is None)
        found = pool.judged(runs)
        if sizes is None and found[-1].meets(target) == "yes":
            break
    return Advice(source.shape[0], len(pool.rows), target, found, _choose(found, target), _pairs(runs))


@dataclass(frozen=True)
class _Run:
    """What one or two fits of the same sizes say, by either law."""

    sizes: Sizes
    fitted_on: int
    fillings: list[tuple[Filling, Filling]]
    distinct: int  # SIDs counted
    whole: bool  # not the first tokens of another

    @property
    def paired(self) -> bool:
        return len(self.fillings) == 2


@dataclass
class _Pool:
    """The rows that are counted, in a random order that the samples are cut from."""

    source: Source
    size: int
    seed: int
    device: str
    report: Progress
    rows_per_code: int
    rows: NDArray[Any] = field(init=False)
    order: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        n, rng = self.source.shape[0], np.random.default_rng(self.seed)
        if self.size == n:
            self.rows = np.concatenate(list(self.source.chunks(CHUNK)))
        else:
            self.rows = self.source.take(np.sort(rng.choice(n, self.size, replace=False)))
        self.order = rng.permutation(self.size)

    def grid(self, levels: int) -> Iterator[Sizes]:
        """Equal sizes in powers of two, from about one SID an item on, as far as there are rows to fit them."""
        if levels < 1:
            raise SpecError(f"an item needs at least one token, not {levels}")
        n = self.source.shape[0]
        most = min(LARGEST, n // 4 if self.size == n else self.size // self.rows_per_code)
        size = 2 ** max(4, int(np.log2(n) / levels))
        if size > most:
            raise InputError(
                f"{self.size:,} rows are too few to try codebooks of {size}; name what to try with --sizes"
            )
        while size <= most:
            yield (size,) * levels
            size *= 2

    def run(self, make: Make, sizes: Sizes, sample: int, prefixes: bool) -> list[_Run]:
        """Fit the sizes; where the recipe is nested, shorter SIDs of two tokens and more come with them."""
        tokenizer, n = make(sizes), self.source.shape[0]
        rows = min(max(sample, self.rows_per_code * max(sizes)), self.size)
        bar = _Bar(self.report, "-".join(map(str, sizes)), 40 * len(sizes) * rows + 2 * self.size)
        if rows == n:
            coded = [tokenizer.fit(self.rows, seed=self.seed, device=self.device, progress=bar).fit_codes]
        else:
            other = rows // 2 if rows // 2 >= max(sizes) else rows
            samples = (self.order[:rows], self.order[-other:])
            coded = [self._coded(tokenizer, part, self.seed + i, bar) for i, part in enumerate(samples)]
        lengths = [k for k in range(2, len(sizes)) if prefixes and _is_nested(make, sizes, k)]
        return [self._counted(sizes[:k], rows, coded, k == len(sizes)) for k in [*lengths, len(sizes)]]

    def _coded(self, tokenizer: Tokenizer, part: NDArray[np.int64], seed: int, bar: Progress) -> NDArray[np.int32]:
        fitted = tokenizer.fit(self.rows[part], seed=seed, device=self.device, progress=bar)
        return fitted.encode(self.rows, device=self.device, progress=bar)

    def _counted(self, sizes: Sizes, rows: int, coded: Sequence[Any], whole: bool) -> _Run:
        numbers = [prefix_numbers(codes[:, : len(sizes)], sizes)[-1] for codes in coded]
        counts = [np.unique(number, return_counts=True)[1] for number in numbers]
        fillings = [filling(one, self.source.shape[0], self.seed) for one in counts]
        return _Run(sizes, rows, fillings, len(counts[0]), whole)

    def judged(self, runs: Sequence[_Run]) -> list[Candidate]:
        """Candidates with their intervals, wider the more the pairs of fits differ."""
        spread, sure = _spread(runs), _quantile(PRIOR + _pairs(runs))
        return [self._candidate(run, spread, sure) for run in runs]

    def _candidate(self, run: _Run, spread: Filling, sure: float) -> Candidate:
        n = self.source.shape[0]
        figures: dict[str, float] = {}
        for name in Filling._fields:
            laws = np.array([[_open(name, getattr(law, name), run.distinct) for law in both] for both in run.fillings])
            middle, apart = float(laws.mean()), float(np.abs(laws[:, 0] - laws[:, 1]).mean())
            drawn = n / self.size * _drawn(name, middle, run.distinct)
            half = sure * (getattr(spread, name) ** 2 + drawn) ** 0.5 + apart / 2
            for end, value in (("", middle), ("_low", middle - half), ("_high", middle + half)):
                exact = run.fitted_on == n
                figures[name + end] = getattr(run.fillings[0][0], name) if exact else _closed(name, value)
        return Candidate(run.sizes, sum(run.sizes), run.fitted_on, run.fitted_on == n, **figures)


@dataclass
class _Bar:
    """One bar for all the passes of a candidate."""

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

    def place(self, text: str) -> None:
        self.report.place(text)


def _is_nested(make: Make, sizes: Sizes, length: int) -> bool:
    """Whether the tokenizer of the first sizes is the beginning of the tokenizer of all."""
    shorter = make(sizes[:length]).stages
    return make(sizes).stages[: len(shorter)] == shorter


def _spread(runs: Sequence[_Run]) -> Filling:
    """The standard deviation of a prediction, per figure: pairs of fits differ by sqrt(2) times as much.

    Shares near 0 and 1 are left out: there the log-odds differ by chance alone.
    """
    found = []
    for name in Filling._fields:
        pairs = [[float(np.mean([getattr(law, name) for law in both])) for both in run.fillings] for run in runs]
        apart = [
            _open(name, pair[0], 10**6) - _open(name, pair[1], 10**6)
            for pair in pairs
            if len(pair) == 2 and (name == "largest_bucket" or (0.05 < min(pair) and max(pair) < 0.99))
        ]
        square = PRIOR * getattr(USUAL, name) ** 2 + float(np.sum(np.square(apart)))
        found.append(float(np.sqrt(square / (PRIOR + len(apart)) / 2)))
    return Filling(*found)


def _pairs(runs: Sequence[_Run]) -> int:
    """Pairs of independent fits; shorter SIDs share theirs with the longest."""
    return sum(run.paired and run.whole for run in runs)


def _quantile(freedom: int) -> float:
    """What 90 % of a t distribution lie within."""
    from scipy.stats import t

    return float(t.ppf(0.95, freedom))


def _drawn(name: str, odds: float, distinct: int) -> float:
    """About the variance of log-odds that comes of counting so many SIDs: 1 / (S p (1 - p))."""
    share = share_of(odds)
    return 0.0 if name == "largest_bucket" else 1.0 / (distinct * share * (1.0 - share))


def _open(name: str, value: float, many: int) -> float:
    """Log-odds of a share of so many; the log of a bucket."""
    return float(np.log(max(value, 1.0))) if name == "largest_bucket" else log_odds(value, many)


def _closed(name: str, value: float) -> float:
    return float(max(np.exp(value), 1.0)) if name == "largest_bucket" else share_of(value)


def _choose(candidates: Sequence[Candidate], target: Target) -> Candidate | None:
    """The fewest codewords that surely meet the target, else that likely do."""
    for wanted in ("yes", "likely"):
        good = [one for one in candidates if one.meets(target) == wanted]
        if good:
            return min(good, key=lambda one: (one.codewords, len(one.sizes)))
    return None
