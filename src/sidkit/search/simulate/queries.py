"""The queries of users: words of the item they have in mind, fewer the weaker the intent, and sometimes misspelt."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..grammar.vocabulary import leaves
from .items import SLOTS, brand_names
from .people import People
from .sessions import INTENTS, SearchRecords
from .world import World

__all__ = ["Typed", "type_queries"]

# The slots of a query in the order of its words, and how often each form is taken.
PRECISE = {
    ("brand", "kind", "noun", "colour"): 5,
    ("brand", "noun", "colour", "size"): 4,
    ("brand", "kind", "noun", "size", "amount"): 4,
    ("brand", "material", "noun", "amount"): 3,
    ("brand", "trait", "kind", "noun"): 3,
    ("brand", "kind", "noun", "colour", "size"): 4,
    ("kind", "material", "noun", "colour", "size"): 3,
    ("brand", "kind", "noun", "who"): 3,
}
BROAD = {
    ("noun",): 8,
    ("kind", "noun"): 7,
    ("noun", "who"): 4,
    ("kind", "noun", "who"): 3,
    ("material", "noun"): 3,
    ("colour", "noun"): 3,
    ("trait", "noun"): 2,
    ("noun", "use"): 2,
    ("brand", "noun"): 3,
}
OTHER_NOUN = 0.35  # how often somebody calls a thing by another name than its title does
MISSPELT = 0.06
SHORTEST = 5  # letters of a word that is misspelt


@dataclass(frozen=True, eq=False)
class Typed:
    """n queries.

    slots: (n, 12) whether a word of that slot was typed; readable: those that are not misspelt; word: (n,) the weak
    word, or -1; noun: (n,) the position of the noun that was typed in the category's list.
    """

    texts: list[str]
    slots: NDArray[np.bool_]
    readable: NDArray[np.bool_]
    word: NDArray[np.int64]
    noun: NDArray[np.int8]


def type_queries(
    records: SearchRecords, target: NDArray[np.int8], people: People, world: World, rng: np.random.Generator
) -> Typed:
    """target: (n, 12) the words of the item that each user has in mind."""
    n = len(records)
    forms = [*PRECISE, *BROAD]
    weights = np.array([[*PRECISE.values(), *(0 for _ in BROAD)], [*(0 for _ in PRECISE), *BROAD.values()]], float)
    total = np.cumsum(weights / weights.sum(axis=1, keepdims=True), axis=1)
    precise = records.intent == INTENTS.index("precise")
    u = rng.random((n, 6))
    form = (total[np.where(precise, 0, 1)] < u[:, :1]).sum(axis=1)
    counts = np.array([len(leaf.slots["noun"]) for leaf in leaves()])[records.leaf]
    noun = np.where(u[:, 1] < OTHER_NOUN, (counts * u[:, 2]).astype(np.int8), target[:, SLOTS.index("noun")])
    word = np.full(n, -1)
    weak = records.intent == INTENTS.index("weak")
    for row in np.flatnonzero(weak).tolist():
        known = world.words_of_leaf[records.leaf[row]]
        word[row] = known[int(len(known) * u[row, 1] ** 1.5)]
    slots, readable = np.zeros((2, n, len(SLOTS)), bool)
    texts = []
    wrong, where = (u[:, 3] < MISSPELT).tolist(), u[:, 4:].tolist()
    values, typed_noun = target.tolist(), noun.tolist()
    for row, (number, kind, weak_word) in enumerate(
        zip(records.leaf.tolist(), form.tolist(), word.tolist(), strict=True)
    ):
        if weak_word >= 0:
            parts = [("", world.words[weak_word])]
        else:
            values[row][SLOTS.index("noun")] = typed_noun[row]
            parts = _words(forms[kind], number, values[row], bool(people.capitals[records.user[row]]))
        lost = _misspell(parts, *where[row]) if wrong[row] else ""
        for at in (SLOTS.index(slot) for slot, _ in parts if slot):
            slots[row, at], readable[row, at] = True, SLOTS[at] != lost
        texts.append(" ".join(text for _, text in parts))
    return Typed(texts, slots, readable, word, noun.astype(np.int8))


def _words(form: tuple[str, ...], number: int, values: list[int], capitals: bool) -> list[tuple[str, str]]:
    """(slot, words) of a query: always the noun, and what the item has a word for that is not there yet."""
    leaf, parts = leaves()[number], []
    used = set(leaf.slots["noun"][values[SLOTS.index("noun")]].lower().split())
    for slot in form:
        at = values[SLOTS.index(slot)]
        if at < 0:
            continue
        text = brand_names()[at] if slot == "brand" else leaf.slots[slot][at]
        text = text if slot == "brand" and capitals else text.lower()
        if slot == "noun" or used.isdisjoint(text.split()):
            parts.append((slot, f"for {text}" if slot == "use" else text))
            used.update(text.split())
    return parts


def _misspell(parts: list[tuple[str, str]], u: float, v: float) -> str:
    """Change a letter of one of the longer words, in place; the slot that can no longer be read."""
    long = [(i, text) for i, (_, text) in enumerate(parts) if len(text) >= SHORTEST and " " not in text]
    if not long:
        return ""
    at, text = long[int(u * len(long))]
    letter = 1 + int(v * (len(text) - 2))
    kind = int(v * 1000) % 3
    if kind == 0:
        text = text[:letter] + text[letter + 1 :]  # left out
    elif kind == 1:
        text = text[:letter] + text[letter + 1] + text[letter] + text[letter + 2 :]  # exchanged
    else:
        text = text[:letter] + text[letter] + text[letter:]  # twice
    slot = parts[at][0]
    parts[at] = (slot, text)
    return slot
