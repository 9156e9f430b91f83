"""What is known of a user at an event, against loops in plain Python."""

from __future__ import annotations

import math

import numpy as np
import pytest

pytest.importorskip("torch", reason="the search model needs torch")

from sidkit.search.bart.packing import Ragged
from sidkit.search.training.context import (
    Past,
    RecentQueries,
    ShortHistory,
    UserSids,
    by_count,
    past_of,
    weighted_codes,
)
from toy_corpus import sequences


@pytest.fixture
def log(rng):
    """Events and clicks of seven users and nobody, many at the same time, some of unknown items."""
    n, m = 120, 300
    events = [(int(rng.integers(-1, 7)), int(rng.integers(0, 25))) for _ in range(n)]
    clicks = [(int(rng.integers(-1, 7)), int(rng.integers(0, 25)), int(rng.integers(-1, 40))) for _ in range(m)]
    return events, clicks


def columns(rows):
    return [np.array(column) for column in zip(*rows, strict=True)]


def before(event, clicks):
    """The known values of the same user strictly before the event, oldest first, of equal times in their order."""
    user, time = event
    seen = [(when, i, value) for i, (who, when, value) in enumerate(clicks) if who == user and when < time]
    return [] if user < 0 else [value for _, _, value in sorted(seen) if value >= 0]


def test_the_past_of_an_event_is_what_its_user_did_strictly_before(log):
    events, clicks = log
    past = past_of(*columns(events), *columns(clicks))
    for i, event in enumerate(events):
        assert past.values[past.first[i] : past.last[i]].tolist() == before(event, clicks)


def test_nothing_of_the_event_or_after_it_changes_its_past(log):
    """Clicks at or after an event are replaced by others: what is known at the event stays the same."""
    events, clicks = log
    full = past_of(*columns(events), *columns(clicks))
    for i, event in enumerate(events):
        cut = [(who, when, value if when < event[1] else 39 - value) for who, when, value in clicks]
        only = past_of(*columns([event]), *columns(cut))
        rows = np.array([0])
        assert only.latest(rows, 50)[0].tolist() == full.latest(np.array([i]), 50)[0].tolist()


def test_the_latest_values_end_at_the_event(log):
    events, clicks = log
    past = past_of(*columns(events), *columns(clicks))
    for count in (0, 1, 5, 50):
        latest, number = past.latest(np.arange(len(events)), count)
        for i, event in enumerate(events):
            expected = before(event, clicks)[-count:] if count else []
            assert latest[i].tolist() == [-1] * (count - len(expected)) + expected
            assert number[i] == len(expected)


def test_events_of_a_shop_without_clicks_have_no_past():
    nothing = np.array([], int)
    past = past_of(np.array([3, -1]), np.array([1, 2]), nothing, nothing, nothing)
    latest, number = past.latest(np.array([0, 1]), 2)
    assert latest.tolist() == [[-1, -1], [-1, -1]]
    assert number.tolist() == [0, 0]


def test_the_short_history_is_the_sids_of_at_most_five_items(log):
    events, clicks = log
    sids = np.arange(40 * 3).reshape(40, 3).astype(np.int32)
    history = ShortHistory(past_of(*columns(events), *columns(clicks)), sids)
    rows = np.array([*range(len(events)), 0])
    for i, tokens in zip(rows, sequences(history.take(rows)), strict=True):
        assert tokens == [token for item in before(events[i], clicks)[-5:] for token in sids[item]]
        assert len(tokens) <= 15


def test_recent_queries_are_the_latest_three_with_a_separator_between_them(log, rng):
    events, typed = log
    texts = [rng.integers(5, 99, rng.integers(1, 4)).tolist() for _ in range(40)]
    past = past_of(*columns(events), *columns(typed))
    for count in (0, 1, 3):
        recent = RecentQueries(past, Ragged.of(texts), 2, count).take(np.arange(len(events)))
        for i, tokens in enumerate(sequences(recent)):
            latest = before(events[i], typed)[-count:] if count else []
            expected = [token for query in latest for token in [2, *texts[query]]]
            assert tokens == expected[1:]


def weighted(codes, items):
    """SPEC 8.1 in plain Python: the most recent item is the last and has the largest weight."""
    weights = [math.exp(math.sqrt(i)) for i in range(1, len(items) + 1)]
    total = math.fsum(weights)
    return [
        math.ceil(math.fsum(w / total * int(codes[item][level]) for w, item in zip(weights, items, strict=True)) - 1e-9)
        for level in range(len(codes[0]))
    ]


