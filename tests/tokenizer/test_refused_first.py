"""What a later stage cannot be fitted to is refused before any row is read."""

import sys
from dataclasses import dataclass

import numpy as np
import pytest

import sidkit
from sidkit.errors import MissingExtraError, SpecError
from sidkit.stages.cluster import GMM, Balanced, KMeans, PerParent
from sidkit.stages.level import SUBTRACT, Level
from sidkit.stages.opq import OPQ
from sidkit.stages.product import PQ
from sidkit.stages.scalar import FSQ
from sidkit.stages.vae import R3VAE, RQVAE
from sidkit.tokenizer.tokenizer import Tokenizer

N, D = 20, 6
FIRST = sidkit.prq_kmeans((4, 4)).stages
TOO_MANY = f"cannot draw 21 initial centroids from {N} rows; use codebooks of at most {N}, or give more rows"


class Unread:
    """A source of N rows that have only a shape."""

    shape, dtype = (N, D), np.dtype(np.float64)

    def chunks(self, size, start=0):
        raise AssertionError("rows were read")

    take = name = chunks


class UnreadRows:
    """Rows that have only a shape."""

    shape, dtype, width = (N, D), np.dtype(np.float64), 0

    def reduce(self, f, precision="fp32"):
        raise AssertionError("rows were read")

    sample = take = map = batches = codes = prepare = reduce


def level(cluster):
    return Level(cluster, SUBTRACT)


@pytest.mark.parametrize("rows", [Unread(), UnreadRows()])
@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ((level(KMeans(21)),), TOO_MANY),
        ((level(GMM(21)),), TOO_MANY),
        ((level(Balanced(21)),), TOO_MANY),
        ((level(PerParent(99)), level(KMeans(21))), TOO_MANY),  # a parent with few rows is no error
        ((PQ((4, 21)),), TOO_MANY),
        ((OPQ((4, 21)),), TOO_MANY),
        ((PQ((4,) * 7),), "6 dimensions cannot be cut into 7 blocks"),
        ((OPQ((4,) * 7),), "6 dimensions cannot be cut into 7 blocks"),
        ((RQVAE((4, 21)),), TOO_MANY),
        ((R3VAE((4, 21)),), TOO_MANY),
        ((FSQ(8, 2, "itq"),), "8 orthogonal directions do not exist in 6 dimensions"),
        ((FSQ(4, 2, "random"), level(KMeans(21))), TOO_MANY),
    ],
)
def test_a_third_stage_that_cannot_be_fitted_is_refused_before_rows_are_read(stages, message, rows, tmp_path):
    with pytest.raises(SpecError, match=message):
        Tokenizer((*FIRST, *stages)).fit(rows, checkpoint=tmp_path / "unfinished")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "third",
    [level(KMeans(4)), level(GMM(4)), level(Balanced(4)), level(PerParent(4)), PQ((4,)), OPQ((4,)), RQVAE((4,))],
)
@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        (np.arange(5), r"init for level 3 needs 4 row numbers, one per centroid; got shape \(5,\)"),
        (np.arange(4.0), "init for level 3 needs 4 row numbers.*of float64"),
        (np.array([0, 1, 2, N]), f"init for level 3 names rows outside 0..{N - 1}"),
    ],
)
def test_a_third_start_that_makes_no_sense_is_refused_before_rows_are_read(third, numbers, message):
    with pytest.raises(SpecError, match=message):
        Tokenizer((*FIRST, third)).fit(Unread(), init=[None, np.arange(4), numbers])


@pytest.mark.parametrize("bad", range(7))
def test_every_token_of_a_stage_counts_as_a_level(bad):
    spec = Tokenizer((PQ((4, 4)), RQVAE((4, 4)), OPQ((4, 4)), level(KMeans(4))))
    with pytest.raises(SpecError, match=f"init for level {bad + 1} names rows outside"):
        spec.fit(Unread(), init=[np.arange(4) + (N if token == bad else 0) for token in range(7)])


def test_starts_of_more_levels_than_there_are_are_refused_before_rows_are_read():
    with pytest.raises(SpecError, match="init names rows for 3 levels, and there are 2"):
        Tokenizer(FIRST).fit(Unread(), init=[None, None, np.arange(4)])


def test_a_first_level_per_parent_is_refused_before_rows_are_read():
    with pytest.raises(SpecError, match="cannot be the first"):
        Tokenizer((level(PerParent(4)),)).fit(Unread())


@pytest.mark.parametrize("make", [RQVAE, R3VAE, lambda sizes: FSQ(4)])
def test_a_missing_extra_is_named_before_rows_are_read(make, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match="needs the 'torch' extra"):
        Tokenizer((*FIRST, make((4,)))).fit(Unread())


@dataclass(frozen=True)
class Mute:
    """A stage that cannot tell beforehand, as others may write them."""

    def fit(self, rows, run):
        return self

    def restore(self, arrays, d):
        return self

    sizes, arrays = (2,), {}

    def tokens(self, x, codes):
        return (x[:, :1] > 0).astype(np.int32)

    def carry(self, x, codes):
        return x


def test_stages_after_one_that_cannot_tell_are_checked_when_their_turn_comes(rng):
    spec = Tokenizer((*FIRST, Mute(), level(KMeans(4))))
    init = [None, None, None, np.arange(4)]
    X = rng.normal(size=(N, D))
    assert spec.fit(X, init=init).sizes == (4, 4, 2, 4)
    with pytest.raises(SpecError, match="init for level 4 needs 4 row numbers"):
        spec.fit(X, init=[*init[:3], np.arange(3)])
