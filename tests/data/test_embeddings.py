"""Embeddings in files: what is read, in which order, and the errors for what cannot be read."""

from __future__ import annotations

import json
import re
import struct
import sys
import threading
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sidkit.data.ids as ids_module
from sidkit.data.embeddings import open_embeddings, without
from sidkit.errors import InputError, MissingExtraError
from sidkit.rows.sources import ArraySource, Source

X = (np.arange(40, dtype=np.float32).reshape(10, 4) - 17) / 8  # exact in float16, and as bfloat16
IDS = [f"item-{i}" for i in range(10)]
FORMATS = ("parquet", "folder", "npy", "npz", "packed.npz", "safetensors")


def refused(pattern):
    return pytest.raises(InputError, match=pattern)


def vectors(x, kind=None, make="list"):
    values = pa.array(np.ravel(x), kind or pa.float32())
    if make == "fixed":
        return pa.FixedSizeListArray.from_arrays(values, len(x[0]))
    offsets = np.arange(0, len(values) + 1, len(x[0]))
    if make == "large":
        return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), values)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)


def parquet(path, x=X, ids=IDS, column="embedding", id_column="item_id", group=3, **how):
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.table({id_column: ids, column: vectors(x, **how)}), path, row_group_size=group)
    return path


def table(path, **columns):
    pq.write_table(pa.table(columns), path)
    return path


def safetensors(path, **tensors):
    header, data = {}, b""
    for name, (dtype, array) in tensors.items():
        raw = array.tobytes()
        header[name] = {"dtype": dtype, "shape": array.shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    return headed(path, json.dumps(header).encode(), data)


def headed(path, header, data=b""):
    path.write_bytes(struct.pack("<Q", len(header)) + header + data)
    return path


def npy(path, shape, descr="<f4", data=b""):
    header = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data)
    return path


def bfloat16(x):
    return (x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def all_rows(source):
    return np.concatenate(list(source.chunks(1000)))


def opened(tmp_path, form):
    if form == "parquet":
        return open_embeddings(parquet(tmp_path / "items.parquet"))
    if form == "folder":
        parquet(tmp_path / "parts" / "b.parquet", X[4:], IDS[4:])
        parquet(tmp_path / "parts" / "a.parquet", X[:4], IDS[:4])
        return open_embeddings(tmp_path / "parts")
    path = tmp_path / f"items.{form}"
    if form == "npy":
        np.save(path, X)
    elif form == "npz":
        np.savez(path, embedding=X, item_id=IDS)
    elif form == "packed.npz":
        np.savez_compressed(path, embedding=X, item_id=IDS)
    else:
        safetensors(path, embedding=("F32", X), item_id=("I64", np.arange(10, 20)))
    return open_embeddings(path)


# ---- every format says the same


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_gives_the_same_rows_whatever_the_chunk_size(tmp_path, form):
    source = opened(tmp_path, form)
    assert isinstance(source, Source)
    assert source.shape == (10, 4)
    assert source.dtype == np.float32
    for size in (1, 2, 3, 4, 7, 10, 11):
        chunks = list(source.chunks(size))
        assert [len(chunk) for chunk in chunks] == [size] * (10 // size) + [10 % size] * (10 % size > 0)
        assert all(c.dtype == np.float32 and c.flags.c_contiguous and c.flags.aligned for c in chunks)
        np.testing.assert_array_equal(np.concatenate(chunks), X)
        for start in range(11):
            np.testing.assert_array_equal(np.concatenate([X[:start], *source.chunks(size, start)]), X)


@pytest.mark.parametrize("form", FORMATS)
def test_take_keeps_the_order_asked_for_and_repeats(tmp_path, form):
    source = opened(tmp_path, form)
    for numbers in ([9, 0, 4, 4, 3, 9], [5], list(range(10)), []):
        taken = source.take(np.array(numbers, np.int64))
        np.testing.assert_array_equal(taken, X[numbers])
        assert taken.dtype == np.float32
    for number in (10, -1):
        with refused(f"there is no row {number}: rows are numbered 0 to 9"):
            source.take(np.array([0, number]))


@pytest.mark.parametrize("form", FORMATS)
def test_dropped_rows_are_gone_and_the_others_keep_ids_and_names(tmp_path, form):
    source = opened(tmp_path, form)
    others = [1, 2, 4, 5, 6, 8]
    left = without(source, [0, 3, 7, 9])
    assert isinstance(left, Source)
    assert left.shape == (6, 4)
    assert left.paths == source.paths
    assert left.ids.to_pylist() == [source.ids[i].as_py() for i in others]
    assert left.ids.type == source.ids.type
    assert [left.name(i) for i in range(6)] == [source.name(i) for i in others]
    np.testing.assert_array_equal(left.take(np.array([5, 0, 2, 2])), X[[8, 1, 4, 4]])
    for size in (1, 2, 5, 100):
        chunks = list(left.chunks(size))
        assert all(len(chunk) == size for chunk in chunks[:-1])
        np.testing.assert_array_equal(np.concatenate(chunks), X[others])
        for start in range(7):
            np.testing.assert_array_equal(np.concatenate([X[others][:start], *left.chunks(size, start)]), X[others])
    again = without(left, [0, 5])
    np.testing.assert_array_equal(all_rows(again), X[[2, 4, 5, 6]])
    assert again.name(0) == source.name(2)


def test_rows_dropped_from_a_plain_array_are_known_by_their_first_numbers():
    left = without(ArraySource(X), np.array([7, 1, 1]))
    assert left.ids.to_pylist() == [0, 2, 3, 4, 5, 6, 8, 9]
    assert left.name(1) == "row 2"
    assert left.paths == ()
    np.testing.assert_array_equal(all_rows(without(ArraySource(X), [])), X)
    assert list(without(ArraySource(X), range(10)).chunks(3)) == []


def test_rows_are_named_as_the_user_knows_them(tmp_path):
    names = {form: opened(tmp_path, form).name(5) for form in FORMATS}
    assert names == {
        "parquet": "item 'item-5' (row 5 of items.parquet)",
        "folder": "item 'item-5' (row 1 of b.parquet)",
        "npy": "row 5 of items.npy",
        "npz": "item 'item-5' (row 5 of items.npz)",
        "packed.npz": "item 'item-5' (row 5 of items.packed.npz)",
        "safetensors": "item 15 (row 5 of items.safetensors)",
    }


# ---- number types


@pytest.mark.parametrize("make", ["list", "large", "fixed"])
@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()])
def test_parquet_lists_of_any_make_and_float(tmp_path, make, kind):
    source = open_embeddings(parquet(tmp_path / "x.parquet", kind=kind, make=make))
    assert source.dtype == (np.float64 if kind == pa.float64() else np.float32)
    np.testing.assert_array_equal(all_rows(source), X)
    assert all_rows(source).dtype == source.dtype


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "int32", "int64"])
def test_integers_become_float32(tmp_path, kind):
    x = np.array([[1, 2], [3, 100]], kind)
    parquet(tmp_path / "x.parquet", x, IDS[:2], kind=pa.from_numpy_dtype(kind))
    np.save(tmp_path / "x.npy", x)
    for name in ("x.parquet", "x.npy"):
        source = open_embeddings(tmp_path / name)
        assert source.dtype == np.float32
        np.testing.assert_array_equal(all_rows(source), [[1, 2], [3, 100]])
        assert all_rows(source).dtype == np.float32


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<f2", ">f2", "<f4", ">f4", "<f8", ">f8"])
def test_npy_of_either_byte_order_and_layout(tmp_path, dtype, order):
    np.save(tmp_path / "x.npy", np.array(X, dtype, order=order))
    source = open_embeddings(tmp_path / "x.npy")
    assert source.dtype == (np.float64 if dtype.endswith("8") else np.float32)
    for chunk in (*source.chunks(3), source.take(np.array([2, 1]))):
        assert chunk.flags.c_contiguous
        assert chunk.dtype == source.dtype
        assert chunk.dtype.isnative
    np.testing.assert_array_equal(all_rows(source), X)
    np.testing.assert_array_equal(source.take(np.array([2, 1])), X[[2, 1]])


