"""Rows of this machine, in memory, in files and on a device, pass the tests that all rows pass."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from seam_suite import *  # noqa: F403
from seam_suite import CHUNK, D, N
from sidkit.data.embeddings import open_embeddings
from sidkit.progress import Silent
from sidkit.rows.local import LocalRows
from sidkit.rows.scratch import Scratch, checked_copy
from sidkit.rows.sources import ArraySource, Window

LOCAL = ["array", "window", "npy", "parquet", "scratch"]
DEVICE = {"device": 1 << 20, "device in shares": CHUNK * D * 8}  # name -> bytes for the rows of one pass
QUIET = [pytest.mark.filterwarnings(f"ignore::{kind}Warning") for kind in ("Runtime", "Deprecation")]  # the interpreter


@pytest.fixture(scope="module", params=[*LOCAL, *(pytest.param(name, marks=QUIET) for name in DEVICE)])
def rows(request, X, tmp_path_factory):
    if request.param in DEVICE:
        return device_rows(X, DEVICE[request.param])
    return LocalRows(source_of(request.param, X, tmp_path_factory.mktemp("rows")), chunk=CHUNK)


def source_of(kind, X, folder):
    if kind == "array":
        return ArraySource(X)
    if kind == "window":
        return Window(ArraySource(np.concatenate([X[:5] + 1, X, X])), 5, 5 + N)
    if kind == "npy":
        np.save(folder / "x.npy", X)
        return open_embeddings(folder / "x.npy")
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), D)
    table = pa.table({"item_id": np.arange(N), "embedding": vectors})
    pq.write_table(table, folder / "x.parquet", row_group_size=15)
    source = open_embeddings(folder / "x.parquet")
    if kind == "scratch":
        source = checked_copy(source, folder / "scratch", Silent())
        assert isinstance(source, Scratch)
    return source


def device_rows(X, spare):
    kernels = pytest.importorskip("kernels", reason="rows on a device need torch")
    if not kernels.RUN:
        pytest.skip(kernels.WHY_NOT)
    from sidkit.rows.cuda import DeviceRows, Resident

    return DeviceRows(Resident(kernels.torch.from_numpy(X).to(kernels.DEVICE)), spare=spare)
