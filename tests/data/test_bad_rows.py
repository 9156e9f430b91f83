"""Rows that cannot be computed with are found, listed and left out in one pass over their files."""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sidkit as library
from command import sidkit
from sidkit.data.bad_rows import list_bad_rows
from sidkit.data.embeddings import good_rows, open_embeddings, without
from sidkit.data.formats.parquet import ParquetEmbeddings
from sidkit.fleet.encode_task import encode_file, encode_tasks
from sidkit.progress import Silent
from sidkit.rows import scratch
from sidkit.rows.sources import ArraySource
from sidkit.sids.table import SidTable

BAD = {3: "holds NaN", 70: "is all zeros", 250: "holds infinity"}


def write(path, X, ids, row_group=100):
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), X.shape[1])
    pq.write_table(pa.table({"item_id": ids, "embedding": vectors}), path, row_group_size=row_group)


@pytest.fixture
def shop(rng, tmp_path):
    """300 items of which three are bad, the good ones alone, and sequences of them."""
    X = rng.normal(size=(300, 8)).astype(np.float32)
    X[3, 1], X[70], X[250, 0] = np.nan, 0, np.inf
    ids = np.array([f"P{i}" for i in range(300)])
    write(tmp_path / "items.parquet", X, ids)
    write(tmp_path / "good.parquet", np.delete(X, list(BAD), axis=0), np.delete(ids, list(BAD)))
    visits = [[f"P{i}" for i in rng.integers(0, 300, 8)] for _ in range(100)]
    pq.write_table(pa.table({"items": visits}), tmp_path / "sequences.parquet")
    return tmp_path


@pytest.fixture
def passes(monkeypatch):
    """The full passes over Parquet files."""
    counted, real = [], ParquetEmbeddings.chunks
    monkeypatch.setattr(ParquetEmbeddings, "chunks", lambda self, *words: counted.append(words) or real(self, *words))
    monkeypatch.setattr(scratch, "_in_memory", lambda folder: False)
    return counted


@pytest.mark.parametrize(
    "words",
    [
        ("fit", "items.parquet", "-o", "out", "--sizes", "16-8"),
        ("encode", "tok", "items.parquet", "-o", "out.parquet"),
        ("encode", "tok", "items.parquet", "-o", "out.parquet", "--spread"),
        ("advise", "items.parquet", "--sizes", "16-8", "-o", "out.json"),
        ("compare", "items.parquet", "-o", "out", "--sizes", "16-8", "--seeds", "x2"),
        ("blend", "items.parquet", "--sequences", "sequences.parquet", "-o", "out.parquet", "--dimensions", "8"),
    ],
)
def test_a_command_that_leaves_out_bad_rows_reads_the_file_once(shop, passes, words):
    if "tok" in words:
        sidkit("fit", "good.parquet", "-o", "tok", "--sizes", "16-8", cwd=shop)
    passes.clear()
    sidkit(*words, "--bad-rows", "drop", cwd=shop)
    assert len(passes) == 1
    listed = "".join(f"{row}\tP{row}\t{why}\n" for row, why in BAD.items())
    assert (shop / "out.bad-rows.tsv").read_text() == "row\tid\treason\n" + listed


def test_a_worker_of_a_cluster_leaves_out_bad_rows_in_the_one_pass_that_encodes(shop, passes, monkeypatch):
    """Neither a first pass to look for them nor a scratch copy: a worker may have no disk."""
    monkeypatch.setattr(scratch, "ROOM", 1e30)
    fitted = library.prq_kmeans(sizes=(16, 8), iterations=3).fit(shop / "good.parquet")
    for name, drop in (("items", True), ("good", True), ("good", False)):
        passes.clear()
        (task,) = encode_tasks(fitted, [shop / f"{name}.parquet"], shop / "out.parquet", "letters", (None, None), drop)
        assert encode_file(task, fitted, "cpu", Silent()) == (297, False)
        assert len(passes) == 1
        table = SidTable.from_parquet(shop / "out.parquet")
        assert table.ids.to_pylist() == [f"P{row}" for row in range(300) if row not in BAD]
        assert np.array_equal(table.codes, fitted.fit_codes)
    listed = "".join(f"{row}\tP{row}\t{why}\n" for row, why in BAD.items())
    assert (shop / "out.bad-rows.tsv").read_text() == "row\tid\treason\n" + listed