@pytest.mark.parametrize("order", ["C", "F"])
def test_packed_npz_keeps_its_layout(tmp_path, order):
    np.savez_compressed(tmp_path / "x.npz", emb=np.array(X, order=order))
    np.testing.assert_array_equal(all_rows(open_embeddings(tmp_path / "x.npz")), X)


def test_bfloat16_is_the_upper_half_of_float32(tmp_path):
    safetensors(tmp_path / "x.safetensors", emb=("BF16", bfloat16(X)))
    np.save(tmp_path / "x.npy", bfloat16(X).view("V2"))  # how numpy writes a bfloat16 array
    for name in ("x.safetensors", "x.npy"):
        source = open_embeddings(tmp_path / name)
        assert source.dtype == np.float32
        np.testing.assert_array_equal(all_rows(source), X)
        np.testing.assert_array_equal(source.take(np.array([3, 0])), X[[3, 0]])
    one = np.array([[0x3F80, 0xC000]], np.uint16)  # 1.0, -2.0
    safetensors(tmp_path / "one.safetensors", emb=("BF16", one))
    np.testing.assert_array_equal(all_rows(open_embeddings(tmp_path / "one.safetensors")), [[1.0, -2.0]])


@pytest.mark.parametrize("label,dtype", [("F16", "f2"), ("F32", "f4"), ("F64", "f8"), ("I8", "i1")])
def test_safetensors_types_and_odd_places(tmp_path, label, dtype):
    x = np.array([[1, -2], [3, 4], [5, 6]], dtype)
    path = safetensors(tmp_path / "x.safetensors", pad=("U8", np.zeros(3, "u1")), vector=(label, x))
    chunk = next(open_embeddings(path).chunks(2))
    np.testing.assert_array_equal(chunk, [[1, -2], [3, 4]])
    assert chunk.flags.aligned
    assert chunk.dtype == (np.float64 if label == "F64" else np.float32)


def test_a_tensor_extension_column_is_a_list_column(tmp_path):
    kind = pa.fixed_shape_tensor(pa.float32(), [4])
    column = pa.ExtensionArray.from_storage(kind, vectors(X, make="fixed"))
    source = open_embeddings(table(tmp_path / "x.parquet", item_id=IDS, embedding=column))
    np.testing.assert_array_equal(all_rows(source), X)


def test_arrays_are_mapped_not_loaded(tmp_path):
    np.save(tmp_path / "x.npy", X)
    np.savez(tmp_path / "x.npz", embedding=X)
    safetensors(tmp_path / "x.safetensors", embedding=("F32", X))
    for suffix in ("npy", "npz", "safetensors"):
        base = open_embeddings(tmp_path / f"x.{suffix}").array
        while isinstance(base.base, np.ndarray):
            base = base.base
        assert type(base.base).__name__ == "mmap"


# ---- torch files


