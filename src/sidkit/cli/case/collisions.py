"""sidkit case collisions: items that share a SID under one tokenizer, followed through another."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from ...errors import InputError
from ..columns import ColumnNotes
from ..inputs import texts_for
from ..options import Form, IdColumn, Items, Json, Location, TextColumn, location
from .printing import print_case, print_texts


def collisions(
    first: Annotated[
        Location, typer.Argument(help="SIDs by one tokenizer, as `sidkit encode` wrote them", parser=location)
    ],
    second: Annotated[Location, typer.Argument(help="SIDs of the same items by another", parser=location)],
    items: Items = None,
    text: TextColumn = "title",
    sid: Annotated[
        str | None, typer.Option("--sid", help="SID of the first table to follow [default: chosen by a rule]")
    ] = None,
    id_column: IdColumn = None,
    form: Form = "table",
    as_json: Json = False,
) -> None:
    """sidkit case collisions sids.parquet other.parquet --items items.parquet

    Items that share one SID under the first tokenizer, followed through the levels of the second, with the words that
    distinguish its branches. By default the group is the largest that the second keeps together at its first level,
    separates at its second, and divides into SIDs of two items or more. The second table is made, for instance, by

    sidkit fit items.parquet -o other/ -r rq-kmeans

    sidkit encode other/ items.parquet -o other.parquet
    """
    from ...report.cases import collision_case
    from ...sids.table import SidTable
    from ...sids.template import read_sid

    a, b = SidTable.from_parquet(first), SidTable.from_parquet(second)
    notes = ColumnNotes()
    texts = texts_for(items, text, a.ids, id_column, notes, a.origin.id_column) if items else None
    codes = read_sid(sid, a.template) if sid is not None else None
    if codes is not None and len(codes) != len(a.sizes):
        example = a.template.write(a.codes[0].tolist()) if len(a) else a.template.example()
        raise InputError(f"--sid follows a whole SID of {first}, such as {example!r}, not {sid!r}")
    case = collision_case(a, b, texts, codes)
    branch, second_level = (_letters(case["branches"], depth) for depth in (len(b.sizes), 2))
    rows = [
        [branch[i], second_level[i], one["sid"], str(one["items"]), "; ".join(one["words"])]
        for i, one in enumerate(case["branches"])
    ]
    levels = ", ".join(f"{count} at level {level}" for level, count in enumerate(case["prefixes_per_level"], 1))
    lines = [
        f"{case['items']} items share {case['sid']} under {first.stem}: {', '.join(case['words'])}",
        f"prefixes under {second.stem}: {levels}",
    ]
    if sid is None:
        lines.append(f"the largest of {case['groups']:,} with: {'; '.join(case['rules']) or 'a shared SID'}")
    head = ["branch", "L2", "SID", "items", "keywords"]
    print_case(form, as_json, case | notes.field(), head, rows, lines, notes)
    if form == "table" and not as_json:
        print_texts(case["branches"], branch)


def _letters(branches: Sequence[Mapping[str, Any]], depth: int) -> list[str]:
    """A, B, C … for the different prefixes of `depth` tokens, in order of appearance."""
    seen: dict[tuple[int, ...], str] = {}
    for branch in branches:
        prefix = tuple(branch["codes"][:depth])
        seen.setdefault(prefix, chr(ord("A") + len(seen)) if len(seen) < 26 else f"A{len(seen)}")
    return [seen[tuple(branch["codes"][:depth])] for branch in branches]
