"""A small shop with hostile titles, a large one, and a server for either: what the tests of the explorer share.

The fixtures are imported by each module that uses them; the small shop is made and indexed once for all.
"""

import threading
from contextlib import contextmanager
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from sidkit.data.json_lines import Lines
from sidkit.explore.catalogue import read
from sidkit.explore.pages import Pages
from sidkit.explore.server import build
from sidkit.sids.table import SidTable
from sidkit.web.listen import bind

HOSTILE = "<img src=x onerror=alert(1)><script>window.pwned=1</script>\"'&amp;{{7*7}}\u202e"


def shop(folder, n=400, seed=0):
    """Two tables, texts and vectors of n items; the first token decides the noun, some titles and ids are hostile."""
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, 8, n), rng.integers(0, 4, n), rng.integers(0, 3, n)], axis=1).astype(np.int32)
    nouns = ["hat", "shoe", "mug", "lamp", "tent", "doll", "watch", "guitar"]
    colours = ["red", "blue", "green", "white"]
    titles = [f"{colours[b]} {nouns[a]} {i}" for i, (a, b, _) in enumerate(codes)]
    titles[5] = HOSTILE
    ids = [f"P{i:04}" for i in range(n)]
    ids[6] = HOSTILE
    ids[7] = "a/b?c=d&e#f%2e%2e/../.."
    other = codes.copy()
    other[:, 0] = (codes[:, 0] + codes[:, 1] % 2) % 8
    SidTable(ids, codes, (8, 4, 3)).to_parquet(folder / "sids.parquet")
    SidTable([*ids[10:], "only-there"], np.vstack([other[10:], [[7, 3, 2]]]), (8, 4, 3)).to_parquet(
        folder / "other.parquet", "plain"
    )
    pq.write_table(pa.table({"item_id": ids, "title": titles}), folder / "items.parquet")
    centres = rng.normal(size=(8, 16))
    vectors = (centres[codes[:, 0]] + 0.3 * rng.normal(size=(n, 16))).astype(np.float32)
    vectors[20] = vectors[int(np.flatnonzero(codes[:, 0] != codes[20, 0])[0])] + 1e-3
    np.save(folder / "vectors.npy", vectors)
    pq.write_table(pa.table({"item_id": ids, "embedding": list(vectors)}), folder / "vectors.parquet")
    return ids, codes, other, titles, vectors


def large_shop(folder, n):
    """A table and titles of n items, made without a Python loop."""
    rng = np.random.default_rng(0)
    codes = np.minimum(rng.geometric(0.02, (n, 3)) - 1, 255).astype(np.int32)
    numbers = pa.array(np.arange(n)).cast(pa.string())
    brands = pa.array([f"brand{i}" for i in range(5000)]).take(pa.array(rng.integers(0, 5000, n)))
    nouns = pa.array([f"noun{i}" for i in range(256)]).take(pa.array(codes[:, 0]))
    ids = pc.binary_join_element_wise("P", numbers, "")
    titles = pc.binary_join_element_wise(brands, "steel", nouns, numbers, " ")
    SidTable(ids, codes, (256, 256, 256)).to_parquet(folder / "sids.parquet")
    pq.write_table(pa.table({"item_id": ids, "title": titles}), folder / "items.parquet")
    return titles


@contextmanager
def served(pages, token=None):
    """The address of a server in this process."""
    import uvicorn

    server = uvicorn.Server(uvicorn.Config(build(pages, token), log_level="critical", lifespan="off"))
    with bind("127.0.0.1", [0]) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """(folder, ids, codes, other codes, titles, vectors) of the shop."""
    return _made(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="session")
def pages(tmp_path_factory):
    return _pages(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="session")
def site(pages):
    pytest.importorskip("uvicorn")
    with served(pages) as address:
        yield address


@cache
def _made(base):
    folder = base / "explored"
    folder.mkdir()
    return folder, *shop(folder)


@cache
def _pages(base):
    folder, ids, *_, vectors = _made(base)
    tables = folder / "sids.parquet", folder / "other.parquet"
    return Pages(read(*tables, folder / "items.parquet", "title", Lines(vectors, pa.array(ids))))
