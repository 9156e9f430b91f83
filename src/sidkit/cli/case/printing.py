"""The output of both cases: a table in one of the forms, and texts of the items."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ..columns import ColumnNotes
from ..parsing import require_choice

__all__ = ["print_case", "print_texts"]


def print_case(
    form: str,
    as_json: bool,
    facts: Mapping[str, Any],
    head: list[str],
    rows: list[list[str]],
    lines: Sequence[str],
    notes: ColumnNotes,
) -> None:
    from ...report.compare import FORMS
    from ...report.tables import latex, latex_text, markdown

    require_choice("--format", form, FORMS)
    if as_json or form == "json":
        print(json.dumps(facts, ensure_ascii=False))
        return
    notes.print()
    if form == "markdown":
        print(markdown(head, rows))
    elif form == "latex":
        print(latex([latex_text(name) for name in head], [[latex_text(cell) for cell in row] for row in rows]))
    else:
        from ..printing import print_rows

        print_rows(lines, head, rows)


def print_texts(branches: Sequence[Mapping[str, Any]], names: Sequence[str]) -> None:
    from ..terminal import plain

    for name, branch in zip(names, branches, strict=True):
        for text in branch.get("texts", ())[:5]:
            print(f"  {name}  {plain(text)}")
