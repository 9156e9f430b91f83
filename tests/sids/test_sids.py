"""SID tables: look-up, strings, and files."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sidkit
from sidkit.sids.prefixes import prefix_numbers
from sidkit.sids.table import SidTable
from sidkit.sids.template import Template, template_named

GOLDEN = Path(__file__).parents[1] / "golden" / "sids.parquet"
CODES = np.array([[1, 0, 2], [0, 1, 1], [1, 0, 2], [1, 1, 0]])
IDS = ["w", "x", "y", "z"]


@pytest.fixture
def table():
    return SidTable(IDS, CODES, (2, 2, 3))


def test_a_sid_maps_to_all_its_items(table):
    assert table.items_of((1, 0, 2)) == ["w", "y"]
    assert table.items_of("<a_1><b_0><c_2>") == ["w", "y"]
    assert table.items_of("1-0-2") == ["w", "y"]


def test_a_prefix_maps_to_all_items_below_it(table):
    assert table.items_of((1,)) == ["w", "y", "z"]
    assert table.items_of("<a_1>") == ["w", "y", "z"]
    assert table.items_of(()) == IDS
    assert table.items_of((0, 0)) == []


def test_an_item_maps_to_its_sid(table):
    assert table.sid_of("z") == (1, 1, 0)
    assert table.sid_of("nobody") is None


def test_prefix_counts_by_hand(table):
    assert table.prefix_counts(1) == {(0,): 1, (1,): 3}
    assert table.prefix_counts(2) == {(0, 1): 1, (1, 0): 2, (1, 1): 1}


def test_strings_in_every_preset(table):
    assert table.strings().to_pylist()[0] == "<a_1><b_0><c_2>"
    assert table.strings("lc-rec").to_pylist()[0] == "<a_1><b_0><c_2>"
    assert table.strings("openonerec").to_pylist()[0] == "<|sid_begin|><s_a_1><s_b_0><s_c_2><|sid_end|>"
    assert table.strings("plain").to_pylist()[0] == "1-0-2"
    assert table.strings("[{level}:{code}]").to_pylist()[0] == "[1:1][2:0][3:2]"


@pytest.mark.parametrize("template", ["letters", "plain", "openonerec", Template("{code}", "/", "(", ")")])
def test_a_table_writes_sids_and_prefixes_in_its_own_form(template):
    table = SidTable(IDS, CODES, (2, 2, 3), template)
    assert [table.write(codes) for codes in CODES] == table.strings().to_pylist()
    for level in (1, 2):
        for codes, sid in zip(CODES[:, :level], table.strings().to_pylist(), strict=True):
            assert sid.startswith(table.write(codes))
            assert not table.write(codes).endswith(table.template.end or "\0")
            assert table.rows_of(table.write(codes)).tolist() == table.rows_of(codes).tolist()
    with pytest.raises(sidkit.SidkitError, match="4 codes cannot be written, as these SIDs have 3"):
        table.write((1, 0, 2, 0))


@pytest.mark.parametrize(
    "ids", [IDS, [10, 20, 30, 40], pa.array([1, 2, 3, 4], pa.uint16()), pa.array(IDS, pa.large_string())]
)
def test_parquet_keeps_ids_order_codes_and_sizes(tmp_path, ids):
    table = SidTable(ids, CODES, (2, 5, 9))
    table.to_parquet(tmp_path / "s.parquet")
    back = SidTable.from_parquet(tmp_path / "s.parquet")
    assert back.ids.to_pylist() == table.ids.to_pylist()
    assert back.ids.type == table.ids.type
    assert back.codes.tolist() == CODES.tolist()
    assert back.sizes == (2, 5, 9)
    stored = pq.read_table(tmp_path / "s.parquet")
    assert stored.schema.field("codes").type == pa.list_(pa.int32())
    assert stored.column("sid").to_pylist()[3] == "<a_1><b_1><c_0>"


@pytest.mark.parametrize("template", ["plain", "openonerec", "[{level}:{code}]", Template("{code}", "/", "(", ")")])
def test_a_file_says_how_its_sids_are_written(tmp_path, table, template):
    table.to_parquet(tmp_path / "s.parquet", template)
    back = SidTable.from_parquet(tmp_path / "s.parquet")
    written = pq.read_table(tmp_path / "s.parquet").column("sid").to_pylist()
    assert written == table.strings(template).to_pylist() == back.strings().to_pylist()
    for text, codes in zip(written, CODES.tolist(), strict=True):
        assert back.items_of(text) == table.items_of(codes)
    back.to_parquet(tmp_path / "again.parquet")
    assert pq.read_table(tmp_path / "again.parquet").column("sid").to_pylist() == written


def test_a_file_without_a_word_on_it_is_taken_to_write_letters(tmp_path):
    pq.write_table(pa.table({"item_id": IDS, "codes": CODES.tolist()}), tmp_path / "s.parquet")
    assert SidTable.from_parquet(tmp_path / "s.parquet").strings().to_pylist()[0] == "<a_1><b_0><c_2>"


@pytest.mark.parametrize("note", [b"{", b"[]", b"3", b'{"token": 3}', b'{"tokens": "<{code}>"}', b'{"token": "<>"}'])
def test_a_note_on_writing_that_makes_no_sense_is_refused(tmp_path, table, note):
    table.to_parquet(tmp_path / "s.parquet")
    rows = pq.read_table(tmp_path / "s.parquet")
    pq.write_table(rows.replace_schema_metadata({b"sidkit.template": note}), tmp_path / "s.parquet")
    with pytest.raises(sidkit.SidkitError, match="how SIDs are written cannot be read"):
        SidTable.from_parquet(tmp_path / "s.parquet")


def test_a_foreign_table_without_sizes_takes_them_from_its_codes(tmp_path):
    pq.write_table(pa.table({"item_id": IDS, "codes": CODES.tolist()}), tmp_path / "s.parquet")
    assert SidTable.from_parquet(tmp_path / "s.parquet").sizes == (2, 2, 3)


def test_every_flipped_byte_of_a_file_is_an_error_that_names_it(tmp_path, table):
    path = tmp_path / "s.parquet"
    table.to_parquet(path, "plain", {"note": "kept"})
    assert SidTable.from_parquet(path).codes.tolist() == CODES.tolist()
    data = path.read_bytes()
    for position in range(len(data)):
        flipped = bytearray(data)
        flipped[position] ^= 1 << (position % 8)
        path.write_bytes(flipped)
        with pytest.raises(sidkit.SidkitError, match=r"s\.parquet is damaged"):
            SidTable.from_parquet(path)


def test_a_damaged_file_among_several_is_named(tmp_path, table):
    table.to_parquet(tmp_path / "sids" / "a.parquet")
    SidTable(["p"], [[0, 0, 0]], (2, 2, 3)).to_parquet(tmp_path / "sids" / "more" / "b.parquet")
    assert SidTable.from_parquet(tmp_path / "sids").ids.to_pylist() == [*IDS, "p"]
    file = tmp_path / "sids" / "more" / "b.parquet"
    file.write_bytes(file.read_bytes().replace(b"PAR1", b"PAR2", 1))
    with pytest.raises(sidkit.SidkitError, match=r"more/b\.parquet is damaged"):
        SidTable.from_parquet(tmp_path / "sids")


def test_files_without_a_checksum_and_files_that_others_rewrote_load(tmp_path, table):
    golden = SidTable.from_parquet(GOLDEN)
    assert (golden.ids.to_pylist(), golden.codes.tolist()) == (IDS, CODES.tolist())
    assert (golden.sizes, golden.template) == ((2, 2, 3), template_named("plain"))
    table.to_parquet(tmp_path / "s.parquet")
    pq.write_table(pq.read_table(tmp_path / "s.parquet").slice(1), tmp_path / "s.parquet")
    assert SidTable.from_parquet(tmp_path / "s.parquet").ids.to_pylist() == IDS[1:]


def test_a_million_rows_are_written_and_read_in_seconds(tmp_path, rng):
    from time import perf_counter

    codes = rng.integers(0, 256, size=(1_000_000, 3))
    start = perf_counter()
    SidTable(np.arange(1_000_000), codes, (256,) * 3).to_parquet(tmp_path / "s.parquet")
    back = SidTable.from_parquet(tmp_path / "s.parquet")
    assert np.array_equal(back.codes, codes)
    assert perf_counter() - start < 30  # takes about one second on a quiet machine


@pytest.mark.parametrize(
    ("ids", "codes", "sizes", "message"),
    [
        (["a", "a"], [[0], [1]], (2,), "'a' is in row 0 and in row 1"),
        (["a", None], [[0], [1]], (2,), "row 1: 'item_id' is null"),
        (["a"], [[0], [1]], (2,), "1 ids do not fit 2 rows"),
        (["a", "b"], [[0], [2]], (2,), "level 1 holds codes outside 0..1"),
        (["a", "b"], [[0.5], [1]], (2,), "whole numbers"),
        (["a", "b"], [[0], [1]], (2, 2), "1 levels, sizes 2"),
        (["a"], np.zeros((1, 0), np.int32), (), r"cannot read sizes \(\)"),
    ],
)
def test_tables_that_make_no_sense_are_refused(ids, codes, sizes, message):
    with pytest.raises(sidkit.SidkitError, match=message):
        SidTable(ids, np.array(codes), sizes)


def test_files_that_are_no_sid_tables_are_refused(tmp_path):
    with pytest.raises(sidkit.SidkitError, match="no such file"):
        SidTable.from_parquet(tmp_path / "none.parquet")
    (tmp_path / "junk.parquet").write_bytes(b"junk")
    with pytest.raises(sidkit.SidkitError, match="not a table of semantic IDs"):
        SidTable.from_parquet(tmp_path / "junk.parquet")
    pq.write_table(pa.table({"item_id": ["a", "b"], "codes": [[1], [1, 2]]}), tmp_path / "ragged.parquet")
    with pytest.raises(sidkit.SidkitError, match="different lengths"):
        SidTable.from_parquet(tmp_path / "ragged.parquet")


def test_a_table_without_items_is_written_and_read(tmp_path):
    table = sidkit.SidTable([], np.zeros((0, 2), np.int32), (4, 4))
    table.to_parquet(tmp_path / "none.parquet")
    again = sidkit.SidTable.from_parquet(tmp_path / "none.parquet")
    assert len(again) == 0
    assert again.sizes == (4, 4)
    assert again.items_of("<a_1>") == []


def test_a_file_without_rows_and_notes_has_no_sids(tmp_path):
    (tmp_path / "none.csv").write_text("item_id,codes,sid\n")
    table = SidTable.from_parquet(tmp_path / "none.csv")
    assert (len(table), table.sizes, table.strings().to_pylist()) == (0, (), [])


def test_codes_are_never_bent_into_range(tmp_path):
    for codes in ([[2**32 + 1]], np.array([[2**63 + 1]], np.uint64), [[-1]]):
        with pytest.raises(sidkit.SidkitError, match=r"between 0 and|outside|below"):
            SidTable(["a"], codes, [4])
    for codes, message in (([[1.7, 2.2]], "lists of double"), (["x"], "holds string"), ([[1, None]], "codes missing")):
        pq.write_table(pa.table({"item_id": ["a"], "codes": codes}), tmp_path / "t.parquet")
        with pytest.raises(sidkit.SidkitError, match=message):
            SidTable.from_parquet(tmp_path / "t.parquet")
    table = pa.table({"item_id": ["a"], "codes": [[1]]}).replace_schema_metadata({"sidkit.sizes": "[1e999]"})
    pq.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(sidkit.SidkitError, match="note on sizes"):
        SidTable.from_parquet(tmp_path / "t.parquet")


def test_a_sid_as_the_table_writes_it_finds_its_items():
    table = SidTable([1, 2], [[0, 1], [1, 1]], (2, 2))
    assert table.items_of(table.strings()[1]) == [2]


@pytest.mark.parametrize(
    "sizes", [(65536,) * 5, (2**22, 2**21, 2**21), (2**31 - 1,) * 9, (3,) * 60, (2**31 - 1, 2, 2**31 - 1, 5, 2**30)]
)
def test_prefixes_beyond_63_bits_are_distinguished_and_sorted(sizes, rng):
    ends = np.array([[0, 1, size // 2, size - 1] for size in sizes])
    codes = np.take_along_axis(ends, rng.integers(0, 4, (len(sizes), 500)), axis=1).T
    codes[::3, 1:] = codes[0, 1:]  # rows that only the first token tells apart
    for level, number in enumerate(prefix_numbers(codes.astype(np.int32), sizes), 1):
        _, expected = np.unique(codes[:, :level], axis=0, return_inverse=True)
        assert number.min() >= 0
        assert np.array_equal(np.unique(number, return_inverse=True)[1], expected.ravel())
