"""The files that training code reads, byte for byte on the running example, and what they cannot hold."""

from __future__ import annotations

import csv
import json
from ast import literal_eval

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from exported import BASE, CODES, IDS, crowded, exported, random_table, table, titles, visits
from sidkit.errors import InputError, SpecError
from sidkit.sids.template import TEMPLATES, Template

INDEX = '{"0": ["<a_12>", "<b_3>", "<c_77>"], "1": ["<a_12>", "<b_3>", "<c_78>"], "2": ["<a_200>", "<b_0>", "<c_1>"]}'


def rows_and_ids(folder):
    ids = pq.read_table(folder / "item_ids.parquet")
    return ids.column("row").to_pylist(), ids.column("item_id").to_pylist()


def test_lc_rec_reads_the_tokens_of_rows(tmp_path):
    folder, _ = exported("lc-rec", tmp_path / "out")
    assert (folder / "items.index.json").read_text() == INDEX
    assert rows_and_ids(folder) == ([0, 1, 2], IDS)
    index = json.loads(INDEX)
    vocabulary = sorted({token for tokens in index.values() for token in tokens})  # as LC-Rec collects it
    assert vocabulary == ["<a_12>", "<a_200>", "<b_0>", "<b_3>", "<c_1>", "<c_77>", "<c_78>"]


def test_lc_rec_gets_texts_and_histories(tmp_path):
    given = {"titles": titles(), "visits": visits([0, -1, 2], [1])}
    folder, record = exported("lc-rec", tmp_path / "out", options={"dataset": "shop"}, **given)
    texts = json.loads((folder / "shop.item.json").read_text())
    assert texts["1"] == {"title": 'a "blue"\tshoe', "description": ""}
    assert (folder / "shop.inter.json").read_text() == '{"0": [0, 2], "1": [1]}'
    assert "1 events of items without a SID are left out" in record["notes"]


def test_tokens_that_two_levels_share_are_refused(tmp_path):
    with pytest.raises(SpecError, match="writes the same token for two codes"):
        exported("lc-rec", tmp_path / "out", options={"template": "<t{code}>"})
    folder, _ = exported("lc-rec", tmp_path / "out", table(template="plain"))  # however the table writes its SIDs
    assert (folder / "items.index.json").read_text() == INDEX


def test_a_million_rows_would_be_one_object_too(tmp_path, monkeypatch):
    monkeypatch.setattr("sidkit.export.streams.BATCH", 7)
    sids = random_table(50)
    folder, _ = exported("lc-rec", tmp_path / "out", sids)
    text = (folder / "items.index.json").read_text()
    expected = {str(row): [f"<{'abc'[level]}_{code}>" for level, code in enumerate(codes)]
                for row, codes in enumerate(sids.codes.tolist())}  # fmt: skip
    assert text == json.dumps(expected)
    assert pq.read_table(folder / "item_ids.parquet").num_rows == 50


def test_minionerec_gets_its_files(tmp_path):
    given = {"titles": titles(), "visits": visits()}
    folder, _ = exported("minionerec", tmp_path / "out", options={"dataset": "shop", "history": 2}, **given)
    assert (folder / "shop.index.json").read_text() == INDEX
    assert (folder / "shop.txt").read_text() == (
        '<a_12><b_3><c_77>\tred shoe\t0\n<a_12><b_3><c_78>\ta "blue" shoe\t1\n<a_200><b_0><c_1>\ttent\t2\n'
    )
    texts = {part: (folder / part / "shop.csv").read_text() for part in ("train", "valid", "test")}
    parts = {part: list(csv.DictReader(text.splitlines())) for part, text in texts.items()}
    assert [row["item_id"] for row in parts["test"]] == ["0"]
    assert [row["item_id"] for row in parts["valid"]] == ["2"]
    assert [(row["user_id"], row["item_id"]) for row in parts["train"]] == [("0", "1"), ("1", "1")]
    last = parts["test"][0]
    assert list(last) == [
        *("user_id", "history_item_title", "item_title", "history_item_id"),
        *("item_id", "history_item_sid", "item_sid"),
    ]
    assert literal_eval(last["history_item_title"]) == ['a "blue"\tshoe', "tent"]
    assert literal_eval(last["history_item_id"]) == [1, 2]
    assert literal_eval(last["history_item_sid"]) == ["<a_12><b_3><c_78>", "<a_200><b_0><c_1>"]
    assert (last["item_title"], last["item_sid"]) == ("red shoe", "<a_12><b_3><c_77>")


def test_minionerec_is_told_how_many_items_it_will_not_tell_apart(tmp_path):
    _, record = exported("minionerec", tmp_path / "out", crowded(), titles=titles(list("abcdef")))
    assert record["notes"][0].startswith("5 items share SIDs, of which MiniOneRec knows the last title alone")


