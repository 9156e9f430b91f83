"""Tensors, tries and binary files: against their real readers where these install, else against slow ones."""

from __future__ import annotations

import json
import struct
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file

from exported import BASE, CODES, IDS, crowded, exported, pairs, random_table, table
from sidkit import SidTable
from sidkit.errors import InputError, SpecError
from sidkit.export.bundle import read_generation

FOUR = table(range(4), [[12, 3, 77], [12, 3, 78], [12, 4, 0], [200, 0, 1]])
SMALL = table(range(4), [[1, 3, 2], [1, 3, 3], [1, 4, 0], [2, 0, 1]], (5, 5, 5))


def test_grid_reads_a_column_per_item_and_a_row_that_tells_items_apart(tmp_path):
    torch = pytest.importorskip("torch")
    folder, _ = exported("grid", tmp_path / "out")
    tensor = torch.load(folder / "merged_predictions_tensor.pt", weights_only=True)
    assert tensor.dtype == torch.int64
    assert tensor.is_contiguous()
    assert tensor.tolist() == [[12, 12, 200], [3, 3, 0], [77, 78, 1], [0, 0, 0]]
    folder, record = exported("grid", tmp_path / "crowded", crowded())
    tensor = torch.load(folder / "merged_predictions_tensor.pt", weights_only=True)
    assert tensor.tolist()[-1] == [1, 0, 2, 1, 3, 2]  # 0 where a SID is one item's, else 1, 2, …
    assert record["notes"] == []
    folder, record = exported("grid", tmp_path / "wide", table(range(5), [[0, 0]] * 5, (2, 2)))
    assert "GRID takes every level to be 6 wide instead of 2" in record["notes"][0]


def test_xllm_reads_records_of_twenty_bytes(tmp_path):
    folder, _ = exported("xllm", tmp_path / "out", options={"base": BASE})
    data = (folder / "sid_vocab.bin").read_bytes()
    assert data[:20] == bytes.fromhex("05 00 00 00 00 00 00 00  81 50 02 00  78 51 02 00  c2 52 02 00")
    records = list(struct.iter_unpack("<q3i", data))
    assert records == [
        (item, *(BASE + 256 * level + code for level, code in enumerate(codes)))
        for item, codes in zip(IDS, CODES, strict=True)
    ]


def test_xllm_takes_any_ids_by_their_numbers(tmp_path):
    options = {"base": BASE, "numbered": True}
    folder, _ = exported("xllm", tmp_path / "out", table(ids=["x", "y", "z"]), options=options)
    records = struct.iter_unpack("<q3i", (folder / "sid_vocab.bin").read_bytes())
    assert [item for item, *_ in records] == [1, 2, 3]
    ids = pq.read_table(folder / "item_ids.parquet").to_pydict()
    assert ids == {"row": [1, 2, 3], "item_id": ["x", "y", "z"]}


def test_xllm_is_refused_other_levels_ids_and_vocabularies(tmp_path):
    with pytest.raises(InputError, match="xLLM reads SIDs of 3 levels, and these have 2: its records have room"):
        exported("xllm", tmp_path / "o", table(codes=[[1, 2], [1, 3], [0, 0]], sizes=(8, 8)), options={"base": 1})
    with pytest.raises(InputError, match="xLLM knows items by integers"):
        exported("xllm", tmp_path / "o", table(ids=["a", "b", "c"]), options={"base": 1})
    with pytest.raises(SpecError, match=r"between 0 and 2\^31"):
        exported("xllm", tmp_path / "o", options={"base": 2**31 - 700})
    with pytest.raises(SpecError, match="give set base=ID"):
        exported("xllm", tmp_path / "o", options={"base": 1, "vocabulary": "x"})


def test_a_vocabulary_is_checked_token_by_token(tmp_path):
    sids = table(range(2), [[0, 1, 0], [1, 0, 1]], (2, 2, 2))
    tokens = ["<a_0>", "<a_1>", "<b_0>", "<b_1>", "<c_0>", "<c_1>"]

    def vocabulary(order):
        entries = [{"id": 900 + place, "content": token} for place, token in enumerate(order)]
        (tmp_path / "tokenizer.json").write_text(json.dumps({"added_tokens": [{"id": 3, "content": "</s>"}, *entries]}))
        return {"vocabulary": str(tmp_path)}

    folder, _ = exported("xllm", tmp_path / "out", sids, options=vocabulary(tokens))
    assert struct.unpack("<q3i", (folder / "sid_vocab.bin").read_bytes()[:20]) == (0, 900, 903, 904)
    with pytest.raises(InputError, match=r"has '<a_1>' under id 902, not 901"):
        exported("xllm", tmp_path / "no", sids, options=vocabulary([tokens[0], tokens[2], tokens[1], *tokens[3:]]))
    with pytest.raises(InputError, match=r"has no token '<c_1>' \(1 of 6 are missing\)"):
        exported("xllm", tmp_path / "no", sids, options=vocabulary(tokens[:-1]))


