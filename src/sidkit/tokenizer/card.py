"""The model card: what people should know about a fitted tokenizer before they use it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from ..data.joint import item_rows
from ..sids.metrics import metrics_for
from ..sids.quality import quality
from .spec import to_plain

if TYPE_CHECKING:
    from .tokenizer import FittedTokenizer

__all__ = ["facts_of", "model_card"]


@runtime_checkable
class MeasuresItself(Protocol):
    """Rows that compute the quality of their codes where the codes are, on the workers of a cluster."""

    def quality(self) -> dict[str, Any]:
        """As `sidkit.quality`."""


def facts_of(fitted: FittedTokenizer) -> dict[str, Any]:
    """Facts of the fit: its rows, their fingerprint, the quality of their codes (of a joint fit, the items')."""
    rows = fitted.fitted_rows
    if rows is None:
        return {}
    if isinstance(rows, MeasuresItself):
        figures = rows.quality()
    else:
        figures = quality(rows.codes()[item_rows(fitted.roles)], fitted.sizes)
    facts = {"rows": rows.shape[0], "data_fingerprint": fitted.data_fingerprint, "quality": figures}
    if fitted.roles:
        facts["roles"] = {role: last - first for role, (first, last) in fitted.roles.items()}
    if fitted.columns:
        facts["columns"] = {role: dict(columns) for role, columns in fitted.columns.items()}
    return facts


def model_card(fitted: FittedTokenizer, name: str) -> str:
    """The README.md of a model folder."""
    sizes = "-".join(str(size) for size in fitted.sizes)
    facts = fitted.facts
    lines = [
        f"# {name}",
        "",
        f"A semantic-ID tokenizer made with sidkit: {fitted.spec.name or 'a custom spec'}, {sizes}.",
        "",
        "| | |",
        "|---|---|",
        f"| recipe | {fitted.spec.name or 'custom'} |",
        f"| sizes | {sizes} |",
        f"| input | {fitted.d}-dimensional, {fitted.dtype} |",
        f"| seed | {fitted.seed} |",
    ]
    if "rows" in facts:
        rows = " and ".join(f"{count:,} {role}" for role, count in facts.get("roles", {"rows": facts["rows"]}).items())
        lines += [f"| fitted on | {rows}, fingerprint `{facts['data_fingerprint'][:16]}` |"]
    for role, columns in facts.get("columns", {}).items():
        names = ", ".join(f"{name} `{column}`" for name, column in columns.items() if column)
        lines += [f"| columns of {role} | {names} |"] if names else []
    figures = facts.get("quality", {})
    for metric in metrics_for("card", figures):
        label = f"{metric.label} by level" if metric.per_level else metric.label
        lines.append(f"| {label} | {_plain_numbers(figures[metric.name])} |")
    spec = json.dumps(to_plain(fitted.spec.stages), indent=2)
    return "\n".join([*lines, "", _USE, "## Spec", "", "```json", spec, "```", ""])


_USE = """## Use

```python
import sidkit
fitted = sidkit.load("path/to/this/folder")
codes = fitted.encode(embeddings)  # (n, d) -> int32 (n, tokens)
```
"""


def _plain_numbers(value: Any) -> str:
    """Four decimals for all but counts, without percent signs: cards are read by programs as well."""
    if isinstance(value, list):
        return ", ".join(_plain_numbers(one) for one in value)
    return f"{value:.4f}" if isinstance(value, float) else f"{value:,}"
