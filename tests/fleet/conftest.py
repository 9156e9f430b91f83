"""A real Ray, started once on this machine for all tests of the fleet."""

import sys

import pytest
from ray_data import CHUNK, CUTS, vectors, write

import sidkit

AWS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_EC2_METADATA_DISABLED": "true"}


@pytest.fixture(scope="package", autouse=True)
def byte_code(tmp_path_factory):
    """Ray starts dozens of Python processes. Where byte code is not written, each would compile Ray again."""
    with pytest.MonkeyPatch.context() as patch:
        if sys.dont_write_bytecode:
            patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
            patch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path_factory.mktemp("byte-code")))
        yield


@pytest.fixture(scope="package")
def data(tmp_path_factory):
    """The same rows as 1, 2, 3 and 7 files."""
    folder = tmp_path_factory.mktemp("data")
    return {n: write(folder / str(n), vectors(), cuts) for n, cuts in CUTS.items()}


@pytest.fixture(scope="package")
def ray_pool(data):
    """Ray with room for twelve workers, which lives as long as these rows; one of the twelve holds them."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in AWS.items():  # for the workers, before they start
            patch.setenv(name, value)
        with sidkit.on_ray(data[1], address="local", workers=12, chunk=900) as rows:
            ray = rows.pool.ray
            yield rows.pool
        assert not ray.is_initialized()


@pytest.fixture(scope="package")
def shared(data, ray_pool):
    """Seven files held by three workers, for all tests that need no other rows. Workers may be killed."""
    with sidkit.on_ray(data[7], workers=3, chunk=CHUNK) as rows:
        yield rows