def test_minionerec_gets_codebooks_that_it_uses_as_sidkit_does(tmp_path, rows, plain, prq):
    sids = table(range(len(rows)), plain.encode(rows), plain.sizes)
    texts = titles([f"thing {i}" for i in range(len(rows))])
    folder, _ = exported("minionerec", tmp_path / "out", sids, fitted=plain, titles=texts)
    with np.load(folder / "items.codebooks_constrained.npz", allow_pickle=False) as books:
        assert all(np.array_equal(books[f"codebook_{i}"], plain.codebooks[i]) for i in range(3))
    assert np.array_equal(np.load(folder / "items.codes_constrained.npy"), sids.codes)
    with pytest.raises(InputError, match=r"cannot travel to MiniOneRec.*leave out tokenizer"):
        exported("minionerec", tmp_path / "no", sids, fitted=prq, titles=texts)


def test_minionerec_is_refused_four_levels_and_no_titles(tmp_path):
    with pytest.raises(InputError, match="MiniOneRec reads SIDs of 3 levels, and these have 2"):
        exported("minionerec", tmp_path / "out", table(codes=[[1, 2], [1, 3], [0, 0]], sizes=(8, 8)))
    with pytest.raises(SpecError, match="MiniOneRec reads titles"):
        exported("minionerec", tmp_path / "out")


def test_llama_factory_gets_tokens_in_an_order_that_stays(tmp_path):
    sids = table(range(4), [[0, 1], [0, 0], [1, 1], [1, 0]], (2, 2))
    texts = titles(["running shoe", "trail shoe", "warm tent", "small tent"])
    folder, record = exported("llama-factory", tmp_path / "out", sids, titles=texts, visits=visits([0, 1, 2, 3, 0]))
    assert json.loads((folder / "new_tokens.json").read_text()) == ["<a_0>", "<a_1>", "<b_0>", "<b_1>"]
    assert json.loads((folder / "id2sid.json").read_text())["2"] == ["<a_1>", "<b_1>"]
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    words = yaml.safe_load((folder / "special_tokens.yaml").read_text())
    assert list(words) == ["<a_0>", "<a_1>", "<b_0>", "<b_1>"]
    assert "shoe" in words["<a_0>"]
    assert "tent" in words["<a_1>"]
    examples = json.loads((folder / "sft.json").read_text())
    assert [one["output"] for one in examples] == ["<a_0><b_0>", "<a_1><b_1>"]  # the last two are held out
    assert examples[1]["input"] == "<a_0><b_1>, <a_0><b_0>"
    assert set(examples[0]) == {"system", "instruction", "input", "output"}
    info = json.loads((folder / "dataset_info.json").read_text())["sidkit"]
    assert info["file_name"] == "sft.json"
    assert set(info["columns"].values()) == set(examples[0])
    assert any("--set model=DIR" in note for note in record["notes"])


def test_openonerec_gets_codes_items_and_tokens(tmp_path):
    folder, _ = exported("openonerec", tmp_path / "out", counts=np.array([40, 7, 1]))
    codes, mapping = pq.read_table(folder / "codes.parquet"), pq.read_table(folder / "pid2sid.parquet")
    assert codes.schema == pa.schema({"pid": pa.int64(), "codes": pa.list_(pa.int64())})
    assert codes.column("pid").to_pylist() == IDS
    assert codes.column("codes").to_pylist() == mapping.column("sid").to_pylist() == CODES
    by_sid = json.loads((folder / "sid2pid.json").read_text())
    assert by_sid["805331021"] == [{"pid": 5, "count": 40, "count_after_downsample": 40}]
    tokens = json.loads((folder / "new_tokens.json").read_text())
    assert tokens[:2] + tokens[256:257] == ["<s_a_0>", "<s_a_1>", "<s_b_0>"]
    assert tokens[-3:] == ["<s_c_255>", "<|sid_begin|>", "<|sid_end|>"]
    assert len(tokens) == 3 * 256 + 2


def test_openonerec_lists_the_most_popular_item_of_a_sid_first(tmp_path):
    folder, record = exported("openonerec", tmp_path / "out", crowded(), visits=visits([4, 4, 2, 0], [4, 2]))
    by_sid = json.loads((folder / "sid2pid.json").read_text())
    assert list(by_sid) == [str((a * 8192 + b) * 8192 + c) for a, b, c in ((1, 3, 2), (1, 3, 3), (2, 0, 1))]
    assert [one["pid"] for one in by_sid[str((8192 + 3) * 8192 + 2)]] == [5, 3, 1]
    assert record["notes"] == []
    _, record = exported("openonerec", tmp_path / "no counts", crowded(), options={"kind": "iid"})
    assert record["notes"] == ["sid2iid.json is left out: it holds how popular items are; give --counts or --sequences"]


@pytest.mark.parametrize(
    "sids, message",
    [
        (table(ids=["a", "b", "c"]), "OpenOneRec knows items by integers, and these ids are string"),
        (table(ids=[0, 1, 2]), "takes the item 0 for 'none'"),
        (table(codes=[[1, 2], [1, 3], [0, 0]], sizes=(8, 8)), "OpenOneRec reads SIDs of 3 levels"),
        (table(sizes=(256, 256, 9000)), "packs codes in base 8192"),
        (table(ids=pa.array([2**64 - 1, 1, 2], pa.uint64())), "64 bits with a sign"),
    ],
)
def test_openonerec_is_refused_what_it_cannot_hold(tmp_path, sids, message):
    with pytest.raises(InputError, match=message):
        exported("openonerec", tmp_path / "out", sids)


