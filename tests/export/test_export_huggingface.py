"""Tokens and rows in transformers: tiny models, loaded again by the library itself."""

from __future__ import annotations

import json

import numpy as np
import pytest

import sidkit
from exported import exported, table
from sidkit.errors import InputError, SpecError
from sidkit.export.job import export
from sidkit.export.target import ExportJob
from sidkit.export.token_rows import level_codebooks, rows_from_centroids

transformers = pytest.importorskip("transformers", reason="transformers is not installed")
torch = pytest.importorskip("torch")

WORDS = ["<pad>", "</s>", "<unk>", *"abcdefghijklmnopqrstuvwxyz0123456789<>_-,", "buy", "shoe"]


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A tokenizer of words that lower-cases its text."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    folder = tmp_path_factory.mktemp("base")
    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
    inner.normalizer = normalizers.Lowercase()
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    special = {"unk_token": "<unk>", "pad_token": "<pad>", "eos_token": "</s>"}
    transformers.PreTrainedTokenizerFast(tokenizer_object=inner, **special).save_pretrained(folder)
    return folder


def with_model(base, folder, rows, tied):
    """The tokenizer beside a tiny Llama whose embeddings have this many rows."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(base)
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=rows, hidden_size=24, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        tie_word_embeddings=tied,
    )  # fmt: skip
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def test_tokens_are_added_level_by_level_as_ordinary_ones(tmp_path, base):
    folder, record = exported("huggingface", tmp_path / "out", options={"model": str(base)})
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    first = len(WORDS)
    assert len(tokenizer) == first + 3 * 256
    assert tokenizer.convert_tokens_to_ids(["<a_0>", "<a_255>", "<b_0>", "<c_77>"]) == [
        *(first, first + 255, first + 256, first + 2 * 256 + 77),
    ]
    ids = tokenizer.encode("buy <a_12><b_3><c_77>", add_special_tokens=False)
    assert ids[1:] == [first + 12, first + 256 + 3, first + 512 + 77]
    assert "<a_12>" in tokenizer.decode(ids, skip_special_tokens=True)
    assert tokenizer.encode("<A_12>", add_special_tokens=False) != [first + 12]  # not normalised
    added = json.loads((folder / "tokenizer.json").read_text())["added_tokens"]
    mine = [entry for entry in added if entry["content"].startswith("<a_")]
    assert len(mine) == 256
    assert not any(entry["normalized"] or entry["special"] for entry in mine)
    facts = json.loads((folder / "sid_tokens.json").read_text())
    assert (facts["first_id"], facts["last_id"]) == (first, first + 767)
    assert "holds no model" in record["notes"][0]


def test_encoder_decoder_models_get_rows_too(tmp_path, base, prq):
    transformers.AutoTokenizer.from_pretrained(base).save_pretrained(tmp_path / "t5")
    config = transformers.T5Config(
        vocab_size=64, d_model=16, d_kv=4, d_ff=16, num_layers=1, num_heads=2, decoder_start_token_id=0
    )
    transformers.T5ForConditionalGeneration(config).save_pretrained(tmp_path / "t5")
    export("huggingface", ExportJob(fitted=prq, options={"model": str(tmp_path / "t5")}), tmp_path / "out")
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out")
    rows = model.get_input_embeddings().weight[len(WORDS) : len(WORDS) + 28].detach()
    assert len(np.unique(rows.numpy().round(6), axis=0)) == 28  # no two tokens start as one vector
    model.generate(torch.tensor([[len(WORDS)]]), max_new_tokens=2, do_sample=False)


def test_flashrec_finds_the_tokens_and_where_they_lie(tmp_path, base):
    layout = pytest.importorskip("flashrec.sid_layout", reason="flashrec is not installed (pip install --no-deps)")
    sids = table(sizes=(201, 4, 79))
    options = {"model": str(base), "template": "openonerec"}
    tokenizer, _ = exported("huggingface", tmp_path / "hf", sids, options=options)
    catalogue, _ = exported("flashrec", tmp_path / "catalogue", sids, options={"end": True})
    found = layout.infer_sid_layout(str(tokenizer), str(catalogue / "sid_vocab.json"))
    first = len(WORDS)
    assert (found.token_range, found.codebook_sizes) == (f"{first}:{first + 285}", "201,4,79,2")


def test_what_begins_and_ends_a_sid_is_a_token_too(tmp_path, base):
    options = {"model": str(base), "template": "openonerec"}
    folder, _ = exported("huggingface", tmp_path / "out", table(sizes=(201, 4, 79)), options=options)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    ids = tokenizer.encode("<|sid_begin|><s_a_12><s_b_3><s_c_77><|sid_end|>", add_special_tokens=False)
    first, total = len(WORDS), 201 + 4 + 79
    assert ids == [first + total, first + 12, first + 201 + 3, first + 205 + 77, first + total + 1]
    assert len(tokenizer) == first + total + 2


def test_the_exported_tokenizer_is_a_vocabulary_for_other_targets(tmp_path, base):
    import struct

    folder, _ = exported("huggingface", tmp_path / "hf", options={"model": str(base)})
    other, _ = exported("xllm", tmp_path / "x", options={"vocabulary": str(folder)})
    first = len(WORDS)
    record = struct.unpack("<q3i", (other / "sid_vocab.bin").read_bytes()[:20])
    assert record == (5, first + 12, first + 256 + 3, first + 512 + 77)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("spare", [0, 10])
def test_rows_are_written_by_token_id(tmp_path, base, prq, tied, spare):
    known = len(WORDS)
    source = with_model(base, tmp_path / "base", known + spare, tied)
    before = transformers.AutoModelForCausalLM.from_pretrained(source)
    export("huggingface", ExportJob(fitted=prq, options={"model": str(source)}), tmp_path / "out")
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    ids = tokenizer.convert_tokens_to_ids(["<a_0>", "<a_1>", "<c_3>"])
    assert ids == [known, known + 1, known + 27]
    for layer, old in (
        (model.get_input_embeddings(), before.get_input_embeddings()),
        (model.get_output_embeddings(), before.get_output_embeddings()),
    ):
        assert torch.equal(layer.weight[:known], old.weight[:known])  # what was trained stays
        expected = rows_from_centroids(level_codebooks(prq), old.weight[:known].detach().double().numpy(), 0)
        assert np.allclose(layer.weight[known : known + 28].detach().numpy(), expected, atol=1e-6)
    assert model.get_input_embeddings().weight.shape[0] == max(known + spare, known + 28)
    assert (model.get_input_embeddings().weight is model.get_output_embeddings().weight) == tied
    model.generate(torch.tensor([[known]]), max_new_tokens=1, do_sample=False)


@pytest.mark.parametrize("width", [8, 16, 40])
def test_rows_have_the_geometry_of_centroids_and_the_size_of_the_old_rows(width):
    rng = np.random.default_rng(0)
    books, old = [rng.normal(size=(12, 16)), rng.normal(size=(6, 16))], rng.normal(0.3, 0.02, size=(100, width))
    rows = rows_from_centroids(books, old, seed=0)
    assert rows.shape == (18, width)
    for part, book in ((rows[:12], books[0]), (rows[12:], books[1])):
        assert np.allclose(part.mean(axis=0), old.mean(axis=0))
        spread = np.sqrt(((old - old.mean(axis=0)) ** 2).sum(axis=1).mean())
        assert np.isclose(np.sqrt(((part - part.mean(axis=0)) ** 2).sum(axis=1).mean()), spread)
        if width >= 16:  # a rotation: all distances are kept, up to one factor
            apart = [np.linalg.norm(x[:, None] - x[None], axis=-1) for x in (part, book)]
            off = ~np.eye(len(book), dtype=bool)
            ratio = apart[0][off] / apart[1][off]
            assert np.allclose(ratio, ratio[0])
    assert not np.allclose(rows, rows_from_centroids(books, old, seed=1))
    same = rows_from_centroids([books[0], books[0]], old, seed=0)
    assert not np.allclose(same[:12], same[12:])


def test_tokens_without_a_centroid_are_refused(tmp_path, base, rows):
    source = with_model(base, tmp_path / "base", 60, True)
    fitted = sidkit.rq_opq((8, 8, 4, 4, 4), iterations=1).fit(rows, seed=0)
    with pytest.raises(InputError, match=r"token 3 of rq-opq has a codebook under every parent.*set rows=false"):
        export("huggingface", ExportJob(fitted=fitted, options={"model": str(source)}), tmp_path / "out")
    bits = sidkit.res_kmeans_fsq((4, 4, 4, 4, 4), iterations=1, projection="itq").fit(rows, seed=0)
    with pytest.raises(InputError, match="token 4 of res-kmeans-fsq is a binary code"):
        export("huggingface", ExportJob(fitted=bits, options={"model": str(source)}), tmp_path / "out")
    job = ExportJob(fitted=bits, options={"model": str(source), "rows": False})
    assert "model.safetensors" not in export("huggingface", job, tmp_path / "out")["files"]


def test_a_large_model_is_written_for_all_readers_and_without_bars(tmp_path, base, prq, capfd, monkeypatch):
    source = with_model(base, tmp_path / "base", len(WORDS), True)
    save = transformers.PreTrainedModel.save_pretrained
    in_parts = lambda self, folder: save(self, folder, max_shard_size="8KB")  # noqa: E731
    monkeypatch.setattr(transformers.PreTrainedModel, "save_pretrained", in_parts)
    capfd.readouterr()
    export("huggingface", ExportJob(fitted=prq, options={"model": str(source)}), tmp_path / "out")
    assert capfd.readouterr().err == ""
    parts = list((tmp_path / "out").glob("model-*.safetensors"))
    assert len(parts) > 1
    assert {part.stat().st_mode for part in parts} == {(tmp_path / "out" / "config.json").stat().st_mode}


def test_a_model_needs_the_tokenizer_and_a_tokenizer_does_not(tmp_path, base):
    source = with_model(base, tmp_path / "base", len(WORDS), True)
    with pytest.raises(SpecError, match=r"new rows start from the tokenizer's centroids.*set rows=false"):
        exported("huggingface", tmp_path / "out", options={"model": str(source)})
    _, record = exported("huggingface", tmp_path / "out", options={"model": str(source), "rows": False})
    assert "model.safetensors" not in record["files"]


def test_tokens_that_are_there_already_and_folders_that_are_none_are_refused(tmp_path, base):
    folder, _ = exported("huggingface", tmp_path / "out", options={"model": str(base)})
    with pytest.raises(InputError, match=r"has '<a_0>' and 767 more SID tokens already"):
        exported("huggingface", tmp_path / "again", options={"model": str(folder)})
    with pytest.raises(SpecError, match="this target needs set model=PATH, the folder of a tokenizer"):
        exported("huggingface", tmp_path / "again")
    with pytest.raises(InputError, match="no such file or folder"):
        exported("huggingface", tmp_path / "again", options={"model": str(tmp_path / "nothing")})
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"cannot read a tokenizer from .*empty: "):
        exported("huggingface", tmp_path / "again", options={"model": str(tmp_path / "empty")})


def test_llama_factory_gets_the_tokenizer_too(tmp_path, base):
    folder, _ = exported("llama-factory", tmp_path / "out", options={"model": str(base)})
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "tokenizer")
    tokens = json.loads((folder / "new_tokens.json").read_text())
    assert tokenizer.convert_tokens_to_ids(tokens) == list(range(len(WORDS), len(WORDS) + len(tokens)))


def test_many_tokens_do_not_slow_the_tokenizer_down(tmp_path, base):
    """Guards against the slowness that older versions had: a line is encoded in well under ten milliseconds."""
    from time import process_time

    sids = table(sizes=(8192, 256, 256))
    folder, _ = exported("huggingface", tmp_path / "out", sids, options={"model": str(base)})
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    line = "buy <a_8000><b_3><c_77> and <a_1><b_2><c_3>"
    tokenizer.encode(line)
    start = process_time()
    for _ in range(20):
        tokenizer.encode(line)
    assert process_time() - start < 20 * 0.05
