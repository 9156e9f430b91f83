"""The model card: what a person wants to know of a fitted tokenizer before using it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ..sids.metrics import metrics_for
from ..sids.quality import quality
from .spec import to_plain

if TYPE_CHECKING:
    from .tokenizer import FittedTokenizer

__all__ = ["facts_of", "model_card"]


def facts_of(fitted: FittedTokenizer) -> dict[str, Any]:
    """What is known of the fit: rows, data fingerprint, quality of the codes of those rows."""
    facts: dict[str, Any] = {}
    if fitted.fitted_rows is not None:
        facts = {"rows": fitted.fitted_rows.shape[0], "data_fingerprint": fitted.data_fingerprint}
        measure = getattr(fitted.fitted_rows, "quality", None)  # rows whose codes lie on several machines
        facts["quality"] = quality(fitted.fit_codes, fitted.sizes) if measure is None else measure()
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
        lines += [f"| fitted on | {facts['rows']:,} rows, fingerprint `{facts['data_fingerprint'][:16]}` |"]
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
