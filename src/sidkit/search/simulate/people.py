"""The users of a simulated shop: profiles, tastes, and how much they search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from .draws import stream, uniform
from .world import AGES, CITIES, GENDERS, STYLE

__all__ = ["People", "draw_people", "user_names", "users_table"]


@dataclass(frozen=True, eq=False)
class People:
    """U users. style: (U, 8) of length one; budget: (U,) the price position that they like."""

    gender: NDArray[np.int8]
    age: NDArray[np.int8]
    city: NDArray[np.int8]
    style: NDArray[np.float32]
    budget: NDArray[np.float32]
    capitals: NDArray[np.bool_]  # whether they type brands with a capital
    activity: NDArray[np.float64]  # (U,) cumulative share of sessions

    def __len__(self) -> int:
        return len(self.gender)


def draw_people(users: int, seed: int) -> People:
    rng = stream(seed, "users")
    gender = (rng.random(users) < 0.45).astype(np.int8)
    age = rng.choice(len(AGES), size=users, p=(0.1, 0.16, 0.24, 0.26, 0.14, 0.1)).astype(np.int8)
    city = (len(CITIES) * rng.random(users) ** 1.6).astype(np.int8)
    parts = [rng.normal(size=(len(values), STYLE)) for values in (GENDERS, AGES, CITIES)]
    style = parts[0][gender] + 0.7 * parts[1][age] + 0.4 * parts[2][city] + 1.2 * rng.normal(size=(users, STYLE))
    style /= np.linalg.norm(style, axis=1, keepdims=True)
    budget = 0.25 * (age - 2.5) + 0.2 * rng.normal(size=len(CITIES))[city] + 0.6 * rng.normal(size=users)
    weight = 1.0 / np.arange(1, users + 1) ** 0.5
    activity = np.cumsum(weight[stream(seed, "activity").permutation(users)])
    capitals = uniform(seed, "capitals", np.arange(users)) < 0.2
    return People(
        gender, age, city, style.astype(np.float32), budget.astype(np.float32), capitals, activity / activity[-1]
    )


def user_names(rows: NDArray[np.int64]) -> Any:
    return pa.array([f"U{row + 1:07d}" for row in rows.tolist()], pa.string())


def users_table(people: People) -> Any:
    profile = (("gender", GENDERS, people.gender), ("age_bucket", AGES, people.age), ("city", CITIES, people.city))
    columns = {name: pa.array(values).take(pa.array(index)) for name, values, index in profile}
    return pa.table({"user": user_names(np.arange(len(people))), **columns})