def test_pt_holds_a_tensor_or_names_them(tmp_path):
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(X)
    for value in (x, x.to(torch.bfloat16), x.half(), {"emb": x, "bias": torch.zeros(4)}):
        torch.save(value, tmp_path / "x.pt")
        source = open_embeddings(tmp_path / "x.pt")
        np.testing.assert_array_equal(all_rows(source), X)
        assert source.ids.to_pylist() == list(range(10))
    torch.save({"embedding": x.double(), "item_id": IDS}, tmp_path / "x.pt")
    source = open_embeddings(tmp_path / "x.pt")
    assert source.dtype == np.float64
    assert source.ids.to_pylist() == IDS
    torch.save({"a": x, "b": x}, tmp_path / "x.pt")
    with refused(re.escape("no array 'embedding' in x.pt (arrays: a, b); did you mean column=")):
        open_embeddings(tmp_path / "x.pt")
    torch.save({"embedding": x.to(torch.complex64)}, tmp_path / "x.pt")
    with refused("'embedding' in x.pt holds complex64; expected float16"):
        open_embeddings(tmp_path / "x.pt")


def test_pt_never_runs_code(tmp_path):
    torch = pytest.importorskip("torch")

    class Evil:
        def __reduce__(self):
            return Path.touch, (tmp_path / "owned",)

    torch.save({"embedding": Evil()}, tmp_path / "x.pt")
    with refused(r"cannot read .*x\.pt: it holds more than tensors"):
        open_embeddings(tmp_path / "x.pt")
    assert not (tmp_path / "owned").exists()


def test_pt_without_torch_names_the_extra(tmp_path, monkeypatch):
    (tmp_path / "x.pt").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"reading x\.pt needs the 'torch' extra: pip install"):
        open_embeddings(tmp_path / "x.pt")


# ---- ids


@pytest.mark.parametrize(
    "ids",
    [
        pa.array(IDS),
        pa.array(IDS, pa.large_string()),
        pa.array(IDS).dictionary_encode(),
        pa.array([-5, 3, 2, 1, 0, 9, 8, 7, 6, 5], pa.int8()),
        pa.array(range(10), pa.int64()),
        pa.array([2**64 - 1 - i for i in range(10)], pa.uint64()),
    ],
    ids=lambda ids: str(ids.type),
)
def test_ids_keep_type_order_and_value_across_files(tmp_path, ids):
    parquet(tmp_path / "parts" / "1.parquet", X[:6], ids[:6])
    parquet(tmp_path / "parts" / "2.parquet", X[6:], ids[6:])
    source = open_embeddings(tmp_path / "parts")
    assert source.ids.type == ids.type
    assert source.ids.to_pylist() == ids.to_pylist()
    assert without(source, [0, 7]).ids.to_pylist() == [ids[i].as_py() for i in (1, 2, 3, 4, 5, 6, 8, 9)]
    assert without(source, [0, 7]).ids.type == ids.type


def test_dictionaries_of_several_files_become_one(tmp_path):
    parquet(tmp_path / "parts" / "a.parquet", X[:2], pa.array(["x", "y"]).dictionary_encode())
    parquet(tmp_path / "parts" / "b.parquet", X[:2], pa.array(["z", "w"]).dictionary_encode())
    ids = open_embeddings(tmp_path / "parts").ids
    assert [chunk.dictionary.to_pylist() for chunk in ids.chunks] == [["x", "y", "z", "w"]] * 2
    assert ids.to_pylist() == ["x", "y", "z", "w"]


@pytest.mark.skipif(not hasattr(pa, "string_view"), reason="this pyarrow has no string views")
def test_string_views_become_large_strings(tmp_path):
    source = open_embeddings(parquet(tmp_path / "x.parquet", ids=pa.array(IDS, pa.string_view())))
    assert source.ids.type == pa.large_string()
    assert source.ids.to_pylist() == IDS


KNOWN = ["item_id", "id", "pid", "query_id", "item", "asin", "product_id", "sku", "parent_asin", "movieId", "ID"]


@pytest.mark.parametrize("name", [*KNOWN, "Product ID", "item-id:token", "articleId", "gizmoId"])
def test_usual_id_names_are_found(tmp_path, name):
    columns = {"price": np.ones(10), "title": IDS, "user_id": IDS, name: IDS[::-1], "emb": vectors(X)}
    source = open_embeddings(table(tmp_path / "x.parquet", **columns))
    assert source.ids.to_pylist() == IDS[::-1]
    assert source.chosen[0].column == name


@pytest.mark.parametrize("name", ["embedding", "emb", "vector", "embeddings", "anything"])
def test_usual_vector_names_and_any_only_list_of_floats_are_found(tmp_path, name):
    others = {"title": IDS, "codes": [[1, 2]] * 10}
    table(tmp_path / "x.parquet", id=IDS, **others, **{name: vectors(X)})
    np.testing.assert_array_equal(all_rows(open_embeddings(tmp_path / "x.parquet")), X)


def test_named_columns_win_over_usual_names(tmp_path):
    path = table(tmp_path / "x.parquet", id=range(10), sku=IDS, embedding=vectors(X), other=vectors(-X))
    source = open_embeddings(str(path), id_column="sku", column="other")
    assert source.ids.to_pylist() == IDS
    np.testing.assert_array_equal(all_rows(source), -X)


def test_npz_ids_of_numpy_strings_bytes_and_big_endian_numbers(tmp_path):
    for given, dtype, wanted in (
        (["é", "b"], "U1", ["é", "b"]),
        ([b"a", b"b"], "S1", ["a", "b"]),
        ([7, 8], ">i4", [7, 8]),
    ):
        np.savez(tmp_path / "x.npz", ids=np.array(given, dtype), X=X[:2])
        assert open_embeddings(tmp_path / "x.npz").ids.to_pylist() == wanted
    np.savez(tmp_path / "x.npz", stock=np.array([5, 6]), X=X[:2])
    assert open_embeddings(tmp_path / "x.npz").ids.to_pylist() == [0, 1]
    assert open_embeddings(tmp_path / "x.npz", id_column="stock").ids.to_pylist() == [5, 6]
    np.savez(tmp_path / "x.npz", sku=np.array([5, 6]), X=X[:2])
    assert open_embeddings(tmp_path / "x.npz").ids.to_pylist() == [5, 6]


