"""What is known of a candidate, as numbers that a fusion weighs.

    model      log p, the model's probability of the item
    popular    log(1 + how often it was taken)
    followed   log(0.001 + followed / (after + 8)): how often it came right after the last item
    flow       log(0.001 + flow): what comes soon after the items of the history
    together   log(0.001 + together): how near it is to the history
    beside     log(0.001 + beside): how near it is to the last item
    length     log(1 + how many items of the history are read)
    past       1 for an item that the user had

A term is a signal, what of it is above a limit, or its product with another; a weighted sum of them is the score of a
candidate. So a signal may count more where it is large, or where the item is popular.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import StoreError
from .candidates import Candidates

__all__ = ["Term", "columns_of", "signals_of", "terms_for", "terms_from"]

Floats = NDArray[np.float64]
LEAST = 1e-12  # of a probability
FLOOR = 1e-3  # of a share
PRIOR = 8.0  # steps that nothing is known of, beside those after the last item
BENT = ("model", "popular", "followed", "flow", "together", "beside")  # signals that count by how large they are
QUANTILES = (0.25, 0.5, 0.75)  # of them, where they may bend
PRODUCTS = (
    ("model", "popular"), ("length", "popular"), ("model", "followed"), ("model", "flow"), ("model", "together"),
    ("popular", "flow"), ("popular", "together"),
)  # fmt: skip
SIGNALS = (*BENT, "length", "past")
MOST = 256  # terms of a file


@dataclass(frozen=True)
class Term:
    """weight * of; weight * max(of - above, 0); or weight * of * times."""

    of: str = "model"
    weight: float = 1.0
    above: float | None = None
    times: str | None = None

    def value(self, signals: Mapping[str, Floats]) -> Floats:
        """Without the weight."""
        signal = signals[self.of]
        if self.above is not None:
            return np.maximum(signal - self.above, 0.0)
        return signal if self.times is None else signal * signals[self.times]


def signals_of(found: Candidates) -> dict[str, Floats]:
    """By name, of every candidate."""
    return {
        "model": np.log(np.maximum(found.model, LEAST)),
        "popular": np.log1p(found.popular),
        "followed": np.log(FLOOR + found.followed / (found.after + PRIOR)),
        "flow": np.log(FLOOR + found.flow),
        "together": np.log(FLOOR + found.together),
        "beside": np.log(FLOOR + found.beside),
        "length": np.log1p(found.length),
        "past": found.past.astype(np.float64),
    }


def terms_for(signals: Mapping[str, Floats]) -> list[Term]:
    """The terms that a fusion of such candidates has, the model first, each with weight one."""
    terms = [Term(name) for name in (*BENT, "past")]
    for name in BENT:
        limits = np.unique(np.quantile(signals[name], QUANTILES)) if len(signals[name]) else np.zeros(0)
        terms += [Term(name, above=float(limit)) for limit in limits if limit > signals[name].min()]
    return terms + [Term(one, times=other) for one, other in PRODUCTS]


def columns_of(terms: Sequence[Term], signals: Mapping[str, Floats]) -> NDArray[np.float32]:
    """(candidates, terms)."""
    columns = np.empty((len(signals["model"]), len(terms)), np.float32)
    for place, term in enumerate(terms):
        columns[:, place] = term.value(signals)
    return columns


def terms_from(plain: Any) -> Iterator[Term]:
    """Terms from JSON; an error names what is none."""
    if not isinstance(plain, list) or len(plain) > MOST:
        raise StoreError(f"the terms of a fusion are a list of at most {MOST}")
    for one in plain:
        term = Term(**one) if isinstance(one, dict) and one.keys() <= Term.__dataclass_fields__.keys() else None
        if term is None or not _is_whole(term):
            raise StoreError(f"{str(one)[:80]!r} is no term of a fusion")
        yield term


def _is_whole(term: Term) -> bool:
    numbers = [term.weight, *([term.above] if term.above is not None else [])]
    finite = all(type(number) in (int, float) and math.isfinite(number) for number in numbers)
    return finite and term.of in SIGNALS and (term.times is None or term.times in SIGNALS)
