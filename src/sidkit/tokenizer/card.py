"""The model card: what a person wants to know of a fitted tokenizer before using it."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from ..rows.local import CHUNK, Source, Wrapped
from ..sids.quality import quality
from .spec import to_plain

if TYPE_CHECKING:
    from ..rows.local import Rows
    from .tokenizer import FittedTokenizer

__all__ = ["facts_of", "fingerprint", "model_card", "unchanged"]

FINGERPRINT_ROWS = 1024


def fingerprint(rows: Rows, count: int = FINGERPRINT_ROWS) -> str:
    """SHA-256 of the shape and of evenly spaced rows: tells data apart without reading all of it."""
    n, d = rows.shape
    numbers = np.unique(np.linspace(0, n - 1, min(n, count)).astype(np.int64))
    sample = np.ascontiguousarray(rows.take(numbers), dtype="<f8")
    return hashlib.sha256(f"{n}x{d}".encode() + sample.tobytes()).hexdigest()


def unchanged(X: Any) -> str:
    """SHA-256 of what must be as it was where work is gone on with, beside the fingerprint: the names, sizes and times
    of files, or every number of rows in memory. Rows that live elsewhere give nothing."""
    while isinstance(X, Wrapped):
        X = X.source
    digest = hashlib.sha256()
    if getattr(X, "paths", ()):
        for path in X.paths:
            status = path.stat()
            digest.update(f"{path}\0{status.st_size}\0{status.st_mtime}\0".encode())
    elif isinstance(X, Source):
        for x in X.chunks(CHUNK):
            digest.update(np.ascontiguousarray(x).tobytes())
    return digest.hexdigest()


def facts_of(fitted: FittedTokenizer) -> dict[str, Any]:
    """What is known of the fit: rows, fingerprint, quality of its own codes."""
    facts: dict[str, Any] = {}
    if fitted.fitted_rows is not None:
        facts = {"rows": fitted.fitted_rows.shape[0], "data_fingerprint": fitted.data_fingerprint}
        measured = getattr(fitted.fitted_rows, "quality", None)  # where the codes are not all in one place
        facts["quality"] = quality(fitted.fit_codes, fitted.sizes) if measured is None else measured()
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