@pytest.mark.parametrize("encode", [lambda a: a, lambda a: a.dictionary_encode(), lambda a: a.cast(pa.large_string())])
def test_a_repeated_id_is_named_with_both_its_places(tmp_path, encode):
    parquet(tmp_path / "parts" / "a.parquet", X[:3], encode(pa.array(["x", "y", "z"])))
    parquet(tmp_path / "parts" / "b.parquet", X[:3], encode(pa.array(["v", "y", "w"])))
    wanted = "'item_id' must be different in every row; 'y' is in row 1 of a.parquet and in row 1 of b.parquet"
    with refused(f"^{wanted}$"):
        open_embeddings(tmp_path / "parts")


def test_repeated_integer_ids_are_counted(tmp_path):
    parquet(tmp_path / "x.parquet", X[:6], [4, 7, 9, 7, 4, 7])
    wanted = "4 is in row 0 of x.parquet and in row 4 of x.parquet (1 more ids repeat)"
    with refused(re.escape(wanted)):
        open_embeddings(tmp_path / "x.parquet")
    np.savez(tmp_path / "x.npz", X=X[:3], id=[5, 6, 5])
    with refused(r"'id' must be .*; 5 is in row 0 of x.npz and in row 2 of x.npz"):
        open_embeddings(tmp_path / "x.npz")


@pytest.mark.parametrize("encode", [lambda a: a, lambda a: a.dictionary_encode()])
def test_a_missing_id_is_named_with_its_place(tmp_path, encode):
    parquet(tmp_path / "parts" / "a.parquet", X[:3], encode(pa.array(["x", "y", "z"])))
    parquet(tmp_path / "parts" / "b.parquet", X[:3], encode(pa.array(["u", "v", None])))
    with refused("^row 2 of b.parquet: 'item_id' is null; every row needs an id$"):
        open_embeddings(tmp_path / "parts")


def test_ids_that_are_not_utf8_are_refused_at_open(tmp_path):
    raw = pa.array([b"\xff\xfe", b"a"], pa.binary())
    bad = pa.StringArray.from_buffers(2, raw.buffers()[1], raw.buffers()[2])
    parquet(tmp_path / "x.parquet", X[:2], bad)
    with refused(r"cannot read .*x\.parquet: .*UTF8"):
        open_embeddings(tmp_path / "x.parquet")


def test_ids_of_other_types_are_refused(tmp_path):
    parquet(tmp_path / "x.parquet", ids=np.arange(10) / 2)
    with refused("'item_id' in x.parquet is double; ids must be strings or integers"):
        open_embeddings(tmp_path / "x.parquet")
    for ids, label in ((np.arange(2) / 2, "float64"), (np.array(["a", 1], object), "Python objects, which")):
        np.savez(tmp_path / "x.npz", X=X[:2], id=ids)
        with refused(f"'id' in x.npz holds {label}.*; ids must be strings or integers"):
            open_embeddings(tmp_path / "x.npz")
    np.savez(tmp_path / "x.npz", X=X, id=np.arange(3))
    with refused(re.escape("'id' in x.npz has shape (3,), expected (10,): one id for")):
        open_embeddings(tmp_path / "x.npz")


# ---- columns that are not there


def test_a_missing_vector_column_is_answered_with_the_likely_one(tmp_path):
    path = table(tmp_path / "items.parquet", id=IDS, title=IDS, emb=vectors(X))
    wanted = "no column 'embedding' in items.parquet (columns: id, title, emb); did you mean column='emb'?"
    with refused(f"^{re.escape(wanted)}$"):
        open_embeddings(path, column="embedding")
    path = table(tmp_path / "items.parquet", id=IDS, text_a=vectors(X), text_b=vectors(X))
    with refused(re.escape("(columns: id, text_a, text_b); did you mean column='text_")):
        open_embeddings(path)
    path = table(tmp_path / "items.parquet", id=IDS, title=IDS)
    with refused(re.escape("no column 'embedding' in items.parquet (columns: id, title)") + "$"):
        open_embeddings(path)


def test_a_missing_id_column_is_answered_with_the_likely_one(tmp_path):
    letters = [letter * 3 for letter in "abcdefghij"]
    path = table(tmp_path / "items.parquet", price=np.ones(10), code=letters, emb=vectors(X))
    wanted = "no column 'item_id' in items.parquet (columns: price, code, emb); did you mean id_column='code'?"
    with refused(f"^{re.escape(wanted)}$"):
        open_embeddings(path)
    with refused(re.escape("no column 'cod' in items.parquet") + ".*id_column='code'"):
        open_embeddings(path, id_column="cod")


def test_the_likely_id_column_is_unique_and_no_text(tmp_path):
    others = {"title": IDS, "words": [f"{i} red mugs" for i in range(10)], "emb": vectors(X)}
    path = table(tmp_path / "items.parquet", **others, group=["a", "b"] * 5, code=range(10))
    with refused(re.escape("emb, group, code); did you mean id_column='code'?") + "$"):
        open_embeddings(path)
    path = table(tmp_path / "items.parquet", **others, group=["a", "b"] * 5)
    with refused(re.escape("(columns: title, words, emb, group)") + "$"):
        open_embeddings(path)
    with refused(re.escape("no column 'tittle' in items.parquet (columns: title, words, emb, group)") + "$"):
        open_embeddings(path, id_column="tittle")


