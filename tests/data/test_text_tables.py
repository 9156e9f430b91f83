"""CSV, TSV and JSON lines, wherever Parquet is read."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from command import sidkit
from sidkit.data.embeddings import open_embeddings
from sidkit.data.sequences import read_sequences
from sidkit.errors import InputError
from sidkit.files.address import for_arrow, locate


def _columns(path):
    return pq.read_table(for_arrow(locate(path)))


def test_ids_with_leading_zeros_stay_texts_and_numbers_become_numbers(tmp_path):
    file = tmp_path / "items.csv"
    file.write_text("sku,count,price,code,title\n00123,7,1.5,12345678901234567890,a\n00124,,2,2,\n")
    table = _columns(file)
    assert table.to_pydict() == {
        "sku": ["00123", "00124"],
        "count": [7, None],
        "price": [1.5, 2.0],
        "code": ["12345678901234567890", "2"],  # more digits than a float keeps
        "title": ["a", ""],
    }


@pytest.mark.parametrize(
    "written,expected",
    [
        ('"[1, 2]"', [1, 2]),
        ('"[0.5, 2]"', [0.5, 2.0]),
        ("[0.5 2.25\n 3.]", [0.5, 2.25, 3.0]),
        ("\"['A', 'B, C']\"", ["A", "B, C"]),
        ('"[""A"", ""B""]"', ["A", "B"]),
    ],
)
def test_lists_as_json_python_and_numpy_write_them(tmp_path, written, expected):
    file = tmp_path / "items.csv"
    file.write_text(f"id,values\nx,{written}\n" if "\n" not in written else f'id,values\nx,"{written}"\n')
    assert _columns(file).column("values").to_pylist() == [expected]


def test_lists_that_are_none_stay_text(tmp_path):
    file = tmp_path / "items.csv"
    file.write_text("id,note\nx,[sic]\ny,[1\n")
    assert _columns(file).column("note").to_pylist() == ["[sic]", "[1"]


@pytest.mark.parametrize("name", ["items.csv", "items.tsv", "items.jsonl", "items.csv.gz", "items.jsonl.gz"])
def test_embeddings_in_text_are_those_in_parquet(tmp_path, rng, name):
    X = rng.normal(size=(30, 4)).astype(np.float32)
    rows = [(f"B{i}", row.tolist()) for i, row in enumerate(X)]
    if "jsonl" in name:
        text = "".join(json.dumps({"asin": i, "emb": row}) + "\n" for i, row in rows)
    else:
        sign = "\t" if "tsv" in name else ","
        text = f"asin{sign}emb\n" + "".join(f'{i}{sign}"{row}"\n' for i, row in rows)
    (tmp_path / name).write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    source = open_embeddings(tmp_path / name)
    assert source.dtype == np.float32
    assert np.array_equal(np.concatenate(list(source.chunks(7))), X)
    assert np.array_equal(source.take(np.array([3, 29])), X[[3, 29]])
    assert source.ids.to_pylist() == [i for i, _ in rows]


def test_a_semicolon_a_byte_order_mark_and_line_ends_of_windows(tmp_path):
    file = tmp_path / "events.csv"
    file.write_bytes("\ufeffuser;asin;unixReviewTime\r\n1;B;1400000300\r\n1;A;1400000200\r\n".encode())
    read = read_sequences(file, pa.array(["A", "B"]))
    assert read.rows.tolist() == [0, 1]


def test_a_changed_file_is_read_again(tmp_path):
    file = tmp_path / "x.csv"
    file.write_text("id,n\na,1\n")
    assert _columns(file).column("n").to_pylist() == [1]
    file.write_text("id,n\na,22\n")
    assert _columns(file).column("n").to_pylist() == [22]


@pytest.mark.parametrize(
    "name,text,message",
    [
        ("x.csv", "", "it is empty"),
        ("x.csv", "id,id\n1,2\n", "names the column 'id' twice"),
        ("x.csv", "id,\n1,2\n", "names a column without a name"),
        ("x.csv", "id,n\n1,2\n3\n", "Expected 2 columns, got 1"),
        ("x.json", '[{"id": 1}]', "it is one JSON list; JSON lines have an object on every line"),
        ("x.parquet", "id,title\n1,a\n", "it is CSV, not Parquet .its first line is 'id,title'.; rename it to x.csv"),
        ("x.parquet", '{"id": 1}\n', "it is JSON lines, not Parquet .*; rename it to x.jsonl"),
        ("x.parquet", "hello\n", "it is text, not Parquet; its first line is 'hello'"),
    ],
)
def test_text_that_is_no_table_is_named(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message):
        open_embeddings(tmp_path / name)


def test_parquet_under_the_name_of_csv_is_read(tmp_path):
    pq.write_table(pa.table({"id": ["a"], "emb": [[1.0, 2.0]]}), tmp_path / "x.csv")
    assert open_embeddings(tmp_path / "x.csv").shape == (1, 2)


def test_every_step_takes_csv(tmp_path, rng):
    X = np.repeat(np.eye(8), 6, axis=0) + rng.normal(size=(48, 8)) * 0.05
    lines = [f'{i:04d},"item {i}","{row.tolist()}"\n' for i, row in enumerate(X)]
    (tmp_path / "items.csv").write_text("sku,title,vector\n" + "".join(lines))
    visits = [f"{u},{(u * 5 + t * 7) % 48:04d},{1_400_000_000 + t}\n" for u in range(20) for t in (3, 1, 2, 0)]
    (tmp_path / "events.csv").write_text("user,sku,when\n" + "".join(visits))
    following = sidkit("fit", "items.csv", "-o", "tok", "--sizes", "8-4", cwd=tmp_path).split("next: sidkit ")[1]
    sidkit(*following.split(), cwd=tmp_path)
    words = ("--sequences", "events.csv", "--items", "items.csv", "--json")
    report = json.loads(sidkit("report", "sids.parquet", "tok", *words, cwd=tmp_path))
    assert report["columns"]["sequences"] == {"item": "sku", "user": "user", "time": "when"}
    assert report["columns"]["items"] == {"id": "sku"}
