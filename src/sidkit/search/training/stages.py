"""The three training stages as examples: content alignment, co-occurrence, personalisation (OneSearch).

content     query <-> its SID, title <-> its SID, texts and SIDs -> categories; every query and item once
pairs       query <-> title and query SID <-> item SID of the pairs that users clicked or ordered
personal    what a user typed, with what is known of the user -> the SID of the item clicked or ordered
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import SpecError
from ..bart.packing import Ragged
from ..templates import FIELDS, STAGES, TemplateTask
from .context import LongHistory, Past, RecentQueries, ShortHistory, UserSids
from .examples import Filled, TaskExamples
from .plan import SearchPlan
from .tokens import Tokens

__all__ = ["Corpus", "Events", "event_inputs", "tables_of", "training_stages"]

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Events:
    """Queries typed by users.

    query     (n,) row of the query
    item      (n,) row of the item clicked or ordered afterwards, -1 where it is not known
    user      (n,) row of the user, or -1
    clicks    what the user clicked before
    queries   what the user asked before
    others    what anybody clicked before for the same query
    """

    query: Integers
    item: Integers
    user: Integers
    clicks: Past
    queries: Past
    others: Past

    def __len__(self) -> int:
        return len(self.query)


@dataclass(frozen=True, eq=False)
class Corpus:
    """The training data of a model, as arrays; queries and items have SIDs of the same codebooks."""

    queries: Sequence[str]
    query_codes: NDArray[np.int32]  # (queries, levels), -1 for a query without a SID
    titles: Sequence[str | None]
    item_codes: NDArray[np.int32]  # (items, levels)
    categories: Sequence[str | None]  # of items, as a path
    profiles: Sequence[str]  # of users
    training_queries: Integers  # rows of the queries that may be trained on
    pairs: tuple[Integers, Integers]  # query rows and item rows
    events: Events
    item_vectors: NDArray[np.float32] | None = None  # (items, v), of length one; for plans with history_vectors


def tables_of(
    corpus: Corpus, events: Events, tokens: Tokens, plan: SearchPlan, fields: Collection[str] = FIELDS
) -> dict[str, Any]:
    """For each of these fields what gives its tokens by row: of the query, the item, the user or the event."""
    text = plan.longest // 2
    offsets = tokens.sids(np.zeros((1, len(tokens.sizes)), np.int32))[0]

    @cache
    def queries() -> Ragged:
        return tokens.texts(corpus.queries, text)

    @cache
    def categories() -> Ragged:
        return tokens.texts(corpus.categories, text)

    def query_sids() -> Ragged:
        known = corpus.query_codes[:, 0] >= 0
        return _rows(tokens.sids(np.where(known[:, None], corpus.query_codes, 0)), known)

    def user_sids() -> UserSids:
        others = events.others if plan.cold_users == "query" else None
        return UserSids(events.clicks, corpus.item_codes, offsets, plan.history, plan.long_history, others)

    made: dict[str, Callable[[], Any]] = {
        "query": queries,
        "query_sid": query_sids,
        "title": lambda: tokens.texts(corpus.titles, text),
        "item_sid": lambda: _rows(tokens.sids(corpus.item_codes)),
        "category": categories,
        "query_category": categories,
        "profile": lambda: tokens.texts([*corpus.profiles, ""], text),  # the last one: nobody's
        "history": lambda: ShortHistory(events.clicks, tokens.sids(corpus.item_codes), plan.history),
        "recent_queries": lambda: RecentQueries(events.queries, queries(), tokens.eos, plan.recent_queries),
        "user_sid": user_sids,
    }
    return {name: make() for name, make in made.items() if name in fields}


def training_stages(
    corpus: Corpus, templates: Mapping[str, Sequence[TemplateTask]], tokens: Tokens, plan: SearchPlan
) -> dict[str, Filled]:
    """The examples of every stage; those that lack what their task is about are left out."""
    fields = set().union(*(task.fields for tasks in templates.values() for task in tasks))
    tables = tables_of(corpus, corpus.events, tokens, plan, fields)
    rows = {
        "content": lambda task: content_rows(corpus, task),
        "pairs": lambda task: _pair_rows(*corpus.pairs),
        "personal": lambda task: event_rows(corpus.events),
    }
    stages = {}
    for stage in STAGES:
        tasks = [TaskExamples(task, _usable(rows[stage](task), task, tables, stage)) for task in templates[stage]]
        histories = _histories(corpus.events, plan, corpus.item_vectors) if stage == "personal" else None
        stages[stage] = Filled([one for one in tasks if len(one)], tables, tokens, plan.longest, histories)
    return stages


def event_inputs(
    corpus: Corpus,
    events: Events,
    task: TemplateTask,
    tokens: Tokens,
    plan: SearchPlan,
    item_vectors: NDArray[np.float32] | None = None,
) -> Filled:
    """The inputs of a personal task for events whose item is not known; item_vectors: those of the training."""
    rows = event_rows(events)
    examples = TaskExamples(task, {name: rows[name] for name in (*sorted(task.inputs), "event")})
    tables = tables_of(corpus, events, tokens, plan, task.inputs)
    return Filled([examples], tables, tokens, plan.longest, _histories(events, plan, item_vectors))


def event_rows(events: Events) -> dict[str, Integers]:
    """Which rows fill the fields of an event."""
    index = np.arange(len(events))
    return {
        "query": events.query,
        "query_sid": events.query,
        "item_sid": events.item,
        "title": events.item,
        "category": events.item,
        "profile": events.user,  # -1 is the last row: nobody
        "history": index,
        "recent_queries": index,
        "user_sid": index,
        "event": index,
    }


def content_rows(corpus: Corpus, task: TemplateTask) -> dict[str, Integers]:
    """Of a task about queries the queries, about items the items; a query has its most frequent item's category."""
    if "query_category" in task.fields:
        query, item = _first_item(*corpus.pairs)
        return {"query": query, "query_sid": query, "query_category": item}
    if task.fields & {"query", "query_sid"}:
        return {"query": corpus.training_queries, "query_sid": corpus.training_queries}
    items = np.arange(len(corpus.titles))
    return {"title": items, "item_sid": items, "category": items}


