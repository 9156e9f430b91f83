"""Someone else's SIDs: read, judged, and written as ours."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from command import sidkit
from exported import crowded, exported, pairs, random_table, table, titles
from sidkit import SidTable
from sidkit.errors import InputError
from sidkit.export import json_pairs
from sidkit.export.imports import Foreign, named_ids
from sidkit.export.registry import target_named


def read(name, path, **how):
    return target_named(name).read(path, Foreign(**how))


FILES = {
    "lc-rec": "items.index.json",
    "recboard": "sid_vocab.json",
    "grid": "merged_predictions_tensor.pt",
    "torcheasyrec": "0",
    "openonerec": "codes.parquet",
    "minionerec": "items.index.json",
    "llama-factory": "id2sid.json",
    "nvidia-sid-gr": "item_to_sid.pt",
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("make", [random_table, crowded, lambda: random_table(ids=np.arange(900, 0, -1)[:500])])
def test_what_was_exported_is_imported_again(tmp_path, name, make):
    sids = make()
    texts = {"titles": titles([f"thing {i}" for i in range(len(sids))])} if name == "minionerec" else {}
    folder, _ = exported(name, tmp_path / "out", sids, **texts)
    found = read(name, folder / FILES[name], sizes=sids.sizes)
    if (folder / "item_ids.parquet").exists():
        found = named_ids(found, folder / "item_ids.parquet")
    assert pairs(found) == pairs(sids)
    assert found.sizes == sids.sizes


def test_items_that_were_numbered_get_their_ids_again(tmp_path):
    sids = random_table(ids=[f"item {i}" for i in range(500)])
    folder, _ = exported("openonerec", tmp_path / "out", sids, options={"numbered": True}, counts=np.ones(500, int))
    for file in ("codes.parquet", "sid2pid.json"):
        found = read("openonerec", folder / file, sizes=sids.sizes)
        assert pairs(named_ids(found, folder / "item_ids.parquet")) == pairs(sids)


def test_packed_keys_are_unpacked(tmp_path):
    sids = crowded()
    for kind in ("pid", "iid"):
        options = {"kind": kind}
        folder, _ = exported("openonerec", tmp_path / kind, sids, options=options, counts=np.arange(6))
        found = read("openonerec", folder / f"sid2{kind}.json", sizes=sids.sizes)
        assert pairs(found) == pairs(sids)
        assert found.template.begin == "<|sid_begin|>"


def test_tokens_of_any_form_are_understood(tmp_path):
    file = tmp_path / "index.json"
    file.write_text('{"a": ["[L0]3", "[L1]4"], "b": ["[L0]0", "[L1]12"]}')
    found = read("lc-rec", file)
    assert found.ids.to_pylist() == ["a", "b"]
    assert found.codes.tolist() == [[3, 4], [0, 12]]
    assert found.sizes == (4, 13)
    file.write_text('{"7": ["<sid_0_3>", "<sid_1_4>"]}')
    assert read("recboard", file).template == target_table("recboard")
    assert read("recboard", file).ids.to_pylist() == [7]


def target_table(name):
    from sidkit.sids.template import TEMPLATES

    return TEMPLATES[name]


def test_codes_that_count_from_one_and_tokens_of_collisions(tmp_path):
    file = tmp_path / "mini.index.json"
    file.write_text('{"0": ["<a_1>", "<b_2>", "<c_3>"], "1": ["<a_1>", "<b_2>", "<c_3>", "<d_1>"]}')
    with pytest.raises(InputError, match=r"item '1' has 4 tokens, others 3.*levels 3"):
        read("lc-rec", file)
    how = Foreign(levels=3)
    assert target_named("lc-rec").read(file, how).codes.tolist() == [[1, 2, 3]] * 2
    assert any("if codes count from 1" in note for note in how.notes)
    assert read("lc-rec", file, levels=3, first=1).codes.tolist() == [[0, 1, 2]] * 2
    with pytest.raises(InputError, match="there is a code 1; codes should count from 2"):
        read("lc-rec", file, levels=3, first=2)


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "its end"),
        ("[1]", "where { should be"),
        ('{"0": ["<a_1>"]', "its end"),
        ('{"0": ["<a_1>"]} x', "something follows the object"),
        ('{"0": ["<a_1>"], }', "not the JSON object"),
        ('{"0": "<a_1>"}', "not a list of tokens"),
        ('{"0": []}', "not a list of tokens"),
        ('{"0": ["<a_>"]}', "holds no code"),
        ('{"0": [4]}', "holds no code"),
        ('{"0": ["<a_1>"], "1": ["<b_1>"]}', "at level 1, where others have <a_"),
        ('{"0": ["<a_1>"], "0": ["<a_2>"]}', "must be different in every row"),
        ("{}", "holds no SIDs"),
        ('{"0": [' + "[" * 100_000, "nested too deeply"),
        ('{"0": ["<a_99999999999>"]}', "holds no code"),
    ],
)
def test_files_that_are_no_index_are_refused_in_words(tmp_path, text, message):
    (tmp_path / "index.json").write_text(text)
    with pytest.raises(InputError, match=message):
        read("lc-rec", tmp_path / "index.json")


def test_a_code_that_no_codebook_has_is_refused_before_it_fills_memory(tmp_path):
    (tmp_path / "x.json").write_text('{"0": ["<a_999999999>"]}')
    with pytest.raises(InputError, match="a level would have 1,000,000,000 codes; at most 16,777,216 are read"):
        read("lc-rec", tmp_path / "x.json")


def test_packed_files_have_ids_of_one_kind(tmp_path):
    for ids, message in (([1, "x"], "not both"), ([2**70], "64 bits"), (["\ud800"], "is not UTF-8")):
        (tmp_path / "sid2pid.json").write_text(json.dumps({"0": [{"pid": one} for one in ids]}))
        with pytest.raises(InputError, match=message):
            read("openonerec", tmp_path / "sid2pid.json")


def test_a_tensor_of_an_older_torch_is_read(tmp_path):
    torch = pytest.importorskip("torch")
    torch.save(torch.tensor([[1, 0, 2], [0, 1, 1]]), tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    assert read("grid", tmp_path / "old.pt").codes.tolist() == [[1, 0], [0, 1], [2, 1]]
    (tmp_path / "x.pt").write_text('{"0": ["<a_1>"]}')
    with pytest.raises(InputError, match="it holds more than tensors, or torch did not write it"):
        read("grid", tmp_path / "x.pt")


def test_json_is_read_across_blocks(tmp_path, monkeypatch):
    values = {f"key {i} é": [i, -i, {"x": "}" * (i % 7)}, '\\"'] for i in range(200)}
    (tmp_path / "big.json").write_text(json.dumps(values, ensure_ascii=False, indent=1) + "\n \n", encoding="utf-8")
    for block in (1, 2, 3, 7, 64):
        monkeypatch.setattr(json_pairs, "BLOCK", block)
        assert dict(json_pairs.json_pairs(tmp_path / "big.json")) == values
    (tmp_path / "bytes.json").write_bytes(b'{"\xff": 1}')
    with pytest.raises(InputError, match="not the JSON object"):
        list(json_pairs.json_pairs(tmp_path / "bytes.json"))


def test_an_entry_without_end_is_refused_before_it_fills_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(json_pairs, "BLOCK", 100)
    monkeypatch.setattr(json_pairs, "LONGEST", 1000)
    (tmp_path / "long.json").write_text('{"0": "' + "x" * 5000 + '"}')
    with pytest.raises(InputError, match="one of its entries is too long"):
        list(json_pairs.json_pairs(tmp_path / "long.json"))


def test_tensors_are_recognised_with_and_without_the_last_row(tmp_path):
    torch = pytest.importorskip("torch")
    sids = crowded()
    torch.save(torch.from_numpy(sids.codes.T.astype(np.int64).copy()), tmp_path / "plain.pt")
    found = read("grid", tmp_path / "plain.pt")
    assert np.array_equal(found.codes, sids.codes)
    torch.save(torch.tensor([[1, 1, 2], [1, 2, 0], [5, 0, 0]]), tmp_path / "codes.pt")  # 5 is no slot
    assert read("grid", tmp_path / "codes.pt").codes.shape == (3, 3)
    assert read("grid", tmp_path / "codes.pt", levels=2).codes.shape == (3, 2)
    torch.save({"a": torch.zeros(2)}, tmp_path / "dict.pt")
    with pytest.raises(InputError, match="not one tensor"):
        read("grid", tmp_path / "dict.pt")
    torch.save(torch.zeros(2, 3), tmp_path / "floats.pt")
    with pytest.raises(InputError, match="not integers"):
        read("grid", tmp_path / "floats.pt")


class Boom:
    def __reduce__(self):
        return print, ("executed",)


def test_a_tensor_file_with_code_in_it_is_not_run(tmp_path, capsys):
    torch = pytest.importorskip("torch")
    torch.save(Boom(), tmp_path / "bad.pt")
    with pytest.raises(InputError, match="cannot read"):
        read("grid", tmp_path / "bad.pt")
    assert "executed" not in capsys.readouterr().out


def test_parquet_without_the_columns_is_refused(tmp_path):
    pq.write_table(pa.table({"pid": [1], "tokens": [[1, 2]]}), tmp_path / "x.parquet")
    with pytest.raises(InputError, match="has the columns pid, tokens; pid, and codes or sid, are needed"):
        read("openonerec", tmp_path / "x.parquet")
    pq.write_table(pa.table({"pid": [1, 2], "codes": [[1, 2], [1]]}), tmp_path / "y.parquet")
    with pytest.raises(InputError, match="rows of codes have different lengths"):
        read("openonerec", tmp_path / "y.parquet")
    (tmp_path / "sid2pid.json").write_text('{"12": [{"count": 3}]}')
    with pytest.raises(InputError, match="an entry without a pid or iid"):
        read("openonerec", tmp_path / "sid2pid.json")
    (tmp_path / "sid2pid.json").write_text(f'{{"{8192**3}": []}}')
    with pytest.raises(InputError, match="is not a SID of three codes packed"):
        read("openonerec", tmp_path / "sid2pid.json")


@pytest.mark.parametrize(
    "change, message",
    [
        ({"codebook": [4, 4, 5]}, None),
        ({"codebook": [4, 5, 4]}, "offset_codebook is not codebook plus the sizes before"),
        ({"surprise": 1}, "and no unknown ones"),
        ({"capacity": 2}, "an item has index 3, more than the manifest allows"),
        ({"artifacts": {}}, "has no item_to_sid in Parquet"),
    ],
)
def test_a_bundle_that_breaks_its_rules_is_refused(tmp_path, change, message):
    folder, _ = exported("torcheasyrec", tmp_path / "out", crowded())
    file = folder / "0" / "manifest.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    if message is None:
        assert read("torcheasyrec", file).sizes == (4, 4, 5)
        return
    with pytest.raises(InputError, match=message):
        read("torcheasyrec", folder / "0")


def test_a_bundle_without_its_manifest_is_not_complete(tmp_path):
    folder, _ = exported("torcheasyrec", tmp_path / "out", crowded())
    (folder / "0" / "manifest.json").unlink()
    with pytest.raises(InputError, match=r"it is not a complete generation$"):
        read("torcheasyrec", folder / "0")
    exported("torcheasyrec", folder, crowded(), options={"generation": "1"})
    with pytest.raises(InputError, match=r"it is not a complete generation; it holds 1 generation, such as .*1$"):
        read("torcheasyrec", folder)


def test_rows_that_the_ids_do_not_have_are_refused(tmp_path):
    folder, _ = exported("lc-rec", tmp_path / "out")
    with pytest.raises(InputError, match="has no row 7, which the SIDs have"):
        named_ids(table(ids=[0, 1, 7]), folder / "item_ids.parquet")
    with pytest.raises(InputError, match="must have the columns row and item_id"):
        pq.write_table(pa.table({"x": [1]}), tmp_path / "x.parquet")
        named_ids(table(), tmp_path / "x.parquet")


def test_the_command_judges_and_writes(tmp_path):
    sids = random_table()
    exported("lc-rec", tmp_path / "out", sids)
    words = ("import", "out/items.index.json", "--from", "lc-rec", "-o", "theirs.parquet")
    printed = sidkit(*words, "--ids", "out/item_ids.parquet", cwd=tmp_path)
    assert "wrote 500 semantic IDs to theirs.parquet" in printed
    assert "the file does not tell codebook sizes; 16-8-4" in printed
    assert pairs(SidTable.from_parquet(tmp_path / "theirs.parquet")) == pairs(sids)
    facts = json.loads(sidkit(*words, "--sizes", "32-8-4", "--json", cwd=tmp_path))
    assert (facts["items"], facts["sizes"]) == (500, [32, 8, 4])
    assert facts["notes"] == ["items have the numbers of the file; --ids out/item_ids.parquet gives them their ids"]
    assert "verdict" in facts
    assert "verdict" in json.loads(sidkit("report", "theirs.parquet", "--json", cwd=tmp_path))


@pytest.mark.parametrize(
    "words, message",
    [
        (("no.json", "--from", "lc-rec", "-o", "x.parquet"), "no such file or folder: no.json"),
        (("in.json", "--from", "xllm", "-o", "x.parquet"), "files of xllm do not hold everything"),
        (("in.json", "--from", "lcrec", "-o", "x.npy"), "the ending '.npy' is not known"),
        (("in.json", "--from", "lc-rec", "-o", "x.parquet", "--levels", "0"), "--levels must be at least 1"),
        (("in.json", "--from", "lc-rec", "-o", "x.parquet", "--levels", "2"), "has 1 tokens, and --levels asks for 2"),
        ((".", "--from", "lc-rec", "-o", "x.parquet"), ". is a folder; name the file in it: index.json"),
        (("in.json", "--from", "lc-rec", "-o", "x.parquet", "--sizes", "2-2-2"), "3 sizes do not fit SIDs of 1 levels"),
        (("in.json", "--from", "lc-rec", "-o", "x.parquet", "--sizes", "2"), "level 1 holds codes outside 0..1"),
    ],
)
def test_the_command_refuses_in_words(tmp_path, words, message):
    (tmp_path / "in.json").write_text('{"0": ["<a_5>"]}')
    assert message in sidkit("import", *words, cwd=tmp_path, check=1)
