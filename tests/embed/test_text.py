"""Words, tf-idf, the truncated SVD and the words that tell groups apart."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from sidkit.embed.text import directions, embed_texts, tfidf
from sidkit.embed.word_counts import WordCounts
from sidkit.embed.words import words
from sidkit.errors import InputError, SpecError

COLOURS = ["red", "blue", "green", "white"]


def shop() -> list[str]:
    """60 hats and 40 mugs; every fourth item is for kids."""
    things = ["woollen hat"] * 60 + ["coffee mug"] * 40
    return [f"{thing} {COLOURS[i % 3]} {'for kids' if i % 4 == 0 else 'for adults'}" for i, thing in enumerate(things)]


@pytest.mark.parametrize(
    "text, expected",
    [
        ("The Women's Non-Slip Slippers, 2 pairs", ["women", "non-slip", "slippers", "2", "pairs"]),
        ("Kids' USB-C cable for the 1.5L_jug", ["kids", "usb-c", "cable", "1.5l", "jug"]),
        ("L'eau - Élan ÉTÉ", ["l", "eau", "élan", "été"]),
        ("不锈钢水杯500ml", ["不", "锈", "钢", "水", "杯", "500ml"]),
        ("Phone手机壳", ["phone", "手", "机", "壳"]),
        ("ＵＳＢ充电", ["usb", "充", "电"]),
        ("हिन्दी किताब", ["हिन्दी", "किताब"]),
        ("", []),
        (" -- !? ", []),
    ],
)
def test_words_are_lower_case_and_ideographs_stand_alone(text, expected):
    assert words(text) == expected


def test_tfidf_equals_the_formula_worked_by_hand():
    matrix, terms = tfidf(["cat cat dog", "cat bird", "dog bird"], min_count=2)
    assert terms == ["bird", "cat", "dog"]
    idf = 1 + np.log(4 / 3)
    cat, dog = (1 + np.log(2)) * idf, idf
    length = np.hypot(cat, dog)
    half = np.sqrt(0.5)
    expected = [[0, cat / length, dog / length], [half, half, 0], [half, 0, half]]
    np.testing.assert_allclose(matrix.toarray(), expected, rtol=1e-6)
    assert matrix.dtype == np.float32


def test_tfidf_counts_pairs_of_neighbours_but_never_across_texts():
    _, terms = tfidf(["red hat", "red hat", "hat red"], min_count=1)
    assert terms == ["hat", "red", "red hat", "hat red"]


def test_the_most_frequent_terms_are_kept_and_ties_go_by_name():
    _, terms = tfidf(["y x", "x z", "x y", "z"], min_count=1, max_features=3)
    assert terms == ["x", "y", "z"]


def test_texts_without_known_words_have_zero_tfidf_rows():
    matrix, _ = tfidf(["red hat", "", None, "red cap", "unseen"])
    np.testing.assert_allclose(np.linalg.norm(matrix.toarray(), axis=1), [1, 0, 0, 1, 0])


def test_the_directions_of_a_low_rank_matrix_are_recovered():
    rng = np.random.default_rng(0)
    left = np.linalg.qr(rng.standard_normal((300, 3)))[0]
    right = np.linalg.qr(rng.standard_normal((80, 3)))[0]
    a = left * [5.0, 2.0, 0.5] @ right.T
    values, vectors = directions(sparse.csr_matrix(a), d=3)
    np.testing.assert_allclose(values, [5.0, 2.0, 0.5], rtol=1e-9)
    np.testing.assert_allclose(a @ vectors @ vectors.T, a, atol=1e-9)
    np.testing.assert_allclose(np.abs((vectors * right).sum(axis=0)), 1.0, rtol=1e-9)


def test_the_largest_entry_of_a_direction_is_positive_whatever_the_seed():
    a = np.random.default_rng(1).standard_normal((50, 6)) * [9, 7, 5, 3, 2, 1]
    first, second = directions(a, 4, seed=0)[1], directions(a, 4, seed=1)[1]
    np.testing.assert_allclose(first, second, atol=1e-9)
    assert (first[np.abs(first).argmax(axis=0), range(4)] > 0).all()


def test_more_directions_than_the_matrix_has_are_not_invented():
    values, vectors = directions(np.ones((5, 3)), d=10)
    assert vectors.shape == (3, 3)
    np.testing.assert_allclose(values, [np.sqrt(15), 0, 0], atol=1e-7)


def test_embeddings_of_the_same_kind_point_the_same_way():
    x = embed_texts(shop(), d=8)
    cosine = x @ x.T
    assert cosine[:60, :60].mean() > cosine[:60, 60:].mean() + 0.3
    np.testing.assert_allclose(np.linalg.norm(x, axis=1), 1.0, rtol=1e-6)
    assert x.dtype == np.float32


def test_embeddings_are_decided_by_the_texts_and_follow_their_order():
    texts = shop()
    x = embed_texts(texts, d=6)
    assert np.array_equal(x, embed_texts(texts, d=6))
    turned = embed_texts(texts[::-1], d=6)
    np.testing.assert_allclose(x @ x.T, turned[::-1] @ turned[::-1].T, atol=1e-5)


def test_equal_texts_have_equal_embeddings():
    texts = shop()
    x = embed_texts(texts, d=8)
    assert texts[0] == texts[12]
    assert np.array_equal(x[0], x[12])


def test_columns_beyond_the_rank_are_zero():
    x = embed_texts(["red hat", "red hat", "red cap"], d=16)
    assert not x[:, 3:].any()
    np.testing.assert_allclose(np.linalg.norm(x, axis=1), 1.0, rtol=1e-6)


def test_texts_with_nothing_known_get_a_direction_of_their_words():
    x = embed_texts(["red hat", "red hat", "", None, "Unseen!", "wonder"], d=32)
    np.testing.assert_allclose(np.linalg.norm(x, axis=1), 1.0, rtol=1e-6)
    assert np.array_equal(x[2], x[3])
    assert abs(x[4] @ x[5]) < 0.7
    assert np.array_equal(x[4], embed_texts(["unseen"], d=32)[0])
    assert not np.array_equal(x[4], embed_texts(["unseen"], d=32, seed=1)[0])


def test_no_texts_give_no_rows():
    assert embed_texts([], d=4).shape == (0, 4)
    assert tfidf([])[1] == []


def test_one_string_is_refused():
    with pytest.raises(InputError, match="a list of strings, not one string"):
        embed_texts("red hat")
    with pytest.raises(InputError, match="a list of strings, not one string"):
        WordCounts("red hat")


def test_no_dimensions_are_refused():
    with pytest.raises(SpecError, match="in 0 dimensions; ask for at least 1"):
        embed_texts(["red hat"], d=0)


def test_planted_words_set_their_group_apart():
    counts = WordCounts(shop())
    assert set(counts.distinctive(np.arange(60), top=2)) == {"hat", "woollen"}
    assert set(counts.distinctive(np.arange(60, 100), top=2)) == {"coffee", "mug"}


def test_within_a_category_its_own_words_no_longer_tell_apart():
    hats = np.arange(60)
    counts = WordCounts(shop())
    assert counts.distinctive(hats[::4], within=hats) == ["kids"]
    assert "hat" in counts.distinctive(hats[::4])


def test_the_z_score_ranks_as_worked_by_hand():
    # inside: hat 2, red 2, new 1; outside: red 1, blue 3, mug 4. Prior = both together, n_in = 5, n_out = 8.
    counts = WordCounts(["red hat", "red hat new", "red mug", "blue mug", "blue mug", "blue mug"])

    def z(inside, outside):
        here, there = 2 * inside + outside, inside + 2 * outside
        return (np.log(here / (18 - here)) - np.log(there / (21 - there))) / np.sqrt(1 / here + 1 / there)

    assert z(2, 0) > z(1, 0) > z(2, 1) > 0.5
    assert counts.distinctive([0, 1]) == ["hat", "new", "red"]
    assert counts.contrast([[0, 1], [2, 3, 4, 5]])[0] == ["hat", "new", "red"]


def test_a_word_that_is_everywhere_never_tells_apart():
    counts = WordCounts(shop())
    assert counts.distinctive(np.arange(100)) == []
    assert WordCounts(["hat hat", "hat"]).distinctive([0]) == []


def test_a_contrast_is_each_group_against_the_others():
    texts = shop()
    groups = [[i for i, text in enumerate(texts) if f" {colour} " in text] for colour in COLOURS]
    counts = WordCounts(texts)
    contrasts = counts.contrast(groups, top=1)
    assert contrasts == [["red"], ["blue"], ["green"], []]
    everything = np.concatenate([np.array(group, int) for group in groups])
    assert contrasts[0] == counts.distinctive(groups[0], top=1, within=everything)
    assert counts.contrast([]) == []


def test_a_row_named_twice_counts_once():
    counts = WordCounts(["hat", "mug", "mug", "tea", "tea"])
    assert counts.distinctive([1, 0, 1, 1]) == counts.distinctive([0, 1]) == ["hat"]
    assert counts.shared([0, 1, 1, 1]) == []


def test_shared_words_are_those_of_most_rows_the_rarest_first():
    counts = WordCounts(["red hat", "red hat wool", "red hat", "blue hat", "red mug", "red cup", "red pan"])
    assert counts.shared([0, 1, 2, 3]) == ["hat", "red"]
    assert counts.shared([0, 1, 2, 3], top=1) == ["hat"]
    assert counts.shared([0, 3]) == ["hat"]


def test_sixty_percent_is_enough_to_be_shared():
    counts = WordCounts(["wool hat", "wool hat", "wool hat", "hat", "hat", "mug"])
    assert counts.shared([0, 1, 2, 3, 4]) == ["wool", "hat"]


def test_letters_and_numbers_alone_are_not_counted_but_ideographs_are():
    counts = WordCounts(["水杯 500 X 2.5 4k", "手机 500 X 2.5 4k"])
    assert set(counts.distinctive([0])) == {"水", "杯"}
    assert counts.shared([0, 1]) == ["4k"]


def test_a_large_group_counts_as_a_small_one_does():
    # Above as many entries as there are words the counting takes another road; both must agree.
    texts = shop()
    counts = WordCounts(texts)
    small = WordCounts(texts + [f"word{i}x" for i in range(2000)])
    rows = np.arange(0, 100, 4)
    assert counts.counts[rows].nnz > len(counts.vocabulary)
    assert small.counts[rows].nnz < len(small.vocabulary)
    assert counts.distinctive(rows, within=np.arange(100)) == small.distinctive(rows, within=np.arange(100))
    assert counts.shared(rows) == small.shared(rows)


def test_empty_groups_and_corpora_have_nothing_to_say():
    counts = WordCounts(["red hat", ""])
    assert counts.distinctive([]) == counts.shared([]) == counts.distinctive([1]) == counts.shared([1]) == []
    assert WordCounts([]).distinctive([]) == []
