"""The checksum inside a Parquet file."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sidkit.errors import StoreError
from sidkit.files import seal as sealing
from sidkit.files.seal import BLANK_SEAL, check_seal, seal


def write(path, rows=3, note=""):
    table = pa.table({"a": np.arange(rows), "b": [f"text {i}" for i in range(rows)]})
    schema = table.schema.with_metadata({"note": note})
    with pq.ParquetWriter(path, schema) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(BLANK_SEAL)
    seal(path)
    return table


def test_every_flipped_bit_is_an_error_that_names_the_file(tmp_path):
    path = tmp_path / "a.parquet"
    write(path)
    check_seal(path)
    data = path.read_bytes()
    for position in range(len(data)):
        flipped = bytearray(data)
        flipped[position] ^= 1 << (position % 8)
        path.write_bytes(flipped)
        with pytest.raises(StoreError, match=r"a\.parquet is damaged: its SHA-256"):
            check_seal(path)


def test_cut_and_longer_files_are_noticed(tmp_path):
    path = tmp_path / "a.parquet"
    write(path)
    data = path.read_bytes()
    for changed in (data[1:], data[:-1], data + b"\0"):
        path.write_bytes(changed)
        with pytest.raises(StoreError, match="is damaged"):
            check_seal(path)


@pytest.mark.parametrize("block", [1, 7, 64, 1000])
def test_blocks_of_any_size_give_one_digest(tmp_path, monkeypatch, block):
    path = tmp_path / "a.parquet"
    write(path)
    monkeypatch.setattr(sealing, "BLOCK", block)
    check_seal(path)


def test_long_metadata_do_not_hide_the_seal(tmp_path):
    write(tmp_path / "a.parquet", note="x" * 20_000)
    check_seal(tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="has no blank seal"):
        write(tmp_path / "b.parquet", note="x" * 100_000)


def test_files_without_a_seal_pass_and_rewriting_drops_it(tmp_path):
    path = tmp_path / "a.parquet"
    table = write(path)
    assert pq.read_table(path).equals(table)
    assert b"sidkit.sha256" in pq.ParquetFile(path).metadata.metadata
    pq.write_table(pq.read_table(path).slice(1), path)
    check_seal(path)
    pq.write_table(pa.table({"a": ["sidkit.sha256", "sidkit.sealed"]}), path)
    check_seal(path)
    path.write_bytes(b"")
    check_seal(path)