def test_static_arrays_of_a_worked_example(tmp_path):
    folder, _ = exported("static", tmp_path / "out", SMALL)
    with np.load(folder / "static_index.npz", allow_pickle=False) as arrays:
        index = dict(arrays)
    assert index["packed_csr"].tolist() == [[3, 6], [4, 7], [0, 8], [2, 0], [3, 0], [0, 0], [1, 0], *[[5, 0]] * 5]
    assert index["indptr"].tolist() == [0, 0, 0, 2, 3, 3, 3, 5, 6, 7, 12]
    assert index["layer_max_branches"].tolist() == [2, 2, 2]
    assert np.flatnonzero(index["start_mask"]).tolist() == [1, 2]
    assert np.argwhere(index["dense_mask"]).tolist() == [[1, 3], [1, 4], [2, 0]]
    assert index["dense_states"][index["dense_mask"]].tolist() == [6, 7, 8]
    assert {name: index[name].dtype.name for name in ("packed_csr", "indptr", "dense_states")} == dict.fromkeys(
        ("packed_csr", "indptr", "dense_states"), "int32"
    )


def walked(index, V, dense, levels):
    """Every SID that a decoder reaches: dense tables first, then the sparse rows, one token after the other."""
    paths = [(state := int(index["dense_states"][tuple(cell)]), *map(int, cell))
             for cell in np.argwhere(index["dense_mask"])]  # fmt: skip
    for _ in range(levels - dense):
        onward = []
        for state, *tokens in paths:
            low, high = index["indptr"][state], index["indptr"][state + 1]
            onward += [(int(next_), *tokens, int(token)) for token, next_ in index["packed_csr"][low:high]]
        paths = onward
    assert all(state == 0 for state, *_ in paths)
    return sorted(tuple(tokens) for _, *tokens in paths)


@pytest.mark.parametrize("sizes, dense", [((16, 8, 4), 1), ((16, 8, 4), 2), ((7, 9, 5, 3), 2), ((6, 5), 1)])
def test_static_reaches_the_sids_that_exist_and_no_others(tmp_path, sizes, dense):
    sids = random_table(60, sizes)
    folder, _ = exported("static", tmp_path / "out", sids, options={"dense": dense})
    with np.load(folder / "static_index.npz", allow_pickle=False) as arrays:
        index = dict(arrays)
    assert walked(index, max(sizes), dense, len(sizes)) == sorted(set(map(tuple, sids.codes.tolist())))
    assert (index["packed_csr"][-max(sizes) :] == [max(sizes), 0]).all()
    folder, _ = exported("static", tmp_path / "offset", sids, options={"dense": dense, "numbers": "offset"})
    with np.load(folder / "static_index.npz", allow_pickle=False) as arrays:
        offset = dict(arrays)
    starts = np.cumsum([0, *sizes[:-1]])
    expected = sorted(tuple((np.array(codes) + starts).tolist()) for codes in set(map(tuple, sids.codes.tolist())))
    assert walked(offset, sum(sizes), dense, len(sizes)) == expected


def test_static_is_refused_tables_that_no_machine_holds(tmp_path):
    big = table(range(2), [[0, 0, 0], [1, 1, 1]], (20_000, 10, 10))
    with pytest.raises(InputError, match=r"2 dense levels over 20,000 tokens are 400,000,000 cells.*dense=1"):
        exported("static", tmp_path / "out", big)
    with pytest.raises(InputError, match="fewer dense levels than SIDs have"):
        exported("static", tmp_path / "out", SMALL, options={"dense": 3})


def test_rectokens_trie_of_a_worked_example(tmp_path):
    folder, _ = exported("rectokens", tmp_path / "out", FOUR)
    trie = load_file(folder / "trie.safetensors")
    assert trie["row_ptrs"].tolist() == [0, 2, 4, 5, 7, 8, 9, 9, 9, 9]
    assert trie["stacked_cols_vals"].tolist() == [[12, 200, 3, 4, 0, 77, 78, 0, 1, -1], [1, 2, 3, 4, 5, 6, 7, 8, 9, -1]]
    assert trie["layer_max_branches"].tolist() == [2, 2, 2]
    assert np.flatnonzero(trie["dense_mask_by_layer.0"]).tolist() == [12, 200]
    assert np.argwhere(trie["dense_mask_by_layer.1"]).tolist() == [[12, 3], [12, 4], [200, 0]]
    tokens = json.loads((folder / "new_tokens.json").read_text())
    assert tokens[0] == "<item_L0_C0>"
    assert tokens[256] == "<item_L1_C0>"
    assert tokens[-2:] == ["<|item_start|>", "<|item_end|>"]


