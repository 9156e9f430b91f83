"""sidkit encode --number: equal embeddings take different codes of a private codebook."""

import numpy as np
import pyarrow.parquet as pq
import pytest

from command import sidkit


@pytest.fixture
def fitted(rng, tmp_path):
    """Twenty items, two of which are like the first, under a tokenizer with private codebooks and one without."""
    X = rng.normal(size=(20, 8)).astype(np.float32)
    X[7] = X[12] = X[0]
    np.save(tmp_path / "items.npy", X)
    sidkit("fit", "items.npy", "-o", "five/", "-r", "rq-opq", "--sizes", "2-2-32-4-4", cwd=tmp_path)
    sidkit("fit", "items.npy", "-o", "three/", "--sizes", "2-2-4", cwd=tmp_path)
    return tmp_path


def test_equal_items_are_numbered(fitted):
    sidkit("encode", "five/", "items.npy", "-o", "plain.parquet", cwd=fitted)
    sidkit("encode", "five/", "items.npy", "-o", "numbered.parquet", "--number", cwd=fitted)
    plain, numbered = (
        np.array(pq.read_table(fitted / f"{name}.parquet")["codes"].to_pylist()) for name in ("plain", "numbered")
    )
    assert len(np.unique(plain, axis=0)) == 18
    assert len(np.unique(numbered, axis=0)) == 20
    assert sorted(np.flatnonzero((plain != numbered).any(axis=1))) == [7, 12]


def test_what_cannot_be_numbered_is_refused(fitted):
    error = sidkit("encode", "three/", "items.npy", "-o", "sids.parquet", "--number", cwd=fitted, check=1)
    assert "only a tokenizer with a codebook per parent numbers equal rows, such as rq-opq" in error
    sidkit("encode", "five/", "items.npy", "-o", "old.parquet", cwd=fitted)
    words = ("encode", "five/", "items.npy", "-o", "sids.parquet", "--number", "--keep", "old.parquet")
    assert "--number needs the whole catalogue at once" in sidkit(*words, cwd=fitted, check=1)
