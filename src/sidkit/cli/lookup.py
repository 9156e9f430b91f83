"""sidkit lookup: the semantic ID of an item, the items of a semantic ID."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import InputError, SpecError
from .columns import ColumnNotes
from .inputs import sids_from, texts_for
from .options import IdColumn, Insist, Items, Json, Sids, TextColumn, TokenizerOption
from .swapped import require_order

if TYPE_CHECKING:
    from ..files.address import Location
    from ..sids.table import SidTable


def lookup(
    sids: Sids,
    what: Annotated[str, typer.Argument(help="An item id, a SID, or the first tokens of one", show_default=False)],
    items: Items = None,
    text: TextColumn = "title",
    id_column: IdColumn = None,
    limit: Annotated[int, typer.Option("--limit", help="Maximum number of items to print; 0 for all")] = 20,
    tokenizer: TokenizerOption = None,
    force: Insist = False,
    as_json: Json = False,
) -> None:
    """sidkit lookup sids.parquet '<a_0>' --items items.parquet

    From an item to its semantic ID and the items that share it; from a SID or a prefix to its items. SIDs may be
    written as in the file (`encode --template`), by letters, as numbers (12-3-77, 12,3,77), or as OpenOneRec does.
    """
    from .printing import print_items

    if limit < 0:
        raise SpecError(f"--limit must be at least 0, not {limit}")
    require_order("lookup", sids=sids, text=what)
    table, notes = sids_from(sids, tokenizer, force), ColumnNotes()
    prefix = table.sid_of(what) or _prefix(table, what, sids)
    rows = table.rows_of(prefix)
    shown = rows[:limit] if limit else rows
    texts = texts_for(items, text, table.ids, id_column, notes, table.origin.id_column) if items else None
    matches = [
        {"item_id": table.ids[int(row)].as_py(), "codes": table.codes[row].tolist()}
        | ({"text": texts[int(row)]} if texts else {})
        for row in shown
    ]
    if as_json:
        facts = {"prefix": prefix, "count": len(rows), "items": matches}
        print(json.dumps(facts | notes.field(), ensure_ascii=False))
    else:
        notes.print()
        form = table.template
        name = form.write(prefix) if len(prefix) == len(table.sizes) else form.write_prefix(prefix)
        print_items(name, len(rows), matches, form)


def _prefix(table: "SidTable", what: str, sids: "Location") -> tuple[int, ...]:
    """The codes of a SID or prefix that items have; the error for any other shows one that they have."""
    from pyarrow.types import is_integer

    from ..sids.template import TEMPLATES, read_sid

    if not len(table):
        raise InputError(f"no item {what!r} in {sids}: it holds no items")
    form, codes, letters = table.template, table.codes[0].tolist(), TEMPLATES["letters"]

    def start(prefix: Sequence[int]) -> str:
        """A prefix as the file writes it; by letters where that could be taken for the id of an item."""
        written = form.write_prefix(prefix)
        return letters.write(prefix) if written.strip().isdecimal() and is_integer(table.ids.type) else written

    try:
        prefix = read_sid(what, form)
    except InputError:
        written = f"write one as {form.write(codes)!r}, or its first tokens as {start(codes[:1])!r}"
        raise InputError(f"no item {what!r} in {sids}, and no semantic ID either; {written}") from None
    if len(prefix) == 1 and what.strip().isdecimal() and is_integer(table.ids.type):
        written = letters.write(prefix)
        raise InputError(f"no item {what!r} in {sids}; if you mean the first token, write it as {written!r}")
    if not len(table.rows_of(prefix)):
        shorter = (prefix[:depth] for depth in range(len(prefix) - 1, 0, -1))
        occupied = next((one for one in shorter if len(table.rows_of(one))), None)
        known = f"there are items under {start(occupied)!r}" if occupied else f"one that is: {form.write(codes)!r}"
        raise InputError(f"{what!r} is neither an item nor an occupied prefix of {sids}; {known}")
    return prefix
