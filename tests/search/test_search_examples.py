"""Templates filled with tokens, and what is shortened where an input is too long."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tokenizers", reason="the search model needs tokenizers")
pytest.importorskip("torch", reason="the search model needs torch")

from sidkit.search.bart.packing import Ragged
from sidkit.search.templates import TemplateTask
from sidkit.search.training.examples import Filled, TaskExamples, join
from toy_corpus import sequences, tokens


def parts(text):
    """'a {b}' as the parts of a template."""
    pieces = text.replace("}", "{").split("{")
    return tuple(("field" if i % 2 else "text", piece) for i, piece in enumerate(pieces) if piece)


def task(input, output="{item_sid}"):
    return TemplateTask("task", parts(input), parts(output))


def words(*texts):
    return sequences(tokens().texts(texts, 999))


@pytest.fixture
def random_lists(rng):
    def make(n, longest=6):
        return [rng.integers(5, 200, rng.integers(0, longest + 1)).tolist() for _ in range(n)]

    return make


def test_join_puts_the_parts_of_each_row_after_each_other(random_lists):
    one, two, three = (random_lists(9) for _ in range(3))
    joined = join([Ragged.of(one), Ragged.of(two), Ragged.of(three)])
    assert sequences(joined) == [a + b + c for a, b, c in zip(one, two, three, strict=True)]


def test_sequences_are_taken_in_any_order_and_the_last_as_minus_one(random_lists):
    lists = random_lists(5)
    assert sequences(Ragged.of(lists).take(np.array([3, 0, -1, 3]))) == [lists[i] for i in (3, 0, -1, 3)]
    assert sequences(Ragged.of(lists).take(np.array([], int))) == []


def test_examples_of_several_tasks_come_in_the_order_of_their_indices(rng, random_lists):
    tables = {name: random_lists(7) for name in ("query", "title", "item_sid")}
    tasks = [
        TaskExamples(task("q: {query}"), {"query": np.arange(5), "item_sid": rng.integers(0, 7, 5)}),
        TaskExamples(task("{title}{query} !"), {name: rng.integers(0, 7, 3) for name in tables}),
        TaskExamples(task("t: {title} t:"), {"title": rng.integers(0, 7, 4), "item_sid": rng.integers(0, 7, 4)}),
    ]
    filled = Filled(tasks, {name: Ragged.of(lists) for name, lists in tables.items()}, tokens())
    expected, (q, t, mark) = [], words("q:", "t:", "!")
    for one, before, names, after in zip(
        tasks, (q, [], t), (["query"], ["title", "query"], ["title"]), ([], mark, t), strict=True
    ):
        for i in range(len(one)):
            inside = [token for name in names for token in tables[name][one.rows[name][i]]]
            expected.append(([0, *before, *inside, *after, 2], [*tables["item_sid"][one.rows["item_sid"][i]], 2]))
    assert len(filled) == len(expected) == 12
    order = rng.permutation(12)
    examples = filled.take(order)
    assert list(zip(sequences(examples.inputs), sequences(examples.outputs), strict=True)) == [
        expected[i] for i in order
    ]
    assert len(filled.take(np.array([], int))) == 0


LONG = "user: {user_sid} {profile} queries: {recent_queries} items: {history} query: {query} {query_sid}"
FIELDS = {
    "user_sid": [300, 301, 302],
    "profile": [10, 11],
    "recent_queries": [20, 21, 22, 2, 23, 24],
    "history": [310, 311, 312, 313, 314, 315, 316, 317, 318],
    "query": [30, 31, 32, 33],
    "query_sid": [320, 321, 322],
    "item_sid": [330, 331, 332],
}


def filled_to(longest, template=LONG, **changes):
    fields = FIELDS | changes
    needed = {name: np.array([0]) for name in fields if f"{{{name}}}" in template + "{item_sid}"}
    one = TaskExamples(task(template), needed)
    examples = Filled([one], {name: Ragged.of([x]) for name, x in fields.items()}, tokens(), longest).take(
        np.array([0])
    )
    (input,), (output,) = sequences(examples.inputs), sequences(examples.outputs)
    assert output == [330, 331, 332, 2]
    assert len(input) <= longest
    return input


def expected_input(**changes):
    fields, (user, queries, items, query) = FIELDS | changes, words("user:", "queries:", "items:", "query:")
    return [
        0, *user, *fields["user_sid"], *fields["profile"], *queries, *fields["recent_queries"],
        *items, *fields["history"], *query, *fields["query"], *fields["query_sid"], 2,
    ]  # fmt: skip


def test_long_inputs_lose_old_queries_then_old_items_then_the_profile_and_the_end_of_the_query_last():
    whole = len(expected_input())
    shortened = {
        0: {},
        1: {"recent_queries": [21, 22, 2, 23, 24]},
        6: {"recent_queries": []},
        7: {"recent_queries": [], "history": [313, 314, 315, 316, 317, 318]},  # a whole SID, not one token of it
        10: {"recent_queries": [], "history": [316, 317, 318]},
        16: {"recent_queries": [], "history": [], "profile": [10]},
        19: {"recent_queries": [], "history": [], "profile": [], "query": [30, 31]},
    }
    for less, changes in shortened.items():
        assert filled_to(whole - less) == expected_input(**changes), less


def test_rows_are_shortened_each_by_its_own_length(random_lists):
    lists, longest = random_lists(30, 20), 12
    one = TaskExamples(task("q: {query}"), {"query": np.arange(30), "item_sid": np.zeros(30, int)})
    filled = Filled([one], {"query": Ragged.of(lists), "item_sid": Ragged.of([[330]])}, tokens(), longest)
    (q,) = words("q:")
    assert sequences(filled.take(np.arange(30)).inputs) == [[0, *q, *x[: longest - 2 - len(q)], 2] for x in lists]


def test_an_input_of_texts_and_sids_that_cannot_be_shortened_is_cut_before_its_end():
    assert filled_to(8, "{user_sid}{query_sid}{user_sid}") == [0, 300, 301, 302, 320, 321, 322, 2]


def test_long_outputs_are_cut_before_their_end():
    one = TaskExamples(task("{item_sid}", "{title}"), {"item_sid": np.array([0]), "title": np.array([0])})
    tables = {"item_sid": Ragged.of([[330]]), "title": Ragged.of([range(5, 50)])}
    examples = Filled([one], tables, tokens(), 10).take(np.array([0]))
    assert sequences(examples.outputs) == [[*range(5, 14), 2]]
