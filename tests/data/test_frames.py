"""Frames and columns of pandas, polars and Arrow wherever embeddings are taken, with the ids that they have."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sidkit
from sidkit.data.frames import open_frame
from sidkit.errors import InputError

N, D = 40, 6
IDS = [f"P{i:02}" for i in range(N)]


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(3).normal(size=(N, D)).astype(np.float32)


@pytest.fixture(scope="module")
def fitted(X):
    return sidkit.prq_kmeans(sizes=(4, 4)).fit(X)


def fixed(X):
    return pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), X.shape[1])


def columns(X):
    """A column of vectors in every form that people have."""
    return {
        "pandas, lists": pd.Series(X.tolist()),
        "pandas, arrays": pd.Series(list(X)),
        "pandas, arrow": pd.Series(pd.arrays.ArrowExtensionArray(pa.array(X.tolist(), pa.list_(pa.float32())))),
        "polars, lists": pl.Series(X.tolist()),
        "polars, arrays": pl.Series("x", X, dtype=pl.Array(pl.Float32, X.shape[1])),
        "arrow, lists": pa.array(X.tolist(), pa.list_(pa.float32())),
        "arrow, large": pa.array(X.tolist(), pa.large_list(pa.float64())),
        "arrow, fixed": fixed(X),
        "arrow, chunks": pa.chunked_array([fixed(X[:7]), fixed(X[7:])]),
        "arrow, a slice": fixed(np.concatenate([X, X]))[N:],
    }


def frames(X):
    """A frame with ids, vectors and something else."""
    return {
        "pandas": pd.DataFrame({"asin": IDS, "price": np.arange(N) / 7, "emb": list(X)}),
        "polars": pl.DataFrame({"asin": IDS, "price": np.arange(N) / 7, "emb": X.tolist()}),
        "arrow": pa.table({"asin": IDS, "price": np.arange(N) / 7, "emb": fixed(X)}),
        "batch": pa.RecordBatch.from_pydict({"asin": IDS, "price": np.arange(N) / 7, "emb": fixed(X)}),
        "pandas, an index": pd.DataFrame({"price": np.arange(N) / 7, "emb": list(X)}, index=pd.Index(IDS, name="asin")),
    }


@pytest.mark.parametrize("form", columns(np.zeros((N, D), np.float32)))
def test_a_column_of_lists_is_a_matrix(X, fitted, form):
    column = columns(X)[form]
    assert (fitted.encode(column) == fitted.encode(X)).all()
    again = sidkit.prq_kmeans(sizes=(4, 4)).fit(column)
    assert (again.encode(X) == sidkit.prq_kmeans(sizes=(4, 4)).fit(open_frame(column).array).encode(X)).all()
    assert (open_frame(column).array.astype(np.float32) == X).all()


@pytest.mark.parametrize("form", frames(np.zeros((N, D), np.float32)))
def test_a_frame_has_a_column_of_vectors_and_ids(X, fitted, form):
    frame = frames(X)[form]
    assert (fitted.encode(frame) == fitted.encode(X)).all()
    table = fitted.table(frame)
    assert table.ids.to_pylist() == IDS
    assert (table.codes == fitted.encode(X)).all()
    assert table.origin.id_column == "asin"
    assert table.origin.tokenizer_digest == fitted.digest
    fit = sidkit.prq_kmeans(sizes=(4, 4)).fit(frame)
    assert fit.columns == {"items": {"id": "asin", "vectors": "emb"}}


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_a_frame_may_have_a_dimension_in_every_column(X, fitted, make):
    named = {f"x{i}": X[:, i] for i in range(D)}
    assert (fitted.encode(make(named)) == fitted.encode(X)).all()
    table = fitted.table(make({"item_id": IDS, **named}))
    assert (table.codes == fitted.encode(X)).all()
    assert table.ids.to_pylist() == IDS
    numbers = fitted.table(make({"item_id": range(100, 100 + N), **named}))
    assert numbers.ids.to_pylist() == list(range(100, 100 + N))  # ids, not a dimension
    assert (numbers.codes == table.codes).all()


def test_rows_of_a_pandas_frame_keep_their_labels(X, fitted):
    frame = pd.DataFrame(X)
    part = frame[frame[0] > 0]
    table = fitted.table(part)
    assert table.ids.to_pylist() == part.index.tolist()
    assert (table.codes == fitted.encode(X[X[:, 0] > 0])).all()
    assert fitted.table(frame).ids.to_pylist() == list(range(N))


def test_columns_can_be_named(X, fitted):
    other = fitted.encode(X[:, ::-1].copy())
    frame = pd.DataFrame({"a": IDS, "b": IDS[::-1], "x": list(X), "y": list(X[:, ::-1])})
    with pytest.raises(InputError, match=r"no column 'embedding' in the data frame .*; did you mean column="):
        fitted.encode(frame)
    table = fitted.table(frame, id_column="b", column="y")
    assert table.ids.to_pylist() == IDS[::-1]
    assert (table.codes == other).all()
    source = sidkit.open_embeddings(frame, id_column="a", column="x")
    assert source.ids.to_pylist() == IDS
    assert (source.take(np.arange(N)) == X).all()
    assert source.name(3) == "item 'P03' (row 3)"


def test_a_table_of_a_file_has_the_columns_of_the_fit(X, tmp_path):
    columns = {"code": IDS, "sku": IDS[::-1], "x": fixed(X), "emb": fixed(X[:, ::-1].copy())}
    pq.write_table(pa.table(columns), tmp_path / "items.parquet")
    source = sidkit.open_embeddings(tmp_path / "items.parquet", id_column="code", column="x")
    fitted = sidkit.prq_kmeans(sizes=(4, 4)).fit(source)
    table = fitted.table(tmp_path / "items.parquet")
    assert table.ids.to_pylist() == IDS
    assert (table.codes == fitted.encode(X)).all()
    assert table.origin.embeddings.endswith("items.parquet")
    assert fitted.table(tmp_path / "items.parquet", id_column="sku").ids.to_pylist() == IDS[::-1]
    np.save(tmp_path / "x.npy", X)
    assert fitted.table(tmp_path / "x.npy").ids.to_pylist() == list(range(N))
    assert fitted.table(X, ids=IDS, spread=True).ids.to_pylist() == IDS
    assert fitted.table(X.tolist()).ids.to_pylist() == list(range(N))


@pytest.mark.parametrize(
    "wrong, message",
    [
        (pd.Series([1.0, 2.0]), "the column holds double, expected lists of numbers"),
        (pd.Series(["a", "b"]), "the column holds .*string.*, expected lists of numbers"),
        (pd.Series([[1.0], "b"]), "the column holds object, expected lists of numbers"),
        (pl.Series([[1.0, 2.0], [1.0]]), "row 1 of the column: 'embedding' has 1 numbers, expected 2"),
        (pd.Series([[1.0, 2.0], None]), "row 1 of the column: 'embedding' is null"),
        (pa.array([[1.0, None]]), "row 0 of the column: 'embedding' has a null among its numbers"),
        (pa.array([], pa.list_(pa.float32())), "there are no rows in the column"),
        (
            pl.DataFrame({"title": ["a"], "price": [1.0]}),
            r"no column 'embedding' in the data frame \(columns: title, p",
        ),
        (pl.DataFrame({"x": [1.0, None]}), "'x' in the data frame has missing values"),
        (pl.DataFrame({"x": [1.0]}).lazy(), r"a polars LazyFrame has no rows yet; give frame\.collect\(\)"),
        (pd.DataFrame([[1.0, 2.0]], columns=["x", "x"]), "several columns of one name"),
        (
            pd.DataFrame({"emb": [[1.0, np.nan], [1.0, 2.0]]}),
            "row 0 of the data frame: 'emb' has a null among its numbers",
        ),
    ],
)
def test_frames_that_hold_no_embeddings_are_refused(wrong, message):
    with pytest.raises(InputError, match=message):
        sidkit.prq_kmeans(sizes=(1,)).fit(wrong)


def test_repeated_ids_are_refused_in_a_table(X, fitted):
    frame = pd.DataFrame({"id": ["a"] * N, "emb": list(X)})
    assert len(fitted.encode(frame)) == N
    with pytest.raises(InputError, match=r"'a'.*row 1 of the data frame"):
        fitted.table(frame)


def test_a_table_becomes_a_frame(X, fitted, monkeypatch):
    table = fitted.table(X, ids=IDS)
    pandas, polars = table.to_pandas(), table.to_polars()
    assert list(pandas.columns) == polars.columns == ["item_id", "codes", "sid"]
    assert pandas["item_id"].tolist() == polars["item_id"].to_list() == IDS
    assert (np.stack(pandas["codes"]) == table.codes).all()
    assert polars["codes"].to_list() == table.codes.tolist()
    assert pandas["sid"].tolist() == polars["sid"].to_list() == table.strings().to_pylist()
    again = sidkit.SidTable(pandas["item_id"], np.stack(pandas["codes"]), table.sizes)
    assert again.sid_of("P03") == table.sid_of("P03")
    monkeypatch.setitem(__import__("sys").modules, "polars", None)
    with pytest.raises(sidkit.SidkitError, match=r"SidTable\.to_polars needs polars: pip install polars"):
        table.to_polars()
