"""Everything a report contains: plain facts for programs, figures for readers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from os import PathLike
from typing import Any

import numpy as np

from ..data.embeddings import Embeddings
from ..data.items import match
from ..data.sequences import Sequences
from ..data.subset import without
from ..errors import InputError, count_of
from ..measure.carryover import carryover
from ..measure.judge import judge
from ..progress import Progress, Silent
from ..sids.notebook import box, rows_table
from ..sids.prefixes import token_counts
from ..sids.quality import quality
from ..sids.separable import separable
from ..sids.table import SidTable
from ..stages.level import FittedLevel
from ..tokenizer.spread import can_spread
from ..tokenizer.tokenizer import FittedTokenizer
from .centroids import joint_map, near_twins
from .draw.figure import Figure
from .figures import Points, report_figures
from .findings import Finding, repeated_centroids, repetition
from .groups import StoredTexts, collision_groups, prefix_tree
from .verdict import verdict

__all__ = ["Evidence", "assess", "gather"]

QUERIES = 500  # items whose neighbours are looked up


@dataclass(frozen=True)
class Evidence:
    """facts: `quality`, "verdict" and all else that could be measured, ready for JSON; figures: in page order."""

    facts: dict[str, Any]
    figures: list[Figure]

    def __repr__(self) -> str:
        return f"Evidence({self.facts['verdict']['headline']} {count_of(len(self.figures), 'figure')})"

    def _repr_html_(self) -> str:
        """The verdict and the figures, for a notebook; `report_page` is the page with all of it."""
        verdict = self.facts["verdict"]
        rows = [(finding["grade"], finding["text"]) for finding in verdict["findings"]]
        facts = [count_of(self.facts["items"], "item"), "-".join(map(str, self.facts["sizes"]))]
        headline = f'<p style="font-size:1.15em;margin:.4em 0"><b>{escape(verdict["headline"])}</b></p>'
        drawn = "".join(figure._repr_html_() for figure in self.figures)
        return box("Report", facts, headline + rows_table(("grade", "finding"), rows) + drawn)


def assess(
    table: SidTable, neighbours: Mapping[str, Any] | None = None, further: Sequence[Finding] = (), spreads: bool = True
) -> dict[str, Any]:
    """The figures of `quality` with the sizes and the verdict in words.

    neighbours: the result of `neighbour_agreement` where the items' vectors are known; the verdict then judges meaning.
    further: findings of the tokenizer; spreads: whether `encode --spread` can separate these items.
    """
    figures = quality(table.codes, table.sizes)
    heaviest = int(token_counts(table.codes[:, 0], table.sizes[0]).max())
    room = separable(table.codes, table.sizes) if spreads else None
    words = verdict(figures, table.sizes, heaviest, neighbours, room, further)
    return {"sizes": list(table.sizes), **figures, "verdict": words}


def gather(
    table: SidTable,
    fitted: FittedTokenizer | None = None,
    embeddings: Embeddings | None = None,
    texts: Sequence[str] | StoredTexts | None = None,
    sequences: Sequences | str | PathLike[str] | None = None,
    categories: Sequence[str] | None = None,
    map_by: str = "auto",
    progress: Progress | None = None,
) -> Evidence:
    """All that the inputs allow to say about these SIDs.

    The tokenizer adds the map of its centroids; embeddings add neighbour agreement; both together add carryover. Texts
    add the words of collision groups and branches. For sequences and categories see `judge`.
    """
    report = progress or Silent()
    if fitted is not None and embeddings is not None and embeddings.shape[1] != fitted.d:
        raise InputError(
            f"the vectors have {embeddings.shape[1]} dimensions, but the tokenizer was fitted on {fitted.d}; "
            "name those it was fitted on with --embeddings"
        )
    judged = judge(table, sequences, embeddings, categories, queries=QUERIES, progress=report)
    of_fit = _of_fit(fitted, table, embeddings, report) if fitted is not None else {}
    spreads = fitted is None or can_spread(fitted)
    facts = assess(table, judged.get("neighbours"), _findings(fitted, of_fit), spreads) | of_fit | judged
    report.start("words", 0)
    facts["collision_groups"] = collision_groups(table, texts)
    facts["tree"] = prefix_tree(table, texts)
    points: Points = ()
    method = ""
    if fitted is not None and fitted.codebooks:
        report.start("map", 0)
        points, method = joint_map(fitted.codebooks, map_by)
    return Evidence(facts, report_figures(table.codes, table.sizes, facts, points, method))


def _of_fit(
    fitted: FittedTokenizer, table: SidTable, embeddings: Embeddings | None, report: Progress
) -> dict[str, Any]:
    """What the tokenizer adds to the facts."""
    facts: dict[str, Any] = {
        "tokenizer": {"recipe": fitted.spec.name or "custom", "seed": fitted.seed, "dimensions": fitted.d}
    }
    if embeddings is not None and any(isinstance(stage, FittedLevel) for stage in fitted.stages):
        facts["carryover"] = _carryover(fitted, table, embeddings, report)
    books = fitted.codebooks
    if len(books) == len(fitted.sizes) and all(
        len(book) == size for book, size in zip(books, fitted.sizes, strict=True)
    ):
        facts["near_twins"] = [near_twins(book) for book in books]  # not of codebooks that each parent has
    return facts


def _findings(fitted: FittedTokenizer | None, facts: Mapping[str, Any]) -> list[Finding]:
    if fitted is None:
        return []
    carried, last_is_level = facts.get("carryover"), isinstance(fitted.stages[-1], FittedLevel)
    repeats = repetition(carried, last_is_level) if carried else []
    return [*repeats, *repeated_centroids(facts.get("near_twins", ()))]


def _carryover(fitted: FittedTokenizer, table: SidTable, embeddings: Embeddings, report: Progress) -> dict[str, Any]:
    """Carryover over all items that have a SID, chunk by chunk."""
    unknown = np.flatnonzero(match(embeddings.ids, table.ids) < 0)
    known = without(embeddings, unknown) if len(unknown) else embeddings
    report.start("carryover", 0)
    return carryover(fitted, known) | {"rows": known.shape[0]}
