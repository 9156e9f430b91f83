"""The model card: what a person wants to know of a fitted tokenizer before using it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ..sids.quality import quality
from .spec import to_plain

if TYPE_CHECKING:
    from .tokenizer import FittedTokenizer

__all__ = ["facts_of", "model_card"]


def facts_of(fitted: FittedTokenizer) -> dict[str, Any]:
    """What is known of the fit: rows, fingerprint, quality of its own codes."""
    facts: dict[str, Any] = {}
    if fitted.fitted_rows is not None:
        facts = {"rows": fitted.fitted_rows.shape[0], "data_fingerprint": fitted.data_fingerprint}
        measured = getattr(fitted.fitted_rows, "quality", None)  # where the codes are not all in one place
        facts["quality"] = quality(_item_codes(fitted), fitted.sizes) if measured is None else measured()
        if fitted.roles:
            facts["roles"] = {role: last - first for role, (first, last) in fitted.roles.items()}
    return facts


def _item_codes(fitted: FittedTokenizer) -> Any:
    """The tokens of the rows that quality is measured on: of a joint fit, the items alone."""
    codes = fitted.fit_codes
    if codes is None or not fitted.roles:
        return codes
    first, last = fitted.roles.get("items", next(iter(fitted.roles.values())))
    return codes[first:last]


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
    for label, key in _SHOWN.items():
        if key in facts.get("quality", {}):
            lines.append(f"| {label} | {_say(facts['quality'][key])} |")
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


def _say(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_say(item) for item in value)
    return f"{value:.4f}" if isinstance(value, float) else f"{value:,}"
