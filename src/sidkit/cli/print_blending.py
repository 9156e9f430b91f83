"""What `sidkit blend --auto` and `sidkit advise --blend` found out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from ..errors import count_of
from ..report.words import ARRANGED

__all__ = ["print_blending"]


def print_blending(advice: Mapping[str, Any]) -> None:
    """A line per weight, and in words which is chosen and whether a SID for every item pays."""
    console = Console(highlight=False)
    table = Table("weight", "counted NDCG@20", "standard error", box=None, pad_edge=False, header_style="bold")
    for one in advice["gains"]:
        style = "bold" if one["weight"] == advice["weight"] else ""
        table.add_row(f"{one['weight']:g}", f"{one['gain']:+.1%}", f"{one['error']:.1%}", style=style)
    console.print(table)
    users = count_of(advice["users"], "sequence")
    console.print(
        f"against embeddings alone, at the last step but two of {users}; nothing after it was looked at", style="dim"
    )
    if advice["order"]["arranged"]:
        words = ARRANGED.format(**advice["order"])
        console.print(
            f"Careful: {words}. Co-occurrence is counted over whole sequences.", style="yellow", soft_wrap=True
        )
    chosen = next((one for one in advice["gains"] if one["weight"] == advice["weight"]), None)
    if chosen is None:
        words = "Co-occurrence is not expected to pay: the weight is 0, and SIDs will be those of the embeddings alone."
    else:
        words = f"Co-occurrence is expected to pay: weight {chosen['weight']:g}."
    console.print(f"[bold]{words}[/bold]", soft_wrap=True)
    apart = advice["spread"]
    expected = "is" if advice["spread_pays"] else "is not"
    console.print(
        f"[bold]A separate SID for every item (encode --spread) {expected} expected to pay:[/bold] "
        f"{apart['gain']:+.1%}, standard error {apart['error']:.1%}, for the embeddings alone.",
        soft_wrap=True,
    )
