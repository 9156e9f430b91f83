"""What `sidkit advise` prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from ..errors import count_of

if TYPE_CHECKING:
    from ..advice.candidates import Advice

__all__ = ["print_advice"]


def print_advice(advice: Advice, commands: Sequence[str]) -> None:
    """A line per candidate, the advice in words, and the commands that fit the chosen sizes and encode with them."""
    from ..advice.page import DRIFTS, RANKED, counted_cells, headings, headline, interval

    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings(advice):
        table.add_column(heading, justify="right", no_wrap=heading == "sizes")
    for one in advice.candidates:
        figures = (interval(one, name) for name in ("icr_per_sid", "sids_per_item", "largest_bucket"))
        rows = "all" if one.measured else f"{one.fitted_on:,}"
        style = "bold" if one is advice.chosen else ""
        sizes = "-".join(map(str, one.sizes))
        meets = [one.meets(advice.target)] if advice.target.is_set else []
        cells = (f"{one.codewords:,}", *counted_cells(one), *figures, rows, *meets)
        table.add_row(sizes, *cells, style=style)
    wide = console if console.is_terminal else Console(highlight=False, width=max(console.width, 170))
    wide.print(table)
    counted = ""
    if advice.counted != advice.items:
        counted = f"; SIDs were counted for {advice.counted:,} and extrapolated"
    brackets = ""
    if not all(one.measured for one in advice.candidates):
        brackets = " Brackets: where 90 % of full fits are expected."
    others = "".join(f", fitted with {count:,} {role}" for role, count in advice.others.items())
    console.print(f"\n{count_of(advice.items, 'item')}{others}{counted}.{brackets}", style="dim")
    if advice.users:
        console.print(RANKED.format(users=advice.users), style="dim", soft_wrap=True)
    if advice.drifts:
        console.print(f"Careful: {DRIFTS}.", style="yellow")
    console.print(f"[bold]{headline(advice)}[/bold]", soft_wrap=True)
    for command in commands:
        console.print(f"  {command}", markup=False, soft_wrap=True)
