"""A simulated shop with a log, drawn from a seed: it needs no data, and a search model can learn from it.

draws.py      random numbers by purpose and index
items.py      products of the grammar, block by block
world.py      tastes, companions of categories, words of weak queries
people.py     users: profile, taste, budget, activity
sessions.py   who searches when, for which category, how precisely
queries.py    what is typed, misspellings included
engine.py     what is shown
behaviour.py  what is clicked and ordered
log.py        the records, block by block
make.py       simulate_shop: all of it as a shop
released.py   the same in the files that KuaiSearch is released as

Nothing of what decides clicks is written, except through titles, keywords and the log itself.
"""

from __future__ import annotations

from .make import ShopPlan, simulate_shop

__all__ = ["ShopPlan", "simulate_shop"]