def test_a_file_of_bad_rows_alone_has_no_semantic_ids(shop):
    write(shop / "none.parquet", np.zeros((5, 8), np.float32), list("abcde"))
    fitted = library.prq_kmeans(sizes=(4,), iterations=1).fit(shop / "good.parquet")
    (task,) = encode_tasks(fitted, [shop / "none.parquet"], shop / "out.parquet", "letters", (None, None), True)
    assert encode_file(task, fitted, "cpu", Silent()) == (0, False)
    assert len(SidTable.from_parquet(shop / "out.parquet")) == 0


@pytest.mark.parametrize("room", [True, False])
def test_the_tokens_are_those_of_the_good_rows_alone(shop, room, monkeypatch):
    if not room:
        monkeypatch.setattr(scratch, "ROOM", 1e30)
    for name in ("items", "good"):
        drop = ("--bad-rows", "drop") if name == "items" else ()
        sidkit("fit", f"{name}.parquet", "-o", f"{name}-tok", "--sizes", "16-8", *drop, cwd=shop)
        sidkit("encode", f"{name}-tok", f"{name}.parquet", "-o", f"{name}-sids.parquet", *drop, cwd=shop)
    weights = [(shop / f"{name}-tok" / "model.safetensors").read_bytes() for name in ("items", "good")]
    assert weights[0] == weights[1]
    ours, theirs = (SidTable.from_parquet(shop / f"{name}-sids.parquet") for name in ("items", "good"))
    assert ours.ids.equals(theirs.ids)
    assert np.array_equal(ours.codes, theirs.codes)


class Counting(ArraySource):
    """Rows in memory that count the passes over them."""

    passes = 0

    def chunks(self, size, start=0):
        type(self).passes += 1
        return super().chunks(size, start)

    @property
    def ids(self):
        return pa.array(range(self.shape[0]))

    paths = ()


def test_rows_that_were_checked_are_not_read_to_be_checked_again(rng):
    X = rng.normal(size=(300, 8)).astype(np.float32)
    spec = library.prq_kmeans(sizes=(16, 8), iterations=3)
    spec.fit(Counting(X))
    once = Counting.passes
    Counting.passes = 0
    good = good_rows(Counting(X), None, Silent())
    assert Counting.passes == 1
    assert np.array_equal(spec.fit(good).fit_codes, spec.fit(X).fit_codes)
    assert Counting.passes == once


def test_rows_left_out_are_listed_by_id_where_no_ids_were_read(shop):
    (shop / "parts").mkdir()
    for name, start in (("a", 0), ("b", 200)):
        rows = pq.read_table(shop / "items.parquet").slice(start, 200)
        pq.write_table(rows, shop / "parts" / f"{name}.parquet")
    source = open_embeddings(shop / "parts", ids=False)
    listing = list_bad_rows(shop / "tok", source, {250: "holds infinity", 3: "holds NaN"})
    assert listing == shop / "tok.bad-rows.tsv"
    assert listing.read_text() == "row\tid\treason\n250\tP250\tholds infinity\n3\tP3\tholds NaN\n"


def test_a_fit_on_ray_lists_them_in_the_same_form(shop, capsys):
    from sidkit.cli.ray import list_left_out

    source = without(open_embeddings(shop / "items.parquet", ids=False), [3])
    list_left_out(SimpleNamespace(source=source, left_out={3: ("row 3 of items.parquet", "holds NaN")}), shop / "tok")
    assert (shop / "tok.bad-rows.tsv").read_text() == "row\tid\treason\n3\tP3\tholds NaN\n"
    assert capsys.readouterr().err == f"left out 1 bad row, listed in {shop / 'tok.bad-rows.tsv'}\n"


def test_an_id_with_a_tab_or_a_line_end_stays_one_cell_of_the_list(tmp_path):
    source = SimpleNamespace(ids=pa.array(["a\tb", "c\r\nd", "e  f"]))
    listing = list_bad_rows(tmp_path / "sids.parquet", source, {0: "holds NaN", 1: "is all zeros", 2: "holds NaN"})
    lines = listing.read_bytes().decode().split("\n")
    assert lines == ["row\tid\treason", "0\ta b\tholds NaN", "1\tc  d\tis all zeros", "2\te  f\tholds NaN", ""]