def _pair_rows(query: Integers, item: Integers) -> dict[str, Integers]:
    return {"query": query, "query_sid": query, "title": item, "item_sid": item, "category": item}


def _usable(
    rows: Mapping[str, Integers], task: TemplateTask, tables: Mapping[str, Any], stage: str
) -> dict[str, Integers]:
    """The rows of the task's fields, without examples that lack a text or SID which the task is about.

    What describes a user may be missing, and so may the SID of a query that is read with its text.
    """
    needed = {name: rows[name] for name in (*sorted(task.fields), "event") if name in rows}
    required = set(task.outputs) if stage == "personal" else set(task.fields)
    if "query" in task.inputs:
        required -= {"query_sid"} - task.outputs
    usable = np.ones(len(next(iter(needed.values()))), bool)
    for name in sorted(required):
        usable &= (needed[name] >= 0) & (np.diff(tables[name].starts)[needed[name]] > 0)
    return {name: index[usable] for name, index in needed.items()}


def _histories(events: Events, plan: SearchPlan, vectors: NDArray[np.float32] | None) -> tuple[LongHistory, int] | None:
    if not plan.history_vectors:
        return None
    if vectors is None:
        raise SpecError(f"history_vectors is {plan.history_vectors}, which needs the vectors of the items: give them")
    return LongHistory(events.clicks, vectors, plan.long_history), plan.history_vectors


def _first_item(query: Integers, item: Integers) -> tuple[Integers, Integers]:
    """Every query of the pairs once, with its most frequent known item; of equals the first by row."""
    query, item = query[item >= 0], item[item >= 0]
    if not len(query):
        return query, item
    pairs, counts = np.unique(np.stack([query, item], 1), axis=0, return_counts=True)
    order = np.lexsort((pairs[:, 1], -counts, pairs[:, 0]))
    first = order[np.unique(pairs[order, 0], return_index=True)[1]]
    return pairs[first, 0], pairs[first, 1]


def _rows(tokens: NDArray[np.int32], known: NDArray[np.bool_] | None = None) -> Ragged:
    """tokens: (n, levels) as sequences; those that are not known are empty."""
    there = np.ones(len(tokens), bool) if known is None else known
    return Ragged(tokens[there].ravel(), np.concatenate([[0], np.cumsum(there * tokens.shape[1])]))
