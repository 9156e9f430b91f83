"""The card of a trained retriever."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..sids.table import SidTable

__all__ = ["retriever_card"]


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

```python
from sidkit.retriever import Retriever

retriever = Retriever.from_pretrained("path/to/this/folder")
retriever.recommend(["item id", "another"], k=10)
```
"""
