"""Fixtures shared by all tests."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # tests' products are small, and threads that wait take CPU time
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")

import numpy as np
import pyarrow.parquet as pq
import pytest

from browser import browser as browser  # fixtures for whoever asks for a page
from browser import page as page
from browser import shared_context as shared_context
from command import sidkit
from network import stays_on_this_machine as stays_on_this_machine  # and for every test
from postgres_server import postgres as postgres  # and for whoever asks for a registry
from postgres_server import registry_address as registry_address

pytest.register_assert_rewrite("seam_suite")


@pytest.fixture
def rng():
    return np.random.default_rng(20260101)


@pytest.fixture(scope="session")
def demo(tmp_path_factory):
    """What `sidkit demo` prints for a small shop, and the folder it ran in; its files are in "a shop" there."""
    folder = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sidkit.report.centroids.MOST", 60)  # points of the map; t-SNE takes seconds for more
        output = sidkit("demo", "--items", "600", "-o", "a shop", cwd=folder)
    sequences = folder / "a shop" / "sequences.parquet"
    pq.write_table(pq.read_table(sequences).slice(0, 200), sequences)  # enough visitors to train on
    return output, folder


@pytest.fixture
def bucket(monkeypatch):
    """An S3-compatible server on this machine: addresses are bucket.format("folder/file")."""
    moto = pytest.importorskip("moto.server", reason="moto is not installed")
    from logging import getLogger
    from urllib.request import urlopen

    from sidkit.files.address import locate

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    getLogger("werkzeug").setLevel("ERROR")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    urlopen(f"http://{host}:{port}/moto-api/reset", data=b"").close()  # what earlier tests wrote in this process
    options = f"?endpoint_override={host}:{port}&scheme=http&region=us-east-1&allow_bucket_creation=true"
    locate(f"s3://shop/x{options}").system.create_dir("shop")
    yield "s3://shop/{}" + options
    server.stop()
