"""Large files of JSON lines in parts: the same rows whatever the size of a part, and bad lines by their number."""

import json

import pyarrow as pa
import pytest

from sidkit.errors import InputError
from sidkit.progress import Silent
from sidkit.search.read.json_parts import JsonParts
from small_shops import write_lines

FIELDS = pa.schema({"id": pa.int64(), "name": pa.string(), "parts": pa.list_(pa.int64()), "price": pa.float64()})
ROWS = [
    {"id": i, "name": "x" * (i % 7) + "é", "parts": list(range(i % 4)), "price": i / 2, "other": {"a": [i]}}
    for i in range(40)
]


def parts_of(path, folder, size=1 << 20, fields=FIELDS, required=("id", "name")):
    return JsonParts(path, folder, "rows", fields, required, lambda table: table, size)


def read(parts, drop=False):
    parts.read(drop, Silent())
    return pa.concat_tables(parts.tables())


@pytest.mark.parametrize("size", [1, 17, 100, 101, 1000, 1 << 20])
def test_rows_do_not_depend_on_the_size_of_a_part(tmp_path, size):
    path = write_lines(tmp_path / "rows.jsonl", ROWS)
    table = read(parts_of(path, tmp_path / "parts", size))
    assert table.to_pylist() == [{name: row[name] for name in FIELDS.names} for row in ROWS]


def test_a_last_line_without_an_end_and_blank_lines_are_read(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(ROWS[1]) + "\n\n  \n" + json.dumps(ROWS[2]))
    for size in (1, 30, 1000):
        assert read(parts_of(path, tmp_path / f"{size}", size))["id"].to_pylist() == [1, 2]


def test_fields_that_a_line_lacks_are_null(tmp_path):
    path = write_lines(tmp_path / "rows.jsonl", [ROWS[1], {"id": 2, "name": None}])
    assert read(parts_of(path, tmp_path / "parts")).to_pylist()[1] == {
        "id": 2, "name": None, "parts": None, "price": None,
    }  # fmt: skip


@pytest.mark.parametrize("size", [40, 1 << 20])
@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"id": 7,', "is not JSON: "),
        ("[1, 2]", r"is not a JSON object but \[1, 2\]"),
        ('{"id": "seven", "name": "x"}', "has \"seven\" for 'id', which must be int64"),
        ('{"id": 7, "name": "x", "parts": ["a"]}', r"has \[\"a\"\] for 'parts', which must be list"),
        ('{"id": 7, "name": "\\ud800"}', "has .* for 'name', which must be string"),
    ],
)
def test_a_line_that_cannot_be_read_is_named_by_file_and_number(tmp_path, line, reason, size):
    path = write_lines(tmp_path / "rows.jsonl", [*ROWS[:17], line, *ROWS[17:]])
    with pytest.raises(
        InputError, match=rf"line 18 of .*rows\.jsonl {reason}.*; bad_rows='drop' leaves such lines out"
    ):
        read(parts_of(path, tmp_path / "parts", size))
    parts = parts_of(path, tmp_path / "parts", size)
    assert read(parts, drop=True)["id"].to_pylist() == list(range(40))
    assert [number for number, _ in parts.bad_lines()] == [18]
    with pytest.raises(InputError, match="line 18 of"):  # though the part is on disk
        read(parts)


def test_bytes_that_are_no_text_are_named(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"id": 1, "name": "a"}\n{"id": 2, "name": "\xff\xfe"}\n')
    with pytest.raises(InputError, match=r"line 2 of .*rows\.jsonl is not JSON"):
        read(parts_of(path, tmp_path / "parts"))


def test_numbers_of_another_form_are_read_as_json_has_them(tmp_path):
    path = write_lines(tmp_path / "rows.jsonl", ['{"id": 3.0, "name": "x", "price": 4}'])
    assert read(parts_of(path, tmp_path / "parts")).to_pylist()[0] == {
        "id": 3, "name": "x", "parts": None, "price": 4.0,
    }  # fmt: skip


def test_missing_fields_and_empty_files_are_refused_first(tmp_path):
    path = write_lines(tmp_path / "rows.jsonl", [{"id": 1, "title": "x"}])
    with pytest.raises(InputError, match=r"no field 'name' in .*rows\.jsonl \(fields of its first line: id, title\)"):
        read(parts_of(path, tmp_path / "parts"))
    path.write_text("\n \n")
    with pytest.raises(InputError, match=r"rows\.jsonl holds no rows"):
        read(parts_of(path, tmp_path / "parts"))
    assert not (tmp_path / "parts").exists()


def test_parts_that_are_there_are_not_read_again(tmp_path):
    path = write_lines(tmp_path / "rows.jsonl", ROWS)
    first = read(parts_of(path, tmp_path / "parts", 300))
    made = sorted((tmp_path / "parts").iterdir())
    assert len(made) > 3
    made[1].unlink()
    stamps = {one: one.stat().st_mtime_ns for one in made if one != made[1]}
    assert read(parts_of(path, tmp_path / "parts", 300)).equals(first)
    assert {one: one.stat().st_mtime_ns for one in stamps} == stamps
    assert made[1].exists()
