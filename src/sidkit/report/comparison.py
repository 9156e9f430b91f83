"""Several tokenizers and seeds as one table, shaped like the codebook-quality half of the paper's Table 1."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

from ..sids.metrics import Metric, metrics_for
from .tables import latex, latex_text, markdown

__all__ = ["COUNTED", "Column", "Comparison"]

COUNTED = Metric(
    "counted_ndcg_20_per_user",
    "counted NDCG@20",
    "mean over users of the NDCG@20 of SIDs by how often they follow the first token of the last item's SID",
    ".4f",
    "higher",
    short="counted NDCG@20",
)


class Column(NamedTuple):
    """One column of a comparison: a metric, of one level (from 0) where it has a value per level."""

    heading: str
    metric: Metric
    level: int | None

    def value(self, figures: Mapping[str, Any]) -> float | None:
        """Its value in the figures of a run, shares in percent; None where the run has no such figure or level."""
        value = figures.get(self.metric.name)
        if self.level is not None:
            value = value[self.level] if value is not None and self.level < len(value) else None
        return 100 * value if self.metric.is_share and value is not None else value


@dataclass(frozen=True)
class Comparison:
    """Quality of every (tokenizer, seed): figures[label] is a list with one dict of metrics per seed."""

    figures: Mapping[str, Sequence[Mapping[str, Any]]]
    seeds: Sequence[int]
    reused: int = 0  # runs that were on disk already
    folders: Mapping[str, Sequence[Path]] = field(default_factory=dict)  # of the fitted tokenizers
    roles: Mapping[str, int] = field(default_factory=dict)  # of a joint fit: role -> its rows; figures count items
    data: str = ""  # the fingerprint of the rows
    spread: frozenset[str] = frozenset()  # labels of those whose items are spread over free codes

    @property
    def is_counted(self) -> bool:
        """Whether the runs were counted on sequences; then the best one comes first."""
        return all(COUNTED.name in run for runs in self.figures.values() for run in runs)

    def levels(self) -> int:
        """Levels of the tokenizer that has most."""
        return max(len(runs[0]["utilisation"]) for runs in self.figures.values())

    def columns(self) -> list[Column]:
        """A column per metric, or per metric and level."""
        names = {name for runs in self.figures.values() for run in runs for name in run}
        columns = [Column(COUNTED.short, COUNTED, None)] if self.is_counted else []
        for metric in metrics_for("compare", names):
            name, unit = metric.short or metric.label, " %" if metric.is_share else ""
            if metric.per_level:
                columns += [Column(f"{name} L{i + 1}{unit}", metric, i) for i in range(self.levels())]
            else:
                columns.append(Column(name + unit, metric, None))
        return columns

    def values(self, label: str) -> list[list[float]]:
        """Per column, the values of all seeds; empty where this tokenizer has no such level."""
        runs = self.figures[label]
        return [[value for run in runs if (value := column.value(run)) is not None] for column in self.columns()]

    def cells(self, label: str) -> list[str]:
        """Per column, the mean and, with several seeds, the standard deviation; empty where there is no value."""
        digits, cells = self._digits(), []
        for column, values in enumerate(self.values(label)):
            std = f" ±{stdev(values):.{digits[column]}f}" if len(values) > 1 else ""
            cells.append(f"{mean(values):.{digits[column]}f}{std}" if values else "")
        return cells

    def ranks(self) -> dict[str, list[int]]:
        """Per label and column, 1 for the best mean, 2 for the second; equal means share a rank.

        0 where there is no value, where no other tokenizer has such a level, and where neither way is better.
        """
        means = {label: [_mean(values) for values in self.values(label)] for label in self.figures}
        ranks: dict[str, list[int]] = {label: [] for label in means}
        for index, column in enumerate(self.columns()):
            known = [value for row in means.values() if (value := row[index]) is not None]
            comparable = column.metric.better != "none" and (len(known) > 1 or len(means) == 1)
            order = sorted(set(known), reverse=column.metric.better == "higher") if comparable else []
            for label, row in means.items():
                value = row[index]
                ranks[label].append(order.index(value) + 1 if value in order else 0)
        return ranks

    def _digits(self) -> list[int]:
        """Per column, the decimals of its metric for the largest mean."""
        means = [[_mean(values) or 0.0 for values in self.values(label)] for label in self.figures]
        largest = map(max, zip(*means, strict=True))
        return [column.metric.digits(most) for column, most in zip(self.columns(), largest, strict=True)]

    def markdown(self) -> str:
        """A Markdown table, best means in bold and second-best underlined."""
        return markdown(self._head(), self._styled({1: "**%s**", 2: "<u>%s</u>"}, str))

    def latex(self) -> str:
        """A booktabs table, best means bold and second-best underlined, as in the paper."""
        head = [latex_text(heading.replace("%", "(%)")) for heading in self._head()]
        return latex(head, self._styled({1: r"\textbf{%s}", 2: r"\underline{%s}"}, latex_text))

    def _head(self) -> list[str]:
        return ["Method", *(column.heading for column in self.columns())]

    def _styled(self, styles: Mapping[int, str], plain: Callable[[str], str]) -> list[list[str]]:
        """A row per tokenizer: its label, then its cells, each in the style of its rank."""
        ranks = self.ranks()
        return [
            [plain(label)]
            + [styles.get(r, "%s") % plain(c) for c, r in zip(self.cells(label), ranks[label], strict=True)]
            for label in self.figures
        ]

    def json(self, pairs: Sequence[Mapping[str, Any]] | None = None, more: Mapping[str, Any] | None = None) -> str:
        """Every figure of every run and, where given, what each separates of what another merges (`pairs_of`).

        more: further entries.
        """
        facts = {"seeds": list(self.seeds), "figures": self.figures, **(more or {})}
        facts |= {"roles": self.roles} if self.roles else {}
        facts |= {"ranked_by": COUNTED.name, "ranking": list(self.figures)} if self.is_counted else {}
        return json.dumps(facts if pairs is None else facts | {"pairs": pairs}, indent=1)


def _mean(values: Sequence[float]) -> float | None:
    """To nine significant digits, so that the order of additions makes no rank."""
    return float(f"{mean(values):.9g}") if values else None
