"""What `sidkit search evaluate` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table

from ...errors import count_of
from ..printing import console_at_least

if TYPE_CHECKING:
    from ...search.evaluate.evaluation import Evaluation

__all__ = ["print_evaluation"]


def print_evaluation(result: Evaluation) -> None:
    """A table for each kind of pairs: systems by classes of queries; the best figure of a column is bold."""
    console = console_at_least(120, highlight=False)
    differences = result.differences()
    for kind, systems in result.figures().items():
        classes = list(next(iter(systems.values())))
        pairs = {name: next(iter(systems.values()))[name]["pairs"] for name in classes}
        console.print(f"[bold]{count_of(len(result.tests[kind]), 'pair')} of {kind}s[/bold]")
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("")
        for name in classes:
            for metric in (f"HitRate@{result.cut}", f"MRR@{result.cut}"):
                heading = metric if len(classes) == 1 else f"{name} ({pairs[name]:,})\n{metric}"
                table.add_column(heading, justify="right")
        columns = [(name, key) for name in classes for key in (f"hit_rate@{result.cut}", f"mrr@{result.cut}")]
        best = {column: max(_value(figures, column) for figures in systems.values()) for column in columns}
        for system, figures in systems.items():
            cells = [_cell(_value(figures, column), best[column]) for column in columns]
            table.add_row(system, *cells)
        console.print(table)
        for baseline, metrics in differences[kind].items():
            parts = [
                f"{metric} {one['mean']:+.4f} ({one['low']:+.4f} to {one['high']:+.4f})"
                for metric, one in zip(("HitRate", "MRR"), metrics.values(), strict=True)
            ]
            console.print(f"against {baseline}: {', '.join(parts)}", style="dim")
        console.print()


def _value(figures: Any, column: tuple[str, str]) -> float:
    value = figures.get(column[0], {}).get(column[1])
    return float("nan") if value is None else float(value)


def _cell(value: float, best: float) -> str:
    return f"[bold]{value:.4f}[/bold]" if value == best else f"{value:.4f}"
