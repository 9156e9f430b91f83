"""Test data whose answer is known in advance."""

from __future__ import annotations

import numpy as np


def planted(rng, clusters=8, each=40, d=16, noise=0.05):
    """Rows around `clusters` random directions, and which one each row belongs to."""
    centres = rng.normal(size=(clusters, d))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    label = np.repeat(np.arange(clusters), each)
    return centres[label] + noise * rng.normal(size=(clusters * each, d)), label
