"""Texts and SIDs as tokens of one vocabulary."""

from __future__ import annotations

import numpy as np
import pytest

tokenizers = pytest.importorskip("tokenizers", reason="the search model needs tokenizers")
pytest.importorskip("torch", reason="the search model needs torch")

from sidkit.errors import InputError, StoreError  # noqa: E402
from sidkit.search.training.tokens import Tokens  # noqa: E402
from toy_corpus import sequences, tokens, words  # noqa: E402


@pytest.mark.parametrize("sizes", [(4, 3, 2), (1024, 512, 128), (1024, 512, 128, 64, 64)])
def test_sid_tokens_follow_the_words_level_by_level(sizes):
    both, rng = tokens(sizes), np.random.default_rng(0)
    codes = np.stack([rng.integers(0, size, 50) for size in sizes], 1)
    codes[0], codes[1] = 0, np.array(sizes) - 1
    count = len(words().get_vocab())
    expected = [[count + sum(sizes[:level]) + code for level, code in enumerate(row)] for row in codes.tolist()]
    assert both.sids(codes).tolist() == expected
    assert both.first == count
    assert both.size % 64 == 0
    assert both.first + sum(sizes) <= both.size < both.first + sum(sizes) + 64
    assert len(set(both.sids(codes).ravel().tolist()) & set(range(count))) == 0


def test_special_tokens_are_numbered_as_in_bart():
    both = tokens()
    assert (both.bos, both.pad, both.eos) == (0, 1, 2)
    assert [words().token_to_id(name) for name in ("<unk>", "<mask>")] == [3, 4]


def test_tokens_behind_a_gap_in_the_vocabulary_do_not_meet_words():
    small = tokenizers.Tokenizer(tokenizers.models.WordLevel({"<s>": 0, "mug": 9}, unk_token="<s>"))
    both = Tokens(small, (2, 2))
    assert both.sids(np.array([[0, 0]])).tolist() == [[10, 12]]


def test_names_are_those_of_sid_tables():
    assert tokens().names() == ["<a_0>", "<a_1>", "<a_2>", "<a_3>", "<b_0>", "<b_1>", "<b_2>", "<c_0>", "<c_1>"]
    five = tokens((1, 1, 1, 1, 2))
    assert five.names() == ["<a_0>", "<b_0>", "<c_0>", "<d_0>", "<e_0>", "<e_1>"]


def test_text_gives_texts_and_sids_back():
    both = tokens()
    sid = both.sids(np.array([[3, 2, 0]]))[0]
    (query,) = sequences(both.texts(["red mug"], 9))
    assert both.text([both.bos, *query, *sid, *query, both.eos]) == "red mug<a_3><b_2><c_0> red mug"
    assert both.text([both.size - 1]) == ""  # an unused token


@pytest.mark.parametrize("text", ["<a_0><b_1>", "</s>", "<mask> <pad>"])
def test_a_text_never_contains_tokens_of_sids_or_special_ones(text):
    (split,) = sequences(tokens().texts([text], 99))
    assert min(split) > 4
    assert max(split) < tokens().first
    assert tokens().text(split) == text


def test_blank_texts_have_no_tokens_and_blanks_around_a_text_no_part_in_it():
    blank = tokens().texts(["", None, "   ", "\u3000\t", " red mug\n"], 9)
    assert sequences(blank)[:4] == [[], [], [], []]
    assert sequences(blank)[4] == sequences(tokens().texts(["red mug"], 9))[0]


def test_case_and_width_do_not_matter():
    one, other = sequences(tokens().texts(["Ｒed MUG", "red mug"], 9))
    assert one == other


def test_long_texts_are_cut():
    long = "red mug " * 40
    (whole,), (cut,) = (sequences(tokens().texts([long], n)) for n in (1000, 7))
    assert len(cut) == 7
    assert cut == whole[:7]


def test_codes_outside_their_level_are_refused():
    with pytest.raises(InputError, match="code 3 of row 1 is not one of the 3 codes of level 2"):
        tokens().sids(np.array([[0, 0, 0], [0, 3, 0]]))
    with pytest.raises(InputError, match="code -1 of row 0 is not one of the 4 codes of level 1"):
        tokens().sids(np.array([[-1, 0, 0]]))
    with pytest.raises(InputError, match=r"SIDs of 3 levels are needed, not codes of shape \(1, 2\)"):
        tokens().sids(np.array([[0, 0]]))


def test_saved_tokens_are_read_back(tmp_path):
    tokens().save(tmp_path)
    back = Tokens.load(tmp_path)
    texts = ["red mug", "查询", "</s>"]
    assert sequences(back.texts(texts, 9)) == sequences(tokens().texts(texts, 9))
    assert (back.sizes, back.first, back.size) == (tokens().sizes, tokens().first, tokens().size)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(StoreError, match=r"tokenizer.json cannot be read"):
        Tokens.load(tmp_path)
    with pytest.raises(StoreError, match="contains no tokens of a search model"):
        Tokens.load(tmp_path / "nowhere")


def test_a_given_tokenizer_neither_pads_nor_cuts_and_its_texts_start_with_a_blank(tmp_path):
    """As released ones do: padding to the longest text of a batch, and no blank before the first word."""
    from tokenizers import pre_tokenizers

    given = tokenizers.Tokenizer.from_str(words().to_str())
    given.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    given.enable_padding(pad_id=1, pad_token="<pad>")
    given.enable_truncation(2)
    given.save(str(tmp_path / "tokenizer.json"))
    both = Tokens.of_folder(tmp_path, (4, 3, 2))
    texts = ["mug", "red mug blue mug"]
    assert sequences(both.texts(texts, 9)) == sequences(tokens().texts(texts, 9))


def test_a_folder_without_a_tokenizer_and_one_of_another_model_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"contains no tokenizer.json"):
        Tokens.of_folder(tmp_path, (2,))
    other = tokenizers.Tokenizer(tokenizers.models.WordLevel({"[CLS]": 0}, unk_token="[CLS]"))
    with pytest.raises(InputError, match=r"has no token </s>; a BART's has <s>, <pad>"):
        _ = Tokens(other, (2,)).eos
