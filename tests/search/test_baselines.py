"""What a user would pick instead: each baseline on data whose answer is known."""

import numpy as np
import pytest

from sidkit.errors import InputError
from sidkit.search.align.pairs import Pairs
from sidkit.search.evaluate.baselines import bm25_lists, counted_lists, nearest_lists
from sidkit.search.evaluate.top import top_rows
from sidkit.search.keywords.words import normal, terms

TEXTS = ["red garden hose", "garden hose 50 ft", "Hose reel", "paint brush", None, "hose"]


def test_words_are_lower_case_without_punctuation_and_numbers_stay_whole():
    assert normal("1/2 in. Drill-Bit, 3.5V") == "1/2 in drill bit 3.5 v"
    assert terms("Red HOSE") == ["red", "hose"]
    assert terms("红色连衣裙 xl") == ["红色", "色连", "连衣", "衣裙", "xl"]
    assert normal("苹果iPhone手机") == "苹果 iphone 手机"


def test_bm25_ranks_by_rare_words_and_pads_where_no_word_matches():
    pytest.importorskip("bm25s")
    found = bm25_lists(TEXTS, ["garden hose", "nothing here", "HOSE", None], [0, 1, 2, 3, 0], k=4)
    assert found[0].tolist() == [0, 1, 5, 2]  # the two with "garden" (the shorter first), then the shorter "hose"
    assert found[1].tolist() == found[3].tolist() == [-1] * 4
    assert found[2, 0] == 5
    assert found[4].tolist() == found[0].tolist()


def test_bm25_scores_are_those_of_the_library(rng):
    bm25s = pytest.importorskip("bm25s")
    words = [f"w{i}" for i in range(30)]
    texts = [" ".join(rng.choice(words, 12)) for _ in range(200)]
    queries = [" ".join(rng.choice(words, 3)) for _ in range(20)]
    index = bm25s.BM25(method="lucene", k1=1.2, b=0.6)
    index.index([text.split() for text in texts], show_progress=False)
    found = bm25_lists(texts, queries, np.arange(20), k=10, k1=1.2, b=0.6)
    for query, rows in zip(queries, found, strict=True):
        scores = index.get_scores(query.split())
        assert scores[rows] == pytest.approx(np.sort(scores)[::-1][:10], rel=1e-5)


def test_bm25_needs_a_text():
    pytest.importorskip("bm25s")
    with pytest.raises(InputError, match="none of the items has a text"):
        bm25_lists([None, " "], ["a"], [0])


def test_nearest_items_are_exact_for_every_pair(rng):
    queries, items = rng.normal(size=(7, 5)), rng.normal(size=(90, 5))
    pairs = np.array([3, 3, 0, 6])
    found = nearest_lists(queries, items, pairs, k=8)
    cosine = (queries @ items.T) / np.linalg.norm(items, axis=1)
    assert np.array_equal(found, np.argsort(-cosine, axis=1)[pairs][:, :8])
    assert nearest_lists(queries, items[:3], pairs, k=5)[:, 3:].tolist() == [[-1, -1]] * 4
    with pytest.raises(InputError, match="there is no query 7"):
        nearest_lists(queries, items, [7])
    with pytest.raises(InputError, match="5 dimensions and items 4"):
        nearest_lists(queries, items[:, :4], [0])


def test_counting_takes_what_the_query_clicked_then_what_is_popular():
    clicked = Pairs(np.array([1, 1, 1, 4]), np.array([5, 2, 3, 0]), np.array([1.0, 7.0, 1.0, 2.0]))
    popularity = [9, 8, 0, 4, 10, 3]
    found = counted_lists(clicked, [1, 0, 4, 1], popularity, k=5)
    assert found.tolist() == [[2, 3, 5, 4, 0], [4, 0, 1, 3, 5], [0, 4, 1, 3, 5], [2, 3, 5, 4, 0]]
    assert counted_lists(clicked, [1], popularity, k=8)[0].tolist() == [2, 3, 5, 4, 0, 1, -1, -1]


def test_the_best_of_many_scores_breaks_ties_by_index():
    scores = np.array([[1, 5, 5, 0, 5, 2], [3, 3, 3, 3, 3, 3], [0, -np.inf, 1, -np.inf, -np.inf, -np.inf]])
    assert top_rows(scores, 2).tolist() == [[1, 2], [0, 1], [2, 0]]
    assert top_rows(scores, 4)[2].tolist() == [2, 0, -1, -1]
    assert top_rows(scores, 9)[0].tolist() == [1, 2, 4, 5, 0, 3]
    assert top_rows(scores, 0).shape == (3, 0)
