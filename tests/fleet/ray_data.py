"""Rows in files, tokenizers, and what the same fit gives on one machine: shared by the tests of the fleet."""

import os
import subprocess
import sys
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sidkit.data.embeddings import open_embeddings
from sidkit.rows.local import LocalRows
from sidkit.stages.opq import OPQ
from sidkit.tokenizer.recipes import recipe

needs_ray = [
    # not importorskip: sidkit must be the first to import Ray, which reads some of its variables only then
    pytest.mark.skipif(find_spec("ray") is None, reason="the ray extra is not installed"),
    pytest.mark.filterwarnings("ignore:.*:ResourceWarning"),  # of Ray's sockets
]

CHUNK = 64
D = 12
CUTS = {  # number of files -> the rows they begin with; some are empty
    1: [0, 900],
    2: [0, 1, 900],
    3: [0, 500, 500, 900],
    7: [0, 0, 17, 400, 401, 850, 850, 900],
}
QUICK = {"iterations": 4}


def quick_opq(name):
    """The recipe with fewer turns of its last stage, for which it has no option."""
    spec = recipe(name, sizes=(8, 4, 4, 4, 4), **QUICK)
    return replace(spec, stages=(*spec.stages[:-1], OPQ((4, 4), alternations=3, first=2)))


SPECS = {
    "prq-kmeans": recipe("prq-kmeans", sizes=(32, 16), top_k=3, **QUICK),
    "rq-kmeans": recipe("rq-kmeans", sizes=(32, 16), **QUICK),
    "rq-gmm": recipe("rq-gmm", sizes=(8, 4), **QUICK),
    "pq-kmeans": recipe("pq-kmeans", sizes=(16, 8), **QUICK),
    "opq-kmeans": recipe("opq-kmeans", sizes=(8, 8), first=2, alternations=3),
    "rq-opq": quick_opq("rq-opq"),
    "prq-opq": quick_opq("prq-opq"),
    "res-kmeans-fsq": recipe("res-kmeans-fsq", sizes=(8, 4, 4, 4, 4), projection="itq", **QUICK),
    "without-projection": recipe("without-projection", sizes=(32, 16), **QUICK),
}


@cache
def vectors():
    rng = np.random.default_rng(7)
    return (rng.normal(size=(900, D)) + 0.3 * rng.normal(size=D)).astype(np.float32)


def write(folder, X, cuts, row_group=50):
    """The rows as files of these lengths, ids and all."""
    folder.mkdir(parents=True)
    for i, (start, stop) in enumerate(pairwise(cuts)):
        column = pa.FixedSizeListArray.from_arrays(pa.array(X[start:stop].ravel()), X.shape[1])
        ids = pa.array([f"P{row:05}" for row in range(start, stop)], pa.string())
        table = pa.table({"item_id": ids, "embedding": column})
        pq.write_table(table, folder / f"part-{i}.parquet", row_group_size=row_group)
    return folder


def local(spec, folder, **options):
    """The fit on one machine."""
    return spec.fit(LocalRows(open_embeddings(folder), chunk=CHUNK), **options)


@cache
def fitted(name="prq-kmeans"):
    """A tokenizer to encode with, fitted once."""
    return SPECS[name].fit(vectors())


def same_bits(a, b):
    for ours, theirs in zip(a.stages, b.stages, strict=True):
        for key, array in theirs.arrays.items():
            assert np.array_equal(ours.arrays[key], array), key
    assert np.array_equal(a.fit_codes, b.fit_codes)


def said_by_own_ray(program, **settings):
    """The last line that a program prints which starts a Ray of its own: with these settings, none of these tests'."""
    quiet = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_USAGE_STATS_REPORT_URL": "http://127.0.0.1:9/"}
    clean = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=280, check=False,
        env=clean | quiet | settings | {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()[-1]