def test_missing_arrays_are_answered_likewise(tmp_path):
    np.savez(tmp_path / "x.npz", a=X, b=X, k=np.arange(10))
    with refused(re.escape("no array 'embedding' in x.npz (arrays: a, b, k); did you mean")):
        open_embeddings(tmp_path / "x.npz")
    with refused(re.escape("no array 'kk' in x.npz (arrays: a, b, k); did you mean id_column='k'?")):
        open_embeddings(tmp_path / "x.npz", column="a", id_column="kk")
    np.save(tmp_path / "x.npy", X)
    with refused("x.npy holds one array without a name; leave out id_column sku"):
        open_embeddings(tmp_path / "x.npy", id_column="sku")


def test_columns_of_the_wrong_type_are_named_with_it(tmp_path):
    path = table(tmp_path / "x.parquet", id=IDS, embedding=IDS)
    with refused("'embedding' in x.parquet is string; embeddings must be lists of numbers"):
        open_embeddings(path)
    path = table(tmp_path / "x.parquet", id=IDS, embedding=[["a"]] * 10)
    with refused(r"'embedding' in x.parquet is list<.*string>; embeddings must be lists"):
        open_embeddings(path)


def test_two_columns_of_one_name_are_refused(tmp_path):
    pq.write_table(pa.table([IDS, vectors(X), vectors(X)], names=["id", "emb", "emb"]), tmp_path / "x.parquet")
    with refused("x.parquet has 2 columns named 'emb'; keep one"):
        open_embeddings(tmp_path / "x.parquet")


# ---- vectors that cannot be rows


def fails_while_streaming(path, message):
    source = open_embeddings(path)
    for read in (lambda: list(source.chunks(3)), lambda: source.take(np.arange(source.shape[0]))):
        with refused(f"^{re.escape(message)}$"):
            read()


@pytest.mark.parametrize("kind", [pa.list_(pa.float32()), pa.large_list(pa.float32())])
def test_a_vector_of_another_length_is_named_with_its_row(tmp_path, kind):
    column = pa.array([*X[:7].tolist(), [1.0, 2.0, 3.0], *X[8:].tolist()], kind)
    path = table(tmp_path / "items.parquet", id=IDS, embedding=column)
    fails_while_streaming(path, "row 7 of items.parquet: 'embedding' has 3 numbers, expected 4")


def test_lengths_that_even_out_are_still_ragged(tmp_path):
    path = table(tmp_path / "x.parquet", id=IDS[:3], emb=[[1.0, 2.0], [1.0], [1.0, 2.0, 3.0]])
    fails_while_streaming(path, "row 1 of x.parquet: 'emb' has 1 numbers, expected 2")


@pytest.mark.parametrize("kind", [pa.list_(pa.float32()), pa.list_(pa.float32(), 4)], ids=["list", "fixed"])
def test_nulls_are_named_with_their_row(tmp_path, kind):
    column = pa.array([*X[:4].tolist(), None, *X[5:].tolist()], kind)
    try:
        path = table(tmp_path / "x.parquet", id=IDS, emb=column)
    except pa.ArrowNotImplementedError:
        pytest.skip(f"pyarrow {pa.__version__} writes no null among lists of fixed size")
    fails_while_streaming(path, "row 4 of x.parquet: 'emb' is null, expected a list of numbers")
    column = pa.array([*X[:8].tolist(), [1.0, None, 3.0, 4.0], *X[9:].tolist()], kind)
    path = table(tmp_path / "x.parquet", id=IDS, emb=column)
    fails_while_streaming(path, "row 8 of x.parquet: 'emb' has a null among its numbers")


def test_a_first_row_without_numbers_is_refused_at_open(tmp_path):
    for first, word in ((None, "null"), ([], "empty")):
        path = table(tmp_path / "x.parquet", id=[1, 2], emb=pa.array([first, [1.0]], pa.list_(pa.float32())))
        with refused(f"row 0 of x.parquet: 'emb' is {word}, expected a list of numbers"):
            open_embeddings(path)


@pytest.mark.parametrize("make", ["list", "fixed"])
def test_files_of_different_dimension_are_named(tmp_path, make):
    parquet(tmp_path / "parts" / "a.parquet", X[:6], IDS[:6], make=make)
    parquet(tmp_path / "parts" / "b.parquet", X[6:, :3], IDS[6:], make=make)
    fails_while_streaming(tmp_path / "parts", "row 0 of b.parquet: 'embedding' has 3 numbers, expected 4")


def test_files_of_different_types_are_named_at_open(tmp_path):
    parquet(tmp_path / "parts" / "a.parquet", X[:6], IDS[:6])
    parquet(tmp_path / "parts" / "b.parquet", X[6:], IDS[6:], kind=pa.float64())
    wanted = "'embedding' is of double in b.parquet, but of float in a.parquet; write all files with one schema"
    with refused(wanted):
        open_embeddings(tmp_path / "parts")
    parquet(tmp_path / "parts" / "b.parquet", X[6:], range(4))
    with refused("'item_id' is of int64 in b.parquet, but of string in a.parquet"):
        open_embeddings(tmp_path / "parts")
    parquet(tmp_path / "parts" / "b.parquet", X[6:], IDS[6:], id_column="sku")
    with refused(r"no column 'item_id' in b.parquet .*id_column='sku'"):
        open_embeddings(tmp_path / "parts")


# ---- paths


