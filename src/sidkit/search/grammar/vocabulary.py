"""The words of the simulated shop, read from vocabulary.txt, which describes its own format."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

__all__ = ["HOUSE_BRANDS", "TEMPLATES", "Leaf", "leaves"]

# A part in brackets is left out when the product has nothing for its slot.
TEMPLATES = (
    "{brand} [{trait}] [{material}] [{kind}] {noun} [for {who}][, {colour}][, {size}][, {amount}]",
    "{brand} [{model}] [{whose}] [{kind}] {noun} [with {part}][, {trait}][, {colour}][, {size}][, {amount}]",
    "[{whose}] [{kind}] {noun} by {brand}[, {material}][, {trait}] [for {use}] [- {colour}][, {size}][, {amount}]",
    "[{trait}] {noun} [for {use}][, {kind}][, {part}] - {brand} [{model}] [({colour})] [{size}] [{amount}]",
    "[{kind}] [{material}] {noun} [with {part}] [for {use}], {brand}[, {amount}][, {colour}][, {size}]",
    "{brand} [{kind}] {noun} [{model}] [for {who}] [{amount}] [| {trait}] [| {material}] [| {colour}] [{size}]",
)

HOUSE_BRANDS = ("Plainpenny", "Cornerpost", "Dayfellow")


@dataclass(frozen=True)
class Leaf:
    """One category: its path, its brands (the main ones first), its price range and its words by slot."""

    path: str
    brands: tuple[str, ...]
    price: tuple[float, float]
    slots: dict[str, tuple[str, ...]]


@cache
def leaves() -> tuple[Leaf, ...]:
    """All categories, in the order of the file."""
    text = files(__package__).joinpath("vocabulary.txt").read_text("utf-8")
    shared: dict[str, str] = {}
    categories: list[Leaf] = []
    brands: tuple[str, ...] = ()
    department, turn = "", 0
    for line in text.replace("\n    |", " |").splitlines():
        if line.startswith("@"):
            name, _, values = line.partition(": ")
            shared[name] = values
        elif line.startswith("# "):
            department, _, names = line.removeprefix("# ").partition(": ")
            brands, turn = _listed(names), 0
        elif department and line:
            categories.append(_leaf(department, brands[turn:] + brands[:turn], line, shared))
            turn = (turn + 3) % len(brands)
    return tuple(categories)


def _leaf(department: str, brands: tuple[str, ...], line: str, shared: dict[str, str]) -> Leaf:
    path, price, nouns, *rest = (part.strip() for part in line.split(" | "))
    lowest, highest = price.split("-")
    slots = {"noun": _listed(nouns)}
    for slot in rest:
        name, _, values = slot.partition(": ")
        slots[name] = _listed(shared.get(values, values))
    return Leaf(f"{department} > {path}", brands, (float(lowest), float(highest)), slots)


def _listed(text: str) -> tuple[str, ...]:
    return tuple(value.strip() for value in text.split(","))
