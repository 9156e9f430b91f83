"""`sidkit encode --verify`: the embeddings of the fit, and no others."""

import numpy as np
import pytest

from command import sidkit

ROWS = np.random.default_rng(0).normal(size=(60, 6)).astype(np.float32)


@pytest.fixture
def fitted(tmp_path):
    np.save(tmp_path / "items.npy", ROWS)
    sidkit("fit", "items.npy", "-o", "tok", "--sizes", "4-4", "--iterations", "2", cwd=tmp_path)
    return tmp_path


def test_the_embeddings_of_the_fit_are_encoded(fitted):
    sidkit("encode", "tok", "items.npy", "-o", "sids.parquet", "--verify", cwd=fitted)
    assert (fitted / "sids.parquet").exists()


def test_a_flipped_bit_is_noticed(fitted):
    data = bytearray((fitted / "items.npy").read_bytes())
    data[-7] ^= 4
    (fitted / "items.npy").write_bytes(data)
    words = ("encode", "tok", "items.npy", "-o", "sids.parquet")
    assert "was fitted on other embeddings" in sidkit(*words, "--verify", cwd=fitted, check=1)
    assert not (fitted / "sids.parquet").exists()
    sidkit(*words, cwd=fitted)  # unasked, other embeddings are what encode is for


def test_other_shapes_and_clusters_are_refused(fitted):
    np.save(fitted / "new.npy", ROWS[:50])
    words = ("encode", "tok", "new.npy", "-o", "sids.parquet", "--verify")
    assert "was fitted on 60 rows of 6 dimensions, and new.npy has 50 of 6" in sidkit(*words, cwd=fitted, check=1)
    assert "cannot be combined with --ray" in sidkit(*words, "--ray", "auto", cwd=fitted, check=1)
