"""Fixtures shared by all tests."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")

import numpy as np
import pytest

from browser import browser as browser  # fixtures for whoever asks for a page
from browser import page as page
from browser import shared_context as shared_context


@pytest.fixture
def rng():
    return np.random.default_rng(20260101)


def planted(rng, clusters=8, each=40, d=16, noise=0.05):
    """Rows around `clusters` random directions, and which one each row belongs to."""
    centres = rng.normal(size=(clusters, d))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    label = np.repeat(np.arange(clusters), each)
    return centres[label] + noise * rng.normal(size=(clusters * each, d)), label
