"""The examples of the three stages: which there are, and that none contains anything of the future."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tokenizers", reason="the search model needs tokenizers")
pytest.importorskip("torch", reason="the search model needs torch")

from sidkit.errors import SpecError
from sidkit.search.templates import FIELDS, TemplateTask, read_templates
from sidkit.search.training.context import past_of
from sidkit.search.training.plan import SearchPlan
from sidkit.search.training.stages import Events, tables_of, training_stages
from toy_corpus import CATEGORIES, ITEM_CODES, QUERIES, QUERY_CODES, SIZES, corpus, sequences, sid, tokens


def texts_of(shop, stage, **changes):
    """The examples of a stage as (input, output) texts."""
    filled = training_stages(shop, read_templates("en"), tokens(), SearchPlan(**changes))[stage]
    examples = filled.take(np.arange(len(filled)))
    texts = ([tokens().text(one) for one in sequences(rows)] for rows in (examples.inputs, examples.outputs))
    return list(zip(*texts, strict=True))


def test_a_stage_has_as_many_examples_as_its_tasks_have_rows():
    """7 tasks over 3 queries with text, 3 items with title, 2 with title and category, 3 with category; 2 queries
    whose most clicked item has one. 6 pairs with text and title, 8 with SIDs, both ways. 8 events with a known item."""
    stages = training_stages(corpus(), read_templates("en"), tokens(), SearchPlan())
    assert {name: len(stage) for name, stage in stages.items()} == {
        "content": 3 + 3 + 3 + 3 + 2 + 3 + 2,
        "pairs": 6 + 6 + 8 + 8,
        "personal": 8,
    }


def test_queries_of_the_test_part_are_not_learned():
    shop = corpus(training_queries=np.array([1]))
    queries = [text for text, _ in texts_of(shop, "content") if text.startswith("query: ")]
    assert queries == ["query: lamp"]


def test_the_category_of_a_query_is_that_of_its_most_frequent_item():
    pairs = np.array([[0, 0, 0, 1, 1, 3, 3], [2, 0, 2, 2, 1, 3, -1]])
    texts = texts_of(corpus(pairs=tuple(pairs)), "content")
    categories = {text: path for text, path in texts if text.startswith("category of query")}
    assert categories == {
        "category of query: red mug": CATEGORIES[2],  # twice
        "category of query: lamp": CATEGORIES[1],  # once each: the first by row
    }  # and that of "mug" has no category


def test_queries_without_a_sid_are_left_out_where_the_sid_matters():
    codes = np.array(QUERY_CODES)
    codes[0] = -1  # "red mug"
    shop = corpus(query_codes=codes)
    content = texts_of(shop, "content")
    assert not [text for text in content if text[0] in ("query: red mug", "query of")]
    assert ("category of query: red mug", "kitchen/mugs") in content
    pairs = texts_of(shop, "pairs")
    assert ("item for query: red mug", "red mug") in pairs
    assert len([text for text in pairs if text[0].startswith("item for<")]) == 7
    assert all(output for _, output in pairs)
    personal = texts_of(shop, "personal")
    assert personal[0][0] == "user: female 30 queries: items: query: red mug"
    assert len(personal) == 8


def test_a_shop_without_pairs_has_no_examples_of_them():
    none = np.array([], int)
    stages = training_stages(corpus(pairs=(none, none)), read_templates("en"), tokens(), SearchPlan())
    assert [len(stage) for stage in stages.values()] == [17, 0, 8]


def test_the_windows_are_options():
    personal = texts_of(corpus(), "personal", history=1, recent_queries=0, long_history=1, cold_users="none")
    last = sid(ITEM_CODES[3])
    assert personal[3][0] == f"user:{last}{last} female 30 queries: items:{last} query: lamp{sid(QUERY_CODES[1])}"
    assert personal[4][0] == f"user: male 41 queries: items: query: mug{sid(QUERY_CODES[3])}"
    nothing = texts_of(corpus(), "personal", history=0, recent_queries=0, long_history=0)
    assert nothing[3][0] == f"user: female 30 queries: items: query: lamp{sid(QUERY_CODES[1])}"


def test_texts_take_at_most_half_of_an_input_and_keep_their_beginning():
    long = "red mug " * 50
    table = tables_of(corpus(queries=[long, *QUERIES[1:]]), corpus().events, tokens(), SearchPlan(longest=32))
    (whole,) = sequences(tokens().texts([long], 999))
    assert sequences(table["query"])[0] == whole[:16]
    templates = read_templates("en")
    stages = training_stages(corpus(queries=[long] * 4), templates, tokens(), SearchPlan(longest=32))
    for stage in stages.values():
        examples = stage.take(np.arange(len(stage)))
        assert np.diff(examples.inputs.starts).max() <= 32
        assert np.diff(examples.outputs.starts).max() <= 32


def test_only_the_tables_that_are_needed_are_made():
    assert set(tables_of(corpus(), corpus().events, tokens(), SearchPlan())) == set(FIELDS)
    few = ("query", "history")
    assert set(tables_of(corpus(), corpus().events, tokens(), SearchPlan(), few)) == set(few)


def random_log(rng, n=150):
    """user, time, query, item of searches with one click each, many of them at the same time."""
    return np.stack([rng.integers(-1, 2, n), rng.integers(0, 40, n), rng.integers(0, 4, n), rng.integers(-1, 4, n)])


def events_of(log, at):
    """The events of one log, given what another log contains of before."""
    user, time, query, item = at
    return Events(
        query, item, user,
        past_of(user, time, log[0], log[1], log[3]),
        past_of(user, time, log[0], log[1], log[2]),
        past_of(query, time, log[2], log[1], log[3]),
    )  # fmt: skip


def inputs_of(log, at):
    shop = corpus(events=events_of(log, at))
    stage = training_stages(shop, read_templates("en"), tokens(), SearchPlan())["personal"]
    return sequences(stage.take(np.arange(len(stage))).inputs)


def test_an_event_sees_nothing_of_its_own_time_or_later(rng):
    """Whatever happened from the time of an event on is replaced: its input stays the same. And what happened before
    matters: otherwise this test would show nothing."""
    log = random_log(rng)
    at = log[:, (log[3] >= 0)]
    full = inputs_of(log, at)
    for i in rng.choice(at.shape[1], 25, replace=False):
        other = random_log(np.random.default_rng(i))
        later = log[1] >= at[1, i]
        changed = np.concatenate([log[:, ~later], other[:, other[1] >= at[1, i]]], 1)
        assert inputs_of(changed, at[:, [i]]) == [full[i]]
    emptied = inputs_of(log[:, :0], at)
    assert sum(one != two for one, two in zip(full, emptied, strict=True)) > len(full) / 2


def test_an_input_does_not_contain_the_item_to_find(rng):
    """The answer's tokens are in the input only if the user clicked the item before."""
    log = random_log(rng)
    at = log[:, (log[3] >= 0)]
    levels = 3
    shop = corpus(events=events_of(log, at), query_codes=np.full((4, levels), -1))
    plan = SearchPlan(long_history=0, cold_users="none")
    task = TemplateTask("search", (("field", "query"), ("field", "history")), (("field", "item_sid"),))
    stage = training_stages(shop, {"content": (), "pairs": (), "personal": (task,)}, tokens(), plan)["personal"]
    examples = stage.take(np.arange(len(stage)))
    for i, (input, output) in enumerate(zip(sequences(examples.inputs), sequences(examples.outputs), strict=True)):
        user, time, _, item = at[:, i]
        order = np.argsort(log[1], kind="stable")
        earlier = [log[3, j] for j in order if log[0, j] == user >= 0 and log[1, j] < time]
        answer = output[:levels]
        shown = any(input[k : k + levels] == answer for k in range(len(input)))
        assert shown == (item in [number for number in earlier if number >= 0][-5:])


