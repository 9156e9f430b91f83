"""One shop and one server for all tests of the explorer."""

import pyarrow as pa
import pytest

from explored import served, shop
from sidkit.data.json_lines import Lines
from sidkit.explore.catalogue import read
from sidkit.explore.pages import Pages


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """(folder, ids, codes, other codes, titles, vectors) of the shop."""
    folder = tmp_path_factory.mktemp("shop")
    return folder, *shop(folder)


@pytest.fixture(scope="session")
def pages(made):
    folder, ids, *_, vectors = made
    tables = folder / "sids.parquet", folder / "other.parquet"
    return Pages(read(*tables, folder / "items.parquet", "title", Lines(vectors, pa.array(ids))))


@pytest.fixture(scope="session")
def site(pages):
    pytest.importorskip("uvicorn")
    with served(pages) as address:
        yield address
