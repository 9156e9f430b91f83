"""Fitted tokenizers for the tests of exports."""

from __future__ import annotations

import numpy as np
import pytest

import sidkit


@pytest.fixture(scope="session")
def rows():
    """2,000 vectors in 16 dimensions around 40 centres, off the origin."""
    rng = np.random.default_rng(7)
    centres = rng.normal(size=(40, 16))
    return (centres[rng.integers(0, 40, 2000)] + 0.4 * rng.normal(size=(2000, 16)) + 0.2).astype(np.float32)


@pytest.fixture(scope="session")
def plain(rows):
    """RQ-KMeans whose centroids are subtracted: what other libraries read."""
    return sidkit.rq_kmeans((16, 8, 4), normalize=False).fit(rows, seed=0)


@pytest.fixture(scope="session")
def prq(rows):
    return sidkit.prq_kmeans((16, 8, 4)).fit(rows, seed=0)