def test_a_folder_leaves_out_hidden_files_and_what_is_not_parquet(tmp_path):
    source = opened(tmp_path, "folder")
    for name in (".a.parquet", "_SUCCESS", "_metadata.parquet", "README.md"):
        (tmp_path / "parts" / name).write_text("nothing")
    again = open_embeddings(tmp_path / "parts")
    assert [path.name for path in again.paths] == ["a.parquet", "b.parquet"] == [path.name for path in source.paths]
    np.testing.assert_array_equal(all_rows(again), X)


def test_a_pattern_reads_what_it_matches_in_order(tmp_path):
    opened(tmp_path, "folder")
    parquet(tmp_path / "parts" / "c.parquet", X, range(10))
    source = open_embeddings(f"{tmp_path}/**/[ab].parquet")
    assert source.ids.to_pylist() == IDS
    np.testing.assert_array_equal(all_rows(source), X)
    with refused(r"^no file matches .*/x\*\.parquet$"):
        open_embeddings(f"{tmp_path}/x*.parquet")
    np.save(tmp_path / "x.npy", X)
    np.testing.assert_array_equal(all_rows(open_embeddings(f"{tmp_path}/*.npy")), X)
    np.save(tmp_path / "y.npy", X)
    with refused(r"cannot read .*x\.npy as embeddings; accepted are Parquet"):
        open_embeddings(f"{tmp_path}/*.npy")


def test_a_path_with_brackets_that_exists_is_not_a_pattern(tmp_path):
    path = parquet(tmp_path / "items[1].parquet")
    assert open_embeddings(path).shape == (10, 4)


def test_parquet_is_known_by_its_first_bytes_too(tmp_path):
    parquet(tmp_path / "x.parquet").rename(tmp_path / "part-0")
    np.testing.assert_array_equal(all_rows(open_embeddings(tmp_path / "part-0")), X)


@pytest.mark.parametrize(
    "name,message",
    [
        ("nowhere.parquet", "no such file or folder: .*nowhere.parquet$"),
        ("x.csv", r"there are no rows in .*x\.csv"),
        ("x.xls", r"cannot read .*x\.xls as embeddings; accepted are Parquet \(a file, a folder or a glob"),
        ("empty", r"no Parquet files in folder .*empty \(it holds nothing\)$"),
        ("nested", r"no Parquet files in folder .*nested \(it holds a.npy, sub/\); give a pattern such as '.*\*\*/"),
    ],
)
def test_paths_that_hold_no_embeddings(tmp_path, name, message):
    for ending in ("csv", "xls"):
        (tmp_path / f"x.{ending}").write_text("id,emb\n")
    (tmp_path / "empty").mkdir()
    (tmp_path / "nested" / "sub").mkdir(parents=True)
    np.save(tmp_path / "nested" / "a.npy", X)
    with refused(message):
        open_embeddings(tmp_path / name)


def test_an_empty_path_is_not_the_current_folder():
    with refused("no such file or folder: ''"):
        open_embeddings("")
    with refused("no such file or folder"):
        open_embeddings("a\0b")


def test_files_without_rows_matter_only_when_all_are_empty(tmp_path):
    opened(tmp_path, "folder")
    pq.write_table(pa.table({"item_id": pa.nulls(0), "embedding": pa.nulls(0)}), tmp_path / "parts" / "aa.parquet")
    source = open_embeddings(tmp_path / "parts")
    assert source.shape == (10, 4)
    assert source.name(4) == "item 'item-4' (row 0 of b.parquet)"
    np.testing.assert_array_equal(all_rows(source), X)
    np.testing.assert_array_equal(source.take(np.array([4, 3])), X[[4, 3]])
    for name in "ab":
        pq.write_table(pa.table({"item_id": pa.nulls(0)}), tmp_path / "parts" / f"{name}.parquet")
    with refused(r"there are no rows in .*a\.parquet and 2 other files$"):
        open_embeddings(tmp_path / "parts")
    with refused(r"there are no rows in .*a\.parquet$"):
        open_embeddings(tmp_path / "parts" / "a.parquet")
    np.save(tmp_path / "x.npy", X[:0])
    with refused(r"there are no rows in x\.npy$"):
        open_embeddings(tmp_path / "x.npy")


# ---- files that are broken or lie


@pytest.mark.parametrize("form", ["parquet", "npy", "npz", "safetensors", "pt"])
@pytest.mark.parametrize("content", [b"", b"PAR1", b"\x93NUMPY", b"PK\x03\x04", b"hello, world; this is not it"])
def test_files_that_are_not_what_they_are_called(tmp_path, form, content):
    if form == "pt":
        pytest.importorskip("torch")
    path = tmp_path / f"x.{form}"
    path.write_bytes(content)
    with refused(rf"cannot read .*x\.{form}: \S"):
        open_embeddings(path)


@pytest.mark.parametrize("form", FORMATS)
def test_truncated_files(tmp_path, form):
    path = opened(tmp_path, form).paths[-1]
    path.write_bytes(path.read_bytes()[:-9])
    with refused(rf"cannot read .*{path.name}: \S"):
        all_rows(open_embeddings(path))


def test_an_npy_header_may_not_ask_for_more_than_the_file_holds(tmp_path):
    path = npy(tmp_path / "x.npy", (1 << 30, 1024), data=b"\0" * 64)
    with refused(r"shape \(1073741824, 1024\) and type float32 does not fit in its 64 bytes"):
        open_embeddings(path)
    for shape in ((-4, 4), (4, -4), (10**40, 4)):
        with refused("cannot read .*does not fit"):
            open_embeddings(npy(path, shape, data=b"\0" * 64))