def test_openonerec_reads_centroids_of_plain_k_means(tmp_path, rows, prq):
    torch = pytest.importorskip("torch")
    import sidkit

    fitted = sidkit.rq_kmeans((8, 8, 8), normalize=False, iterations=2).fit(rows, seed=0)
    sids = table(range(1, len(rows) + 1), fitted.encode(rows), fitted.sizes)
    folder, _ = exported("openonerec", tmp_path / "out", sids, fitted=fitted)
    state = torch.load(folder / "model.pt", weights_only=True)
    assert list(state) == ["centroids.0", "centroids.1", "centroids.2"]
    left, codes = torch.from_numpy(rows), []
    for book in state.values():  # as its tokenizer does: nearest, then subtracted
        codes.append(torch.cdist(left.double(), book.double()).argmin(1))
        left = left - book[codes[-1]]
    assert np.array_equal(torch.stack(codes, 1).numpy(), sids.codes)
    with pytest.raises(InputError, match="cannot travel to OpenOneRec"):
        exported("openonerec", tmp_path / "no", table([1], [[1, 2, 3]], prq.sizes), fitted=prq)


def test_recboard_counts_levels_from_zero(tmp_path):
    folder, record = exported("recboard", tmp_path / "out")
    assert (folder / "sid_vocab.json").read_text().startswith('{"item_0": ["<sid_0_12>", "<sid_1_3>", "<sid_2_77>"]')
    assert record["notes"] == []
    assert "gives every item one more token" in exported("recboard", tmp_path / "c", crowded())[1]["notes"][0]


def test_templates_have_a_level_from_zero():
    assert Template("<L{level0}_{code}>").write((182, 5)) == "<L0_182><L1_5>"
    assert TEMPLATES["recboard"].write(CODES[0]) == "<SID> <sid_0_12> <sid_1_3> <sid_2_77> </SID>"
    assert TEMPLATES["rectokens"].write(CODES[0]) == "<|item_start|><item_L0_C12><item_L1_C3><item_L2_C77><|item_end|>"
    for form in TEMPLATES.values():
        assert form.parse(form.write(CODES[0])) == tuple(CODES[0])
    with pytest.raises(SpecError, match=r"only \{letter\}, \{level\} \(from 1\) and \{level0\} \(from 0\)"):
        Template("<{depth}_{code}>")


def test_csv_has_a_column_per_level(tmp_path):
    folder, _ = exported("csv", tmp_path / "out", table(ids=["a,b", 'c"d', "e"]))
    lines = list(csv.reader((folder / "sids.csv").read_text().splitlines()))
    assert lines[0] == ["item_id", "sid", "code_1", "code_2", "code_3"]
    assert lines[1] == ["a,b", "<a_12><b_3><c_77>", "12", "3", "77"]
    assert lines[2][0] == 'c"d'


def test_nvidia_serves_json_lines_of_vocabulary_ids(tmp_path):
    folder, record = exported("nvidia-sid-gr", tmp_path / "out", options={"base": BASE}, visits=visits())
    lines = (folder / "catalog.jsonl").read_text().splitlines()
    assert lines[0] == '{"item_id": 5, "token_ids": [151681, 151928, 152258]}'
    assert [json.loads(line)["item_id"] for line in lines] == IDS
    assert pq.read_table(folder / "sequences.parquet").to_pydict() == {
        "user_id": [0, 1],
        "sequence_data": [[0, 1, 2, 0], [2, 1]],
    }
    assert any("--catalog-vocab-size over 152436" in note for note in record["notes"])
    folder, _ = exported("nvidia-sid-gr", tmp_path / "texts", table(ids=['x"y', "b", "c"]), options={"base": 0})
    assert json.loads((folder / "catalog.jsonl").read_text().splitlines()[0])["item_id"] == 'x"y'


def test_nvidia_is_refused_paths_that_occur_twice_unless_asked(tmp_path):
    torch = pytest.importorskip("torch")
    with pytest.raises(InputError, match="refuses a token path that occurs twice"):
        exported("nvidia-sid-gr", tmp_path / "out", crowded(), options={"base": 0})
    folder, record = exported("nvidia-sid-gr", tmp_path / "out", crowded(), options={"base": 0, "shared": True})
    tensor = torch.load(folder / "item_to_sid.pt", weights_only=True)
    assert tensor.tolist()[-1] == [0, 0, 1, 0, 2, 1]
    assert json.loads((folder / "codebook_sizes.json").read_text()) == [4, 4, 4, 3]
    assert len((folder / "catalog.jsonl").read_text().splitlines()) == 6
    assert any("tells them apart" in note for note in record["notes"])
