"""Encoders: the rows of texts, and that a saved encoder gives the same rows."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest

from sidkit import embed as encoder
from sidkit.embed.encoder import FORMAT
from sidkit.embed.text import embed_texts
from sidkit.embed.tfidf import TfIdf
from sidkit.errors import InputError, MissingExtraError, SpecError, StoreError
from sidkit.files.folder import config_digest

TEXTS = ["red shoes for women", "crimson sneakers", "coffee mug", "a tea mug", "tea, coffee, shoes", "red sneakers"]


def made(kind):
    if kind == "wordllama":
        pytest.importorskip("wordllama")
    return encoder.choose(kind, TEXTS, d=5)


@pytest.mark.parametrize("kind", ["wordllama", "tfidf"])
def test_rows_have_length_one_and_do_not_depend_on_their_batch(kind):
    ours = made(kind)
    rows = ours.embed(TEXTS)
    assert rows.shape == (6, ours.d) == (6, 5)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-6)
    for i, text in enumerate(TEXTS):
        np.testing.assert_allclose(ours.embed([text])[0], rows[i], atol=1e-6)
    assert ours.embed([]).shape == (0, 5)


@pytest.mark.parametrize("kind", ["wordllama", "tfidf"])
def test_texts_with_nothing_in_them_are_zero(kind):
    assert not made(kind).embed([None, "", "  \n"]).any()


@pytest.mark.parametrize("kind", ["wordllama", "tfidf"])
def test_an_encoder_comes_back_from_its_folder_to_the_bit(kind, tmp_path):
    ours = made(kind)
    ours.save(tmp_path / "shop.encoder")
    again = encoder.load(tmp_path / "shop.encoder")
    np.testing.assert_array_equal(again.embed(TEXTS, query=True), ours.embed(TEXTS))
    assert encoder.beside(tmp_path / "shop.parquet") == tmp_path / "shop.encoder"


def test_wordllama_knows_that_sneakers_are_shoes():
    pytest.importorskip("wordllama")
    shoes, sneakers, mug = encoder.choose().embed(["red shoes", "crimson sneakers", "coffee mug"])
    assert shoes @ sneakers > 0.2 + shoes @ mug


def test_tfidf_embeds_new_texts_as_it_did_those_it_learned_from():
    rows = TfIdf.fit(TEXTS, d=4).embed(TEXTS)
    np.testing.assert_allclose(rows, embed_texts(TEXTS, d=4), atol=1e-5)


def test_an_encoder_that_answers_otherwise_is_refused(tmp_path):
    made("tfidf").save(tmp_path / "a")
    other = TfIdf.fit([text.replace("red", "shoes") + " red" for text in TEXTS], d=5)
    state, arrays = FORMAT.read(tmp_path / "a")
    facts = {key: state[key] for key in ("kind", "options")}
    FORMAT.write(tmp_path / "a", facts, {**other.arrays, "probe": arrays["probe"]})
    with pytest.raises(StoreError, match="no longer embeds as it did"):
        encoder.load(tmp_path / "a")


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda folder: (folder / "model.safetensors").write_bytes(b"x"), "is damaged: .*; embed the items again"),
        (lambda folder: (folder / "config.json").write_text("[]"), "does not describe a sidkit encoder"),
        (lambda folder: (folder / "config.json").unlink(), r"holds no config\.json"),
        (lambda folder: reword(folder, kind="gpt"), "cannot be restored: KeyError 'gpt'"),
        (lambda folder: reword(folder, kind="wordllama", options={"width": 3}), "cannot be restored: TypeError"),
    ],
)
def test_a_damaged_folder_is_named(tmp_path, change, message):
    made("tfidf").save(tmp_path / "shop.encoder")
    change(tmp_path / "shop.encoder")
    with pytest.raises(StoreError, match=message):
        encoder.load(tmp_path / "shop.encoder")


def reword(folder, **facts):
    state = json.loads((folder / "config.json").read_text()) | facts
    del state["sha256"]
    (folder / "config.json").write_text(json.dumps(state | {"sha256": config_digest(state)}))


def test_bad_requests_are_refused_before_any_work(monkeypatch, tmp_path):
    with pytest.raises(SpecError, match="0 dimensions"):
        encoder.choose("tfidf", TEXTS, d=0)
    with pytest.raises(InputError, match="learns from the texts"):
        encoder.choose("tfidf")
    with pytest.raises(InputError, match="no word occurs in two"):
        encoder.choose("tfidf", ["one", "two"])
    with pytest.raises(InputError, match="not one string"):
        made("tfidf").embed("red shoes")
    with pytest.raises(StoreError, match="no such encoder folder"):
        encoder.load(tmp_path / "none")
    monkeypatch.setattr("sidkit.embed.wordllama.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"sidkit\[embed\].*model='tfidf' needs nothing"):
        encoder.choose("wordllama")


TINY = """
import sys, numpy as np
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer, models, pre_tokenizers
from sidkit import embed as encoder
from sidkit.errors import InputError

words = Tokenizer(models.WordLevel({"[UNK]": 0, "red": 1, "shoes": 2, "mug": 3}, unk_token="[UNK]"))
words.pre_tokenizer = pre_tokenizers.Whitespace()
prompts = {"query": "mug ", "document": ""}
model = SentenceTransformer(modules=[StaticEmbedding(words, embedding_dim=8)], prompts=prompts, device="cpu")
model.save("tiny")
ours = encoder.choose("tiny")
rows = ours.embed(["red shoes", "mug", None])
direct = model.encode(["red shoes", "mug"], normalize_embeddings=True)
np.testing.assert_allclose(rows[:2], direct, atol=1e-6)
assert not rows[2].any()
ours.save("shop.encoder")
again = encoder.load("shop.encoder")
np.testing.assert_allclose(again.embed(["red"], query=True), ours.embed(["mug red"]), atol=1e-6)
assert encoder.choose("tiny", d=3).embed(["red"]).shape == (1, 3)
model.bfloat16().save("half")
half = encoder.choose("half")
assert {str(weight.dtype) for weight in half._model.parameters()} == {"torch.float32"}
np.testing.assert_allclose(half.embed(["red shoes"]), rows[:1], atol=1e-2)
try:
    encoder.choose("no-such-model")
except InputError as error:
    print(error)
"""


def test_any_sentence_transformers_model_serves(tmp_path):
    if find_spec("sentence_transformers") is None:
        pytest.skip("sentence-transformers is not installed")
    alone = {"PATH": "/usr/bin", "HF_HUB_OFFLINE": "1", "HOME": str(tmp_path), "OMP_WAIT_POLICY": "PASSIVE"}
    done = subprocess.run(
        [sys.executable, "-c", TINY],
        cwd=tmp_path,
        env=alone | {"PYTHONPATH": os.environ.get("PYTHONPATH", "")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "cannot load the sentence-transformers model 'no-such-model'" in done.stdout