@pytest.mark.parametrize(
    "array,message",
    [
        (X[0], r"x.npy has shape \(4,\), expected \(rows, dimensions\)"),
        (X[None], r"x.npy has shape \(1, 10, 4\), expected"),
        (X[:, :0], r"x.npy has shape \(10, 0\), expected"),
        (np.array([["a", "b"]]), "x.npy holds <U1; expected float16, float32, float64, bfloat16 or integers"),
        (X.astype(complex), "x.npy holds complex128; expected"),
        (X > 0, "x.npy holds bool; expected"),
        (np.zeros((2, 2), [("a", "f4")]), r"x.npy holds \[\('a', '<f4'\)\]; expected"),
        (np.array([[1, "b"]], object), "x.npy holds Python objects, which sidkit never unpickles; expected"),
    ],
)
def test_arrays_that_are_no_matrix_of_numbers(tmp_path, array, message):
    np.save(tmp_path / "x.npy", array, allow_pickle=True)
    with refused(message):
        open_embeddings(tmp_path / "x.npy")
    np.savez(tmp_path / "x.npz", thing=array)
    with refused("'thing' in " + message.replace("npy", "npz")):
        open_embeddings(tmp_path / "x.npz")


def test_a_header_that_python_2_wrote_is_read_in_silence(tmp_path):
    path = npy(tmp_path / "x.npy", "(10L, 4L)", data=X.tobytes())
    np.testing.assert_array_equal(all_rows(open_embeddings(path)), X)


def test_a_packed_npz_with_a_wrong_checksum_is_refused(tmp_path):
    np.savez_compressed(tmp_path / "x.npz", emb=X)
    data = bytearray((tmp_path / "x.npz").read_bytes())
    data[data.rindex(b"PK\x01\x02") + 16] ^= 1
    (tmp_path / "x.npz").write_bytes(data)
    with refused(r"cannot read .*x\.npz: Bad CRC-32 for file 'emb.npy'"):
        open_embeddings(tmp_path / "x.npz")


def test_an_object_array_beside_the_matrix_is_left_alone(tmp_path):
    np.savez(tmp_path / "x.npz", emb=X, titles=np.array(IDS, object))
    np.testing.assert_array_equal(all_rows(open_embeddings(tmp_path / "x.npz")), X)


def test_an_npz_that_would_unpack_to_a_thousand_times_its_size_is_refused(tmp_path):
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("embedding.npy", "w") as file:
        file.write(npy(tmp_path / "head", (1 << 18, 128)).read_bytes())
        for _ in range(1 << 7):
            file.write(bytes(1 << 20))
    with refused(r"embedding.npy would unpack from \d{6} to 134\d{6} bytes"):
        open_embeddings(path)


@pytest.mark.parametrize("pack", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_an_npz_member_must_be_as_long_as_its_header_says(tmp_path, pack):
    with zipfile.ZipFile(tmp_path / "x.npz", "w", pack) as archive:
        archive.writestr("emb.npy", npy(tmp_path / "head", (1 << 40, 128), data=bytes(64)).read_bytes())
    with refused(r"cannot read .*x\.npz: .*1099511627776, 128"):
        open_embeddings(tmp_path / "x.npz")


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F32", "shape": [1 << 40, 4], "data_offsets": [0, 16]},
        {"dtype": "F32", "shape": [1, 4], "data_offsets": [0, 1 << 50]},
        {"dtype": "F32", "shape": [1, 4], "data_offsets": [8, 24]},
        {"dtype": "F32", "shape": [1, 4], "data_offsets": [16, 0]},
        {"dtype": "F32", "shape": [-1, -4], "data_offsets": [0, 16]},
        {"dtype": "F32", "shape": [True, 4], "data_offsets": [0, 16]},
        {"dtype": "F32", "shape": [1.0, 4], "data_offsets": [0, 16]},
        {"dtype": "F32", "shape": None, "data_offsets": [0, 16]},
        {"dtype": ["F32"], "shape": [1, 4], "data_offsets": [0, 16]},
        {"dtype": "F32", "shape": [1, 4], "data_offsets": [0]},
        {"dtype": "F32", "shape": [1, 4]},
        [],
        None,
    ],
)
def test_safetensors_headers_that_lie(tmp_path, entry):
    path = headed(tmp_path / "x.safetensors", json.dumps({"emb": entry}).encode(), bytes(16))
    with refused(r"cannot read .*x\.safetensors: \S"):
        open_embeddings(path)


def test_safetensors_headers_are_limited_and_their_types_named(tmp_path):
    path = tmp_path / "x.safetensors"
    path.write_bytes(struct.pack("<Q", 1 << 60) + b"{}")
    with refused("announces a header of 1152921504606846976 bytes, in a file of 10"):
        open_embeddings(path)
    for header in (b"[[]]", b"[" * 100_000, b'{"emb": 1', b"\xff\xfe"):
        with refused(r"cannot read .*x\.safetensors"):
            open_embeddings(headed(path, header))
    safetensors(path, emb=("F8_E4M3", np.zeros((2, 2), np.uint8)))
    with refused("'emb' in x.safetensors holds F8_E4M3; expected float16"):
        open_embeddings(path)


def samples(folder):
    parquet(folder / "x.parquet")
    parquet(folder / "y.parquet", ids=pa.array(IDS).dictionary_encode(), make="fixed")
    np.save(folder / "x.npy", X)
    np.savez(folder / "x.npz", embedding=X, item_id=IDS)
    np.savez_compressed(folder / "y.npz", embedding=X, item_id=np.arange(10))
    safetensors(folder / "x.safetensors", embedding=("F32", X), item_id=("I64", np.arange(10)))
    return sorted(folder.iterdir())


