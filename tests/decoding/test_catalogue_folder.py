"""A catalogue for decoding: saved, mapped, checked; and the command that makes it."""

import json

import numpy as np
import pytest

from command import run, sidkit
from sidkit import SidTable
from sidkit.decoding.catalogue import FORMAT, SidCatalogue
from sidkit.decoding.tokens import SidTokens
from sidkit.errors import StoreError
from sidkit.sids.trie import Trie


@pytest.fixture
def table(rng):
    sizes = (6, 5, 4)
    return SidTable(np.arange(80), np.stack([rng.integers(0, size, 80) for size in sizes], 1), sizes)


@pytest.fixture
def saved(table, tmp_path):
    catalogue = SidCatalogue.of(table, SidTokens.level_major(table.sizes, 100, begin=5, end=6))
    catalogue.save(tmp_path / "catalogue")
    return catalogue, tmp_path / "catalogue"


def test_a_catalogue_comes_back_mapped(saved):
    catalogue, folder = saved
    again = SidCatalogue.load(folder)
    for name in ("codes", "children"):
        for one, other in zip(getattr(catalogue.trie, name), getattr(again.trie, name), strict=True):
            assert np.array_equal(one, other)
            assert one.dtype == other.dtype == np.int32
            assert isinstance(other.base, np.memmap)
    assert np.array_equal(catalogue.trie.rows, again.trie.rows)
    assert [level.tolist() for level in again.tokens.levels] == [level.tolist() for level in catalogue.tokens.levels]
    assert (again.tokens.begin, again.tokens.end) == (5, 6)


def test_every_flipped_bit_is_noticed(saved, rng):
    _, folder = saved
    for name in ("config.json", "trie.safetensors"):
        content = (folder / name).read_bytes()
        for at in rng.integers(0, len(content), 40):
            damaged = bytearray(content)
            damaged[at] ^= 1 << int(rng.integers(8))
            (folder / name).write_bytes(damaged)
            with pytest.raises(StoreError, match=name.replace(".", r"\.")):
                SidCatalogue.load(folder)
        (folder / name).write_bytes(content)
    SidCatalogue.load(folder)


@pytest.mark.parametrize("name, wrong", [("children.1", [0, 9]), ("codes.2", [99]), ("bounds", [0, 0, 80])])
def test_arrays_that_are_no_trie_are_refused(saved, name, wrong):
    """Digests are right, as those of a hostile writer would be."""
    catalogue, folder = saved
    trie = catalogue.trie
    arrays = {"rows": trie.rows, "bounds": trie.bounds}
    for level in range(3):
        arrays |= {f"codes.{level}": trie.codes[level], f"children.{level}": trie.children[level]}
        arrays[f"tokens.{level}"] = catalogue.tokens.levels[level]
    arrays[name] = np.array(wrong, np.int32)
    FORMAT.write(folder, {"sizes": [6, 5, 4], "begin": 5, "end": 6}, arrays)
    with pytest.raises(StoreError, match="does not hold the trie"):
        SidCatalogue.load(folder)


def test_leaves_are_found_by_codes(table):
    trie = Trie.of(table)
    assert np.array_equal(trie.leaves(table.codes), trie.leaf_of(80))
    every = np.stack(np.meshgrid(*map(range, (7, 6, 5)), indexing="ij"), -1).reshape(-1, 3)
    known = {tuple(codes) for codes in table.codes.tolist()}
    assert [leaf >= 0 for leaf in trie.leaves(every)] == [tuple(codes) in known for codes in every.tolist()]


class TestCommand:
    def test_a_catalogue_by_token_numbers(self, table, tmp_path):
        table.to_parquet(tmp_path / "sids.parquet")
        marks = ("--first", "200", "--begin", "215", "--end", "216")
        facts = json.loads(sidkit("trie", "sids.parquet", "-o", "catalogue", *marks, "--json", cwd=tmp_path))
        assert facts["items"] == 80
        assert facts["tokens"] == [200, 216]
        catalogue = SidCatalogue.load(tmp_path / "catalogue")
        assert facts["sids"] == len(catalogue.trie) == len(np.unique(table.codes, axis=0))
        assert catalogue.tokens.levels[1].tolist() == list(range(206, 211))

    def test_words_need_a_tokenizer(self, table, tmp_path):
        table.to_parquet(tmp_path / "sids.parquet")
        result = run("trie", "sids.parquet", "-o", "catalogue", "--begin", "<sid>", cwd=tmp_path)
        assert result.returncode
        assert "'<sid>' is not a token number; name the tokenizer" in result.stderr
