"""Rows on a Ray cluster pass the tests that all rows pass."""

import pytest

import sidkit
from ray_data import needs_ray, write
from seam_suite import *  # noqa: F403
from seam_suite import CHUNK, N

pytestmark = needs_ray


@pytest.fixture(scope="module")
def rows(X, ray_pool, tmp_path_factory):
    folder = write(tmp_path_factory.mktemp("rows") / "in", X, [0, 17, 17, N])
    with sidkit.on_ray(folder, workers=2, chunk=CHUNK) as held:
        yield held