def mutated(data, rng):
    data = bytearray(data)
    for _ in range(rng.integers(1, 4)):
        # half the changes go to the ends, where headers and footers are
        at = int(rng.integers(len(data))) if rng.random() < 0.5 else int(rng.integers(-300, 300)) % len(data)
        change = rng.integers(4)
        if change == 0:
            data[at] = rng.integers(256)
        elif change == 1:
            data[at] ^= 1 << int(rng.integers(8))
        elif change == 2:
            data[at : at + int(rng.integers(1, 9))] = rng.bytes(int(rng.integers(9)))
        else:
            del data[max(at, 20) :]
    return bytes(data)


def test_mutated_files_are_read_or_refused_and_nothing_else(tmp_path):
    rng = np.random.default_rng(0)
    messages, read = [], 0
    for sample in samples(tmp_path):
        data, victim = sample.read_bytes(), tmp_path / f"victim{sample.suffix}"
        for _ in range(300):
            victim.write_bytes(mutated(data, rng))
            try:
                source = open_embeddings(victim)
                assert len(source.ids.to_pylist()) == source.shape[0]
                assert all_rows(source).shape == source.shape
                source.take(np.array([source.shape[0] - 1, 0]))
                source.name(0)
                read += 1
            except InputError as error:
                messages.append(str(error))
    assert all("victim" in message for message in messages)
    assert len(messages) > 100
    assert read > 20


# ---- the reader's thread


def readers():
    return [thread for thread in threading.enumerate() if thread.name.startswith("sidkit-read")]


def test_stopping_early_ends_the_thread_and_closes_the_file(tmp_path):
    source = opened(tmp_path, "folder")
    chunks = source.chunks(2)
    assert not readers()
    next(chunks)
    assert len(readers()) == 1
    chunks.close()
    assert not readers()
    for chunk in source.chunks(1):
        np.testing.assert_array_equal(chunk, X[:1])
        break
    del chunk
    assert not readers()
    list(source.chunks(2))
    assert not readers()


def test_chunks_stay_what_they_were_when_later_ones_are_read(tmp_path):
    source = opened(tmp_path, "folder")
    first, *_ = chunks = list(source.chunks(3))
    np.testing.assert_array_equal(first, X[:3])
    np.testing.assert_array_equal(np.concatenate(chunks), X)


def test_two_passes_at_once_do_not_disturb_each_other(tmp_path):
    source = opened(tmp_path, "folder")
    for a, b in zip(source.chunks(3), source.chunks(3), strict=True):
        np.testing.assert_array_equal(a, b)


def test_an_error_in_the_thread_reaches_the_reader_after_the_good_rows(tmp_path):
    column = pa.array([*X[:8].tolist(), None, [1.0] * 4], pa.list_(pa.float32()))
    source = open_embeddings(table(tmp_path / "x.parquet", id=IDS, emb=column))
    seen = []
    with refused("row 8 of x.parquet: 'emb' is null"):
        seen.extend(source.chunks(2))
    np.testing.assert_array_equal(np.concatenate(seen), X[:8])
    assert not readers()


def test_a_file_that_goes_away_is_an_input_error(tmp_path):
    source = opened(tmp_path, "parquet")
    source.paths[0].unlink()
    for read in (lambda: list(source.chunks(3)), lambda: source.take(np.array([1]))):
        with refused(r"cannot read .*items\.parquet"):
            read()


def test_memory_holds_a_few_chunks_of_one_big_row_group(tmp_path):
    n, d, size = 60_000, 64, 1000
    zeros = np.zeros((n, d), np.float32)  # 15 MB that pack into little: a small bomb
    for x in (zeros, np.random.default_rng(0).standard_normal((n, d))):
        source = open_embeddings(parquet(tmp_path / "x.parquet", x, range(n), group=n))
        before = pa.total_allocated_bytes()
        most = max(pa.total_allocated_bytes() - before for _ in source.chunks(size))
        assert most < 6_000_000


def test_a_footer_that_announces_absurdly_many_rows_is_refused(tmp_path):
    n = 1_000_000
    table(tmp_path / "x.parquet", id=np.zeros(n, np.int8), emb=pa.nulls(n, pa.list_(pa.float32())))
    with refused(r"x\.parquet: it announces 1000000 rows in \d+ bytes"):
        open_embeddings(tmp_path / "x.parquet")


def test_repeated_ids_are_found_among_look_alikes(rng, monkeypatch):
    """Every id is compared by a number first; equal numbers of different ids must not pass for repeats."""
    monkeypatch.setattr(ids_module, "PART", 7)
    words = ["", "a", "b", "ab", "ba", "aa", "é", "日本", "a" * 300, *(f"x{i}" for i in range(40))]
    for kind in (pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())):
        ids_module.require_unique(pa.array(words).cast(kind), "id", str)
        ids_module.require_unique(pa.chunked_array([pa.array(words[:20]).slice(3), pa.array(words[20:])]), "id", str)
        for twice in (0, 7, 30):
            with refused(f"{words[twice]!r} is in {twice} and in {len(words)}"):
                ids_module.require_unique(pa.array([*words, words[twice]]).cast(kind), "id", str)
    numbers = pa.array([3, -1, 2**62, 0])
    ids_module.require_unique(numbers, "id", str)
    with refused("-1 is in 1 and in 4"):
        ids_module.require_unique(pa.array([*numbers.to_pylist(), -1]), "id", str)
    monkeypatch.setattr(ids_module, "_hashes", lambda ids: np.zeros(len(ids), np.uint64))
    ids_module.require_unique(pa.array(words), "id", str)