@pytest.mark.parametrize("dense", [0, 1, 2])
def test_rectokens_builds_the_same_trie(tmp_path, dense):
    torch = pytest.importorskip("torch")
    reader = pytest.importorskip("rectokens.schemas.compact_csr_trie", reason="rectokens is not installed")
    sids = random_table(200, (8, 8, 8))
    folder, _ = exported("rectokens", tmp_path / "out", sids, options={"dense": dense})
    ours = load_file(folder / "trie.safetensors")
    rows = np.unique(sids.codes.astype(np.int64), axis=0)
    theirs = reader.CompactCSRTrie.from_sorted_batch(torch.from_numpy(rows), 8, dense)
    assert np.array_equal(ours["row_ptrs"], theirs.row_ptrs.numpy())
    assert np.array_equal(ours["stacked_cols_vals"], theirs.stacked_cols_vals.numpy())
    assert ours["layer_max_branches"].tolist() == theirs.layer_max_branches
    assert np.array_equal(ours["dense_states"], theirs.dense_states.numpy())
    for level, mask in enumerate(theirs.dense_mask_by_layer):
        assert np.array_equal(ours[f"dense_mask_by_layer.{level}"], mask.numpy())


def test_rectokens_is_refused_sizes_that_differ(tmp_path):
    with pytest.raises(InputError, match="rectokens knows one codebook size for all levels, and these are 16-8-4"):
        exported("rectokens", tmp_path / "out", random_table(20))


def test_flashrec_gets_every_sid_once(tmp_path):
    folder, record = exported("flashrec", tmp_path / "out", options={"base": BASE})
    assert (folder / "sid_vocab.json").read_text() == '{"12,3,77":1,"12,3,78":1,"200,0,1":1}'
    assert f"--sid {BASE}:{BASE + 769}/256,256,256,2" in record["notes"][0]
    folder, _ = exported("flashrec", tmp_path / "end", crowded(), options={"end": True})
    assert json.loads((folder / "sid_vocab.json").read_text()) == {"1,3,2,1": 1, "1,3,3,1": 1, "2,0,1,1": 1}


def test_flashrec_allows_what_exists(tmp_path):
    trie = pytest.importorskip("flashrec.search.trie", reason="flashrec is not installed (pip install --no-deps)")
    sids = random_table(40, (8, 8, 8))
    folder, _ = exported("flashrec", tmp_path / "out", sids)
    starts = [100, 108, 116]
    read = trie.build_beam_valid_path(
        sid_file=str(folder / "sid_vocab.json"), codebook_sizes=[8, 8, 8], special_token_ids=list(range(100, 124))
    )
    codes = sids.codes + np.array(starts)
    for depth in range(3):
        for prefix in {tuple(row[:depth]) for row in codes.tolist()}:
            expected = {int(row[depth]) for row in codes if tuple(row[:depth].tolist()) == prefix}
            assert set(read.allowed_next(prefix)) == expected


def test_flashrec_makes_the_same_catalogue_of_what_openonerec_gets(tmp_path):
    catalog = pytest.importorskip("flashrec.catalog", reason="flashrec is not installed (pip install --no-deps)")
    sids = random_table(40, (8, 8, 8))
    theirs, _ = exported("openonerec", tmp_path / "openonerec", sids, counts=np.ones(40, np.int64))
    ours, _ = exported("flashrec", tmp_path / "flashrec", sids, options={"end": True})
    _, _, bad, levels = catalog.convert_file(theirs / "sid2pid.json", tmp_path / "converted.json")
    assert (bad, levels) == (0, 4)
    converted = json.loads((tmp_path / "converted.json").read_text())
    assert list(converted) == list(json.loads((ours / "sid_vocab.json").read_text()))


def test_torcheasyrec_gets_a_full_generation(tmp_path):
    sids = crowded()
    folder, _ = exported("torcheasyrec", tmp_path / "out", sids)
    manifest = json.loads((folder / "0" / "manifest.json").read_text())
    assert set(manifest) == {
        *("bundle_uuid", "codebook", "capacity", "max_observed_items_per_sid", "item_id_type", "artifacts")
    }
    assert (manifest["codebook"], manifest["capacity"], manifest["item_id_type"]) == ([4, 4, 4], 3, "int64")
    assert len(manifest["bundle_uuid"]) == 32
    assert manifest["artifacts"]["sid_to_items"] == {"save_type": "parquet", "rows": 3, "location": "sid_to_items"}
    items = pq.read_table(folder / "0" / "item_to_sid" / "part-0.parquet")
    assert items.column_names == ["item_id", "origin_codebook", "codebook", "offset_codebook", "index"]
    assert items.column("offset_codebook").to_pylist()[0] == [1, 7, 10]
    assert items.column("index").to_pylist() == [1, 1, 2, 1, 3, 2]
    sets = pq.read_table(folder / "0" / "sid_to_items" / "part-0.parquet").to_pydict()
    assert sets["codebook"] == [[1, 3, 2], [1, 3, 3], [2, 0, 1]]
    assert sets["itemids"] == [[1, 3, 5], [2], [4, 6]]


