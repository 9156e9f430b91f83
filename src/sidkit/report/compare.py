"""Several tokenizers, several seeds, one table shaped like the codebook-quality half of the paper's Table 1."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import floor, log10
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from ..data.inputs import as_rows
from ..errors import StoreError
from ..progress import Progress, Silent
from ..rows.device import work_of_fit
from ..sids.quality import quality
from ..tokenizer.fingerprint import fingerprint
from ..tokenizer.spec import to_plain
from ..tokenizer.tokenizer import Tokenizer, load
from .tables import latex, latex_text, markdown

__all__ = ["FORMS", "Comparison", "compare"]


@dataclass(frozen=True)
class Comparison:
    """Quality of every (tokenizer, seed): figures[label] is a list with one dict of metrics per seed."""

    figures: Mapping[str, Sequence[Mapping[str, Any]]]
    seeds: Sequence[int]
    reused: int = 0  # runs that were found on disk
    homes: Mapping[str, Sequence[Path]] = field(default_factory=dict)  # where the fitted tokenizers lie

    def levels(self) -> int:
        """Of the tokenizer that has most."""
        return max(len(runs[0]["utilisation"]) for runs in self.figures.values())

    def columns(self) -> list[tuple[str, bool]]:
        """(heading, whether more is better) of every column."""
        names = [f"L{level + 1}" for level in range(self.levels())]
        return [("ICR %", True), *((f"Util {n} %", True) for n in names), *((f"Gini {n}", False) for n in names)]

    def values(self, label: str) -> list[list[float]]:
        """Per column, the values of all seeds; none where this tokenizer has no such level."""
        runs = self.figures[label]
        own, none = len(runs[0]["utilisation"]), self.levels() - len(runs[0]["utilisation"])
        icr = [100 * run["icr_per_sid"] for run in runs]
        utilisation = [[100 * run["utilisation"][level] for run in runs] for level in range(own)]
        gini = [[run["prefix_gini"][level] for run in runs] for level in range(own)]
        return [icr, *utilisation, *([] for _ in range(none)), *gini, *([] for _ in range(none))]

    def cells(self, label: str) -> list[str]:
        """Per column, the mean and, with several seeds, the standard deviation; empty where there is nothing."""
        shown = []
        for column, values in enumerate(self.values(label)):
            digits = self._digits(column)
            spread = f" ±{stdev(values):.{digits}f}" if len(values) > 1 else ""
            shown.append(f"{mean(values):.{digits}f}{spread}" if values else "")
        return shown

    def ranks(self) -> dict[str, list[int]]:
        """Per label and column, 1 for the best mean, 2 for the second; equal means share a rank.

        0 where there is nothing, or nothing to compare with because the others have no such level.
        """
        means = {label: [_mean(values) for values in self.values(label)] for label in self.figures}
        ranks: dict[str, list[int]] = {label: [] for label in means}
        for column, (_, more) in enumerate(self.columns()):
            known = [value for row in means.values() if (value := row[column]) is not None]
            order = sorted(set(known), reverse=more) if len(known) > 1 or len(means) == 1 else []
            for label, row in means.items():
                value = row[column]
                ranks[label].append(order.index(value) + 1 if value in order else 0)
        return ranks

    def _digits(self, column: int) -> int:
        """Three for Gini and two for percent, or as many as tell a deep level's utilisation from nothing."""
        heading, _ = self.columns()[column]
        largest = max(_mean(self.values(label)[column]) or 0.0 for label in self.figures)
        usual = 2 if "%" in heading else 3
        return 1 - floor(log10(largest)) if 0 < largest < 0.005 and "%" in heading else usual

    def markdown(self) -> str:
        """A Markdown table, best means in bold."""
        return markdown(self._head(), self._marked({1: "**%s**"}, str))

    def latex(self) -> str:
        """A booktabs table, best means bold and second-best underlined, as in the paper."""
        head = [latex_text(heading.replace("%", "(%)")) for heading in self._head()]
        return latex(head, self._marked({1: r"\textbf{%s}", 2: r"\underline{%s}"}, latex_text))

    def _head(self) -> list[str]:
        return ["Method", *(heading for heading, _ in self.columns())]

    def _marked(self, marks: Mapping[int, str], plain: Callable[[str], str]) -> list[list[str]]:
        ranks = self.ranks()
        return [
            [plain(label)]
            + [marks.get(r, "%s") % plain(c) for c, r in zip(self.cells(label), ranks[label], strict=True)]
            for label in self.figures
        ]

    def json(self, pairs: Sequence[Mapping[str, Any]] | None = None) -> str:
        """Every figure of every run and, where given, what each separates of what another merges (`pairs_of`)."""
        told = {"seeds": list(self.seeds), "figures": self.figures}
        return json.dumps(told if pairs is None else told | {"pairs": pairs}, indent=1)


def _mean(values: Sequence[float]) -> float | None:
    """To nine significant digits, so that the order of additions makes no rank."""
    return float(f"{mean(values):.9g}") if values else None


FORMS = ("table", "json", "markdown", "latex")


def compare(
    X: Any,
    tokenizers: Mapping[str, Tokenizer | Path],
    seeds: Sequence[int],
    folder: Path,
    progress: Progress | None = None,
    device: str = "auto",
) -> Comparison:
    """Fit every tokenizer with every seed, keep the models in a folder, and measure them.

    A run whose spec, seed and data fingerprint are already there is not run again. A path is a fitted tokenizer, which
    is measured as it is.
    """
    report = progress or Silent()
    stages = [stage for spec in tokenizers.values() if isinstance(spec, Tokenizer) for stage in spec.stages]
    rows = as_rows(X, device=device, progress=report, work=len(seeds) * work_of_fit(stages))
    mark, reused = fingerprint(rows), 0
    figures: dict[str, list[Mapping[str, Any]]] = {label: [] for label in tokenizers}
    homes: dict[str, list[Path]] = {label: [] for label in tokenizers}
    for label, tokenizer in tokenizers.items():
        if isinstance(tokenizer, Path):
            fitted = load(tokenizer)
            figures[label].append(quality(fitted.encode(rows, device=device, progress=report), fitted.sizes))
            homes[label].append(tokenizer)
            continue
        for seed in seeds:
            home = folder / f"{label}-{_spec_mark(tokenizer)}-{mark[:8]}-seed{seed}"
            facts = _facts(home, tokenizer, mark, seed)
            if facts is None:
                report.start(f"{label}, seed {seed}", 0)
                tokenizer.fit(rows, seed=seed, device=device, progress=report).save(home)
                facts = dict(load(home).facts)
            else:
                reused += 1
            figures[label].append(facts["quality"])
            homes[label].append(home)
    return Comparison(figures, seeds, reused, homes)


def _spec_mark(tokenizer: Tokenizer) -> str:
    return hashlib.sha256(json.dumps(to_plain(tokenizer.stages)).encode()).hexdigest()[:8]


def _facts(home: Path, tokenizer: Tokenizer, mark: str, seed: int) -> dict[str, Any] | None:
    """The facts of a run found on disk, if it is this one and whole."""
    try:
        fitted = load(home)
    except StoreError:
        return None
    same = fitted.spec == tokenizer and fitted.seed == seed and fitted.facts.get("data_fingerprint") == mark
    return dict(fitted.facts) if same and "quality" in fitted.facts else None
