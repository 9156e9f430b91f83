"""Training pairs of a log, worked out by hand."""

import numpy as np
import pyarrow as pa
import pytest

from sidkit.errors import InputError, SpecError
from sidkit.search.align.pairs import PairOptions, clicks_of, pairs_of

ITEMS = pa.array(["a", "b", "c", "d"])
QUERIES = ["red shoes", "blue shoes", "hat"]


def training_pairs(log, items, queries, options=None):
    """The pairs of the training part of a log."""
    options = options or PairOptions()
    return pairs_of(clicks_of(log, items, queries, options.order_weight), (len(queries), len(items)), options)


def log_of(*rows, split=None):
    """Rows of (user, session, query, clicked, ordered)."""
    user, session, query, clicked, ordered = zip(*rows, strict=True)
    lists = pa.list_(pa.string())
    columns = {"user": user, "session": session, "query": query, "clicked": pa.array(clicked, lists)}
    columns |= {"ordered": pa.array(ordered, lists), "split": split or ["train"] * len(rows)}
    return pa.table(columns)


def listed(pairs):
    return [(int(a), int(b), round(float(w), 4)) for a, b, w in zip(*pairs, strict=True)]


LOG = log_of(
    ("u", 1, "red  shoes ", ["a", "b"], ["a"]),
    ("u", 1, "hat", ["d"], None),
    ("v", 1, "blue shoes", ["b"], []),
    ("v", 2, "unknown", ["a"], []),
    ("w", 3, "red shoes", ["a", "unknown"], []),
    ("w", 4, "hat", ["c"], ["c"]),
    split=["train"] * 5 + ["test"],
)


def test_clicks_and_orders_of_a_query_add_up_and_the_test_part_is_not_read():
    found = training_pairs(LOG, ITEMS, QUERIES)
    assert listed(found.query_item) == [(0, 0, 4.0), (0, 1, 1.0), (1, 1, 1.0), (2, 3, 1.0)]


def test_queries_that_share_clicked_items_are_pairs_weighted_by_cosine():
    found = training_pairs(LOG, ITEMS, QUERIES)
    assert listed(found.query_query) == [(0, 1, round(1 / np.sqrt(17), 4))]


def test_items_of_one_session_or_one_query_are_pairs():
    # rows: session (u, 1) = {a, b, d}, (v, 1) = {b}, (w, 3) = {a}; queries red = 4a + b, blue = b, hat = d.
    # "unknown" is no query of the shop, so the click of (v, 2) does not count.
    a, b, d = np.array([1, 0, 1, 4, 0, 0]), np.array([1, 1, 0, 1, 1, 0]), np.array([1, 0, 0, 0, 0, 1])
    cosine = lambda x, y: round(float(x @ y / np.sqrt((x @ x) * (y @ y))), 4)  # noqa: E731
    found = training_pairs(LOG, ITEMS, QUERIES)
    assert listed(found.item_item) == [(0, 1, cosine(a, b)), (0, 3, cosine(a, d)), (1, 3, cosine(b, d))]


def test_one_session_name_of_two_users_is_two_sessions():
    log = log_of(("u", 7, "hat", ["a"], []), ("v", 7, "red shoes", ["b"], []))
    assert len(training_pairs(log, ITEMS, QUERIES).item_item.left) == 0
    log = log_of(("u", 7, "hat", ["a"], []), ("u", 7, "red shoes", ["b"], []))
    assert listed(training_pairs(log, ITEMS, QUERIES).item_item) == [(0, 1, 0.5)]


def test_rows_without_a_session_make_no_session_pairs():
    log = log_of(("u", None, "hat", ["a"], []), ("u", None, "red shoes", ["b"], []))
    assert len(training_pairs(log, ITEMS, QUERIES).item_item.left) == 0


def test_a_null_query_matches_nothing():
    log = log_of(("u", 1, None, ["a"], []), ("u", 1, "hat", ["b"], []))
    assert clicks_of(log, ITEMS, [*QUERIES, None]).query.tolist() == [2]


def test_counts_are_bounded_by_the_options():
    every = ["a", "b", "c", "d"]
    log = log_of(*(("u", i, query, every, every[:1]) for i, query in enumerate(QUERIES)))
    found = training_pairs(log, ITEMS, QUERIES, PairOptions(per_query=2))
    assert [(a, b) for a, b, _ in listed(found.query_item)] == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]
    found = training_pairs(log, ITEMS, QUERIES, PairOptions(neighbours=1))
    assert len(found.query_query.left) == 2  # 0 and 1 choose each other, or 0; 2 chooses 0
    assert len(training_pairs(log, ITEMS, QUERIES, PairOptions(most=3)).query_item.left) == 3
    found = training_pairs(log, ITEMS, QUERIES, PairOptions(per_item=1))
    assert len(found.query_query.left) == 0


def test_the_same_log_gives_the_same_pairs(rng):
    ids = pa.array([f"i{i}" for i in range(50)])
    queries = [f"q{i}" for i in range(30)]
    rows = [(f"u{i % 9}", i // 3, queries[rng.integers(30)], [f"i{j}" for j in rng.integers(0, 50, 4)], [])
            for i in range(300)]  # fmt: skip
    first, second = (training_pairs(log_of(*rows), ids, queries) for _ in range(2))
    for one, other in zip(first, second, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
        assert (np.diff(one.left) >= 0).all()
        assert (one.weight > 0).all()
    assert (first.query_query.left < first.query_query.right).all()


def test_wrong_logs_and_options_are_named():
    with pytest.raises(InputError, match="the log has no column 'clicked'"):
        training_pairs(pa.table({"query": ["hat"]}), ITEMS, QUERIES)
    with pytest.raises(SpecError, match="per_query must be at least 1, not 0"):
        PairOptions(per_query=0)
