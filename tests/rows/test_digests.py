"""Digests of rows: equal for equal rows, on arrays and tensors alike."""

import numpy as np
import pytest

from sidkit.rows.digests import digests


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equal_rows_alone_have_equal_digests(dtype, monkeypatch):
    monkeypatch.setattr("sidkit.rows.digests.IN_CACHE", 20)
    x = np.random.default_rng(0).normal(size=(30, 5)).astype(dtype)
    x[7], x[11] = x[3], [0.0, -0.0, 0.0, -0.0, 0.0]
    x[20] = 0
    found = digests(x)
    first, copies = np.unique(found, return_index=True)[1], {7, 20}
    assert set(range(30)) - set(first) == copies
    assert found[7] == found[3]
    assert found[20] == found[11]
    torch = pytest.importorskip("torch")
    assert np.array_equal(digests(torch.from_numpy(x)).numpy(), found)
    assert len(digests(x[:0])) == len(digests(torch.from_numpy(x[:0]))) == 0
