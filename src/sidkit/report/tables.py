"""Tables of ready cells, as Markdown and as LaTeX."""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["latex", "latex_text", "markdown"]

Rows = Sequence[Sequence[str]]


def markdown(head: Sequence[str], rows: Rows) -> str:
    """A pipe table, the first column to the left and the others to the right."""
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def latex(head: Sequence[str], rows: Rows) -> str:
    """A booktabs table; cells are LaTeX already."""
    lines = [rf"\begin{{tabular}}{{l{'c' * (len(head) - 1)}}}", r"\toprule", " & ".join(head) + r"\\", r"\midrule"]
    return "\n".join([*lines, *(" & ".join(row) + r"\\" for row in rows), r"\bottomrule", r"\end{tabular}"])


def latex_text(text: str) -> str:
    """A text with what LaTeX would read as commands made plain."""
    text = re.sub(r"([&%$#_{}])", r"\\\1", text.replace("\\", r"\textbackslash "))
    return text.replace("~", r"\textasciitilde ").replace("^", r"\textasciicircum ").replace("±", r"$\pm$")