def test_five_levels_have_five_tokens_and_two_times_five_for_a_user():
    sizes = (*SIZES, 2, 2)
    five = [(*codes, 1, 0) for codes in ITEM_CODES]
    shop = corpus(item_codes=np.array(five), query_codes=np.array([(*codes, 0, 1) for codes in QUERY_CODES]))
    plan = SearchPlan()
    stage = training_stages(shop, read_templates("en"), tokens(sizes), plan)["personal"]
    examples = stage.take(np.array([1]))
    (text,) = (tokens(sizes).text(one) for one in sequences(examples.inputs))
    first = sid(five[0])
    assert (
        text == f"user:{first}{first} female 30 queries: red mug items:{first} query: mug{sid((*QUERY_CODES[3], 0, 1))}"
    )
    assert len(sequences(examples.outputs)[0]) == 6


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"batch": 0}, "batch must be at least 1, not 0"),
        ({"longest": 3}, "longest must be at least 4, not 3"),
        ({"history": -1}, "history must not be negative, not -1"),
        ({"warmup": -2}, "warmup must not be negative, not -2"),
        ({"epochs": (1, 2)}, r"epochs are three numbers from 0, one for each stage, and not all 0; not \(1, 2\)"),
        ({"epochs": (0, 0, 0)}, r"and not all 0; not \(0, 0, 0\)"),
        ({"learning_rate": 0.0}, r"the learning rate must be positive, not 0\.0"),
        ({"decay": "cosine"}, "decay must be none or linear, not 'cosine'"),
        ({"longest": 2000}, "inputs of 2000 tokens do not fit 1024 positions"),
    ],
)
def test_plans_that_make_no_sense_are_refused(wrong, message):
    with pytest.raises(SpecError, match=message):
        SearchPlan(**wrong)
