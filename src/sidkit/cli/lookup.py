"""sidkit lookup: from an item to its semantic ID, from a semantic ID to its items."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import InputError, SpecError
from .options import Json, texts_for

if TYPE_CHECKING:
    from ..sids.table import SidTable


def lookup(
    sids: Annotated[Path, typer.Argument(help="Parquet file written by `sidkit encode`", show_default=False)],
    what: Annotated[str, typer.Argument(help="An item id, a SID, or the first tokens of one", show_default=False)],
    items: Annotated[Path | None, typer.Option("--items", help="Parquet file with the items' texts")] = None,
    text: Annotated[str, typer.Option("--text", help="Its column to show")] = "title",
    limit: Annotated[int, typer.Option("--limit", help="Most items to print; 0 for all")] = 20,
    as_json: Json = False,
) -> None:
    """sidkit lookup sids.parquet '<a_0>' --items items.parquet

    From an item to its semantic ID and the items that share it; from a SID or a prefix to its items. SIDs are
    understood as the file writes them (`encode --template`), by letters, as numbers (12-3-77, 12,3,77), and as
    OpenOneRec writes them.
    """
    from ..sids.table import SidTable
    from .printing import print_items

    if limit < 0:
        raise SpecError(f"--limit must be at least 0, not {limit}")
    table = SidTable.from_parquet(sids)
    prefix = table.sid_of(what) or _prefix(table, what, sids)
    rows = table.rows_of(prefix)
    shown = rows[:limit] if limit else rows
    names = texts_for(items, text, table.ids) if items else None
    found = [
        {"item_id": table.ids[int(row)].as_py(), "codes": table.codes[row].tolist()}
        | ({"text": names[int(row)]} if names else {})
        for row in shown
    ]
    if as_json:
        print(json.dumps({"prefix": prefix, "count": len(rows), "items": found}, ensure_ascii=False))
    else:
        form = table.template
        name = form.write(prefix) if len(prefix) == len(table.sizes) else form.write_prefix(prefix)
        print_items(name, len(rows), found, form)


def _prefix(table: "SidTable", what: str, sids: Path) -> tuple[int, ...]:
    """The codes of a SID or prefix that items have; whoever asks for another is shown one."""
    from pyarrow.types import is_integer

    from ..sids.template import TEMPLATES, read_sid

    if not len(table):
        raise InputError(f"no item {what!r} in {sids}: it holds no items")
    form, codes, letters = table.template, table.codes[0].tolist(), TEMPLATES["letters"]

    def start(prefix: Sequence[int]) -> str:
        """How to ask for it: by letters, where the file's own form could be an item's number."""
        own = form.write_prefix(prefix)
        return letters.write(prefix) if own.strip().isdecimal() and is_integer(table.ids.type) else own

    try:
        prefix = read_sid(what, form)
    except InputError:
        written = f"write one as {form.write(codes)!r}, or its first tokens as {start(codes[:1])!r}"
        raise InputError(f"no item {what!r} in {sids}, and no semantic ID either; {written}") from None
    if len(prefix) == 1 and what.strip().isdecimal() and is_integer(table.ids.type):
        written = letters.write(prefix)
        raise InputError(f"no item {what!r} in {sids}; if you mean the first token, write it as {written!r}")
    if not len(table.rows_of(prefix)):
        kept = (prefix[:depth] for depth in range(len(prefix) - 1, 0, -1))
        held = next((one for one in kept if len(table.rows_of(one))), None)
        known = f"there are items under {start(held)!r}" if held else f"one that is: {form.write(codes)!r}"
        raise InputError(f"{what!r} is neither an item nor an occupied prefix of {sids}; {known}")
    return prefix