def test_torcheasyrec_generations_follow_each_other(tmp_path):
    first = random_table(100, (4, 4, 2))
    root, _ = exported("torcheasyrec", tmp_path / "out", first, options={"generation": "g1"})
    before = (root / "g1" / "manifest.json").read_bytes()
    more = random_table(150, (4, 4, 2))
    both = SidTable(range(1, 151), np.concatenate([first.codes, more.codes[100:]]), more.sizes)
    exported("torcheasyrec", root, both, options={"generation": "g2", "since": str(root / "g1")})
    last = random_table(170, (4, 4, 2), seed=5)
    all_codes = np.concatenate([both.codes, last.codes[150:]])
    order = np.random.default_rng(0).permutation(170)  # items may come in any order
    third = SidTable(np.arange(1, 171)[order], all_codes[order], more.sizes)
    exported("torcheasyrec", root, third, options={"generation": "g3", "since": str(root / "g2")})
    assert (root / "g1" / "manifest.json").read_bytes() == before
    generations = [read_generation(root / name) for name in ("g1", "g2", "g3")]
    for old, new in pairwise(generations):
        slot = dict(zip(new.ids.to_pylist(), zip(map(tuple, new.codes.tolist()), new.slots.tolist(), strict=True),
                        strict=True))  # fmt: skip
        for item, codes, place in zip(old.ids.to_pylist(), old.codes.tolist(), old.slots.tolist(), strict=True):
            assert slot[item] == (tuple(codes), place)  # what is published stays
        assert len(set(slot.values())) == len(slot)  # one item per SID and slot
    manifest = json.loads((root / "g3" / "manifest.json").read_text())
    assert manifest["since_bundle_uuid"] == generations[1].uuid
    delta = pq.read_table(root / "g3" / "delta_item_to_sid" / "part-0.parquet")
    assert sorted(delta.column("item_id").to_pylist()) == list(range(151, 171))
    touched = pq.read_table(root / "g3" / "delta_sid_to_items" / "part-0.parquet").to_pydict()
    new = {tuple(codes) for codes in all_codes[150:].tolist()}
    assert {tuple(codes) for codes in touched["codebook"]} == new
    members = [item for items in touched["itemids"] for item in items]
    assert sorted(members) == [i + 1 for i, codes in enumerate(all_codes.tolist()) if tuple(codes) in new]


def test_torcheasyrec_never_moves_what_is_published(tmp_path):
    sids = random_table(20, (4, 4, 2))
    root, _ = exported("torcheasyrec", tmp_path / "out", sids, options={"generation": "a"})
    since = {"generation": "b", "since": str(root / "a")}
    with pytest.raises(InputError, match="is published already; name another"):
        exported("torcheasyrec", root, sids, options={"generation": "a"})
    moved = SidTable(sids.ids, (sids.codes + 1) % [4, 4, 2], sids.sizes)
    with pytest.raises(InputError, match="20 items have other SIDs than in the generation before"):
        exported("torcheasyrec", root, moved, options=since)
    fewer = SidTable(sids.ids[1:], sids.codes[1:], sids.sizes)
    with pytest.raises(InputError, match="item 1 is published in the generation before and missing here"):
        exported("torcheasyrec", root, fewer, options=since)
    with pytest.raises(InputError, match=r"has sizes \(4, 4, 2\), these SIDs \(4, 4, 3\)"):
        exported("torcheasyrec", root, SidTable(sids.ids, sids.codes, (4, 4, 3)), options=since)
    with pytest.raises(InputError, match="has ids of type int64, these SIDs string"):
        exported("torcheasyrec", root, SidTable(sids.ids.cast(pa.string()), sids.codes, sids.sizes), options=since)
    with pytest.raises(InputError, match="more than the capacity of 1"):
        exported("torcheasyrec", tmp_path / "new", crowded(), options={"capacity": 1})
    assert sorted(file.name for file in root.iterdir()) == ["a", "sidkit-export.json"]
    assert pairs(SidTable(*_of(read_generation(root / "a")))) == pairs(sids)


def _of(bundle):
    return bundle.ids, bundle.codes, bundle.sizes


def test_sids_that_64_bits_cannot_number_are_refused(tmp_path):
    wide = table(range(2), [[0] * 5, [1] * 5], (1 << 13,) * 5)
    with pytest.raises(InputError, match="numbers SIDs in 64 bits"):
        exported("torcheasyrec", tmp_path / "out", wide)
