"""The model card: what people should know about a fitted tokenizer before they use it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

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
    """Facts of the fit: its rows, their fingerprint, the quality of their codes."""
    rows = fitted.fitted_rows
    if rows is None:
        return {}
    figures = rows.quality() if isinstance(rows, MeasuresItself) else quality(rows.codes(), fitted.sizes)
    return {"rows": rows.shape[0], "data_fingerprint": fitted.data_fingerprint, "quality": figures}


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
    for label, key in _SHOWN.items():
        if key in facts.get("quality", {}):
            lines.append(f"| {label} | {_format(facts['quality'][key])} |")
    spec = json.dumps(to_plain(fitted.spec.stages), indent=2)
    return "\n".join([*lines, "", _USE, "## Spec", "", "```json", spec, "```", ""])


_SHOWN = {
    "SIDs with one item / distinct SIDs (ICR)": "icr_per_sid",
    "items alone on their SID / items": "icr_per_item",
    "largest bucket": "largest_bucket",
    "prefix utilisation by level": "utilisation",
    "prefix Gini by level": "prefix_gini",
}

_USE = """## Use

```python
import sidkit
fitted = sidkit.load("path/to/this/folder")
codes = fitted.encode(embeddings)  # (n, d) -> int32 (n, tokens)
```
"""


def _format(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_format(item) for item in value)
    return f"{value:.4f}" if isinstance(value, float) else f"{value:,}"