@pytest.mark.parametrize("sizes", [(1024, 512, 128), (1024, 512, 128, 64, 64)])
def test_a_user_is_a_weighted_sid_of_recent_items_and_one_of_a_longer_history(log, rng, sizes):
    events, clicks = log
    codes = np.stack([rng.integers(0, size, 40) for size in sizes], 1).astype(np.int32)
    offsets = (500 + np.cumsum([0, *sizes[:-1]])).astype(np.int32)
    users = UserSids(past_of(*columns(events), *columns(clicks)), codes, offsets, short=5, long=8)
    for i, tokens in enumerate(sequences(users.take(np.arange(len(events))))):
        items = before(events[i], clicks)
        expected = [weighted(codes, items[-count:]) for count in (5, 8)] if items else []
        assert tokens == [int(code + start) for sid in expected for code, start in zip(sid, offsets, strict=True)]
        assert len(tokens) in (0, 2 * len(sizes))


def test_the_weights_of_a_user_by_hand():
    """e^1 : e^1.414 = 0.196 : 0.297 with two items -> 0.398 and 0.602; ceil(0.398 x 10 + 0.602 x 0) = 4."""
    codes = np.array([[10, 0], [0, 10], [7, 7]], np.int32)
    assert weighted_codes(codes, np.array([[-1, 0, 1], [-1, 1, 0], [2, 2, 2], [-1, -1, 2]])).tolist() == [
        [4, 7], [7, 4], [7, 7], [7, 7],
    ]  # fmt: skip


def test_a_user_of_equal_items_has_their_sid():
    """A weighted mean of equal codes is that code, whatever rounding makes of the weights."""
    codes = np.arange(1024, dtype=np.int32)[:, None]
    for count in (1, 2, 3, 7, 50):
        items = np.repeat(np.arange(1024)[:, None], count, 1)
        assert weighted_codes(codes, items)[:, 0].tolist() == list(range(1024))


def test_unknown_items_in_a_given_past_count_as_none():
    """An answer's history comes from outside: ids that are not in the catalogue are -1."""
    past = Past(np.array([-1, 1, -1, -1]), np.array([0, 2]), np.array([3, 4]))
    codes = np.array([[3], [2]], np.int32)
    rows = np.array([0, 1])
    assert sequences(ShortHistory(past, codes).take(rows)) == [[2], []]
    assert sequences(UserSids(past, codes, np.array([10], np.int32)).take(rows)) == [[12, 12], []]
    assert sequences(RecentQueries(past, Ragged.of([[5], [6]]), 2).take(rows)) == [[6], []]


def test_items_by_count_end_with_the_most_frequent_and_of_equals_with_the_latest():
    items = np.array([[-1, 4, 2, 4, 3], [1, 1, 2, 2, 5], [-1, -1, -1, -1, -1], [7, 7, 7, 7, 7], [3, 2, 1, 2, 3]])
    assert by_count(items).tolist() == [
        [-1, -1, 2, 3, 4], [-1, -1, 5, 1, 2], [-1] * 5, [-1, -1, -1, -1, 7], [-1, -1, 1, 2, 3],
    ]  # fmt: skip


def test_a_user_without_clicks_is_the_items_that_others_clicked_for_the_query(log, rng):
    events, clicks = log
    typed = [(int(rng.integers(0, 3)), when) for _, when in events]  # the query in place of the user
    given = [(int(rng.integers(0, 3)), when, item) for _, when, item in clicks]
    codes = rng.integers(0, 64, (40, 3)).astype(np.int32)
    own, others = past_of(*columns(events), *columns(clicks)), past_of(*columns(typed), *columns(given))
    users = UserSids(own, codes, np.zeros(3, np.int32), short=2, long=6, others=others)
    cold = 0
    for i, tokens in enumerate(sequences(users.take(np.arange(len(events))))):
        items = before(events[i], clicks)
        if not items:
            recent = before(typed[i], given)
            last = {item: number for number, item in enumerate(recent)}
            items = sorted(last, key=lambda item: (recent.count(item), last[item]))
            cold += bool(items)
        expected = [weighted(codes, items[-count:]) for count in (2, 6)] if items else []
        assert tokens == [code for sid in expected for code in sid]
    assert cold > 5


def test_a_user_without_clicks_takes_what_others_clicked_most_for_the_query():
    codes, offsets = np.array([[0, 3], [2, 1], [3, 0]]), np.array([10, 20])
    clicks = Past(np.zeros(0, np.int64), np.zeros(2, np.int64), np.zeros(2, np.int64))
    others = Past(np.array([1, 2, 1, 0]), np.array([0, 0]), np.array([4, 0]))  # of the second query nothing is known
    users = UserSids(clicks, codes, offsets, short=1, long=3, others=others)
    taken = users.take(np.arange(2))
    mean = weighted_codes(codes, np.array([[2, 0, 1]]))[0]  # item 1 twice, then the latest of the others
    assert taken.tokens.tolist() == [12, 21, *(mean + offsets).tolist()]
    assert taken.starts.tolist() == [0, 4, 4]
    assert by_count(np.array([[-1, 1, 2, 1, 0]])).tolist() == [[-1, -1, 2, 0, 1]]
