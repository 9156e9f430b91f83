"""The card of a trained retriever."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..measure.seen import SEEN

if TYPE_CHECKING:
    from ..sids.table import SidTable

__all__ = ["SEEN_PICTURE", "retriever_card"]

SEEN_PICTURE = "seen.svg"  # beside the card


def retriever_card(facts: dict[str, Any], table: SidTable, name: str) -> str:
    """What people should know before they use it: what it was trained on, and how well it ranks."""
    origin = table.origin
    rows = {
        "items": f"{len(table):,}",
        "sizes": "-".join(map(str, table.sizes)),
        "tokenizer": f"`{origin.tokenizer_digest}`" if origin.tokenizer_digest else "",
        "embeddings": f"`{origin.embeddings_digest}`" if origin.embeddings_digest else "",
        "seed": str(facts.get("plan", {}).get("seed", "")),
        "epochs": str(facts.get("epochs", "")),
        "test users": f"{facts['users']:,}" if facts.get("users") else "",
    }
    test = {key: value for key, value in (facts.get("test") or {}).items() if isinstance(value, float)}
    rows |= {key: f"{value:.4f}" for key, value in test.items() if "ndcg" in key or "recall" in key}
    table_rows = "\n".join(f"| {key} | {value} |" for key, value in rows.items() if value)
    return f"""# {name}

A generative recommender over semantic IDs, made with sidkit. It loads with transformers' T5 classes as well.

| | |
|---|---|
{table_rows}
{_by_seen(facts.get("seen") or {})}
```python
from sidkit.retriever import Retriever

retriever = Retriever.from_pretrained("path/to/this/folder")
retriever.recommend(["item id", "another"], k=10)
```
"""


def _by_seen(seen: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> str:
    """A table of test figures by how often the target was seen in training; seen: of retriever.json."""
    if not seen:
        return ""
    lists = {"model": "alone", "fused": "fused with counts", "followed": "by counting"}
    shown = {words: seen[name] for name, words in lists.items() if name in seen}
    heads = [f"{figure}, {words}" for words in shown for figure in ("Recall@10", "NDCG@10")]
    rows = [f"| target item | users | {' | '.join(heads)} |", "|---|---:|" + "---:|" * len(heads)]
    for group, words in SEEN.items():
        values = [each[group][figure] for each in shown.values() for figure in ("recall@10", "ndcg@10")]
        cells = ["-" if value is None else f"{value:.4f}" for value in values]
        rows.append(f"| {words} | {next(iter(shown.values()))[group]['users']:,.0f} | {' | '.join(cells)} |")
    table = "\n".join(rows)
    return f"""
A target that was never seen is out of reach of counting, and of every model over item ids:

{table}

![Recall@10 by how often the target was seen in training]({SEEN_PICTURE})
"""
