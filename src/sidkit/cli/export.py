"""sidkit export: semantic IDs in the formats that other programs read."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import SpecError, count_of
from .columns import ColumnNotes, visits_from
from .inputs import sids_from
from .options import (
    FileOrder,
    IdColumn,
    InsistOnBoth,
    ItemColumn,
    Items,
    Json,
    Location,
    SequenceColumn,
    SequencesOption,
    TextColumn,
    TimeColumn,
    UserColumn,
    location,
)
from .outputs import require_folder
from .parsing import read_options

if TYPE_CHECKING:
    from ..export.target import ExportTarget
    from ..sids.table import SidTable

Counts = Annotated[
    Location | None,
    typer.Option("--counts", help="Parquet file with how often each item was taken", parser=location, metavar="PATH"),
]


def export(
    sids: Annotated[
        Location | None,
        typer.Argument(help="What `sidkit encode` wrote; not needed for a tokenizer alone", parser=location),
    ] = None,
    to: Annotated[str | None, typer.Option("--to", help="The target; --list names them")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Folder to write", show_default=False)] = None,
    list_targets: Annotated[bool, typer.Option("--list", help="List the targets, or the options of one")] = False,
    tokenizer: Annotated[
        Path | None, typer.Option("--tokenizer", help="The tokenizer of these SIDs, for targets that hold codebooks")
    ] = None,
    items: Items = None,
    text: TextColumn = "title",
    description: Annotated[
        str | None, typer.Option("--description", help="Column of longer texts in --items, where a target holds them")
    ] = None,
    sequences: SequencesOption = None,
    counts: Counts = None,
    count_column: Annotated[str, typer.Option("--count-column", help="Column of counts in --counts")] = "count",
    option: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="An option of the target; may be repeated")
    ] = None,
    sequence_column: SequenceColumn = None,
    item_column: ItemColumn = None,
    user_column: UserColumn = None,
    time_column: TimeColumn = None,
    file_order: FileOrder = False,
    id_column: IdColumn = None,
    force: InsistOnBoth = False,
    as_json: Json = False,
) -> None:
    """sidkit export sids.parquet --to lc-rec -o lc-rec/

    Write semantic IDs as another program reads them. What its format cannot hold is refused, with the reason. The
    folder appears whole or not at all; sidkit-export.json in it tells what was written, from what, with digests.

    sidkit export --list
    """
    from ..data.sequence_columns import SequenceColumns
    from ..export.job import adds_to, check_output
    from ..export.job import export as write_export
    from ..export.registry import target_named
    from ..export.target import ExportJob
    from ..tokenizer.tokenizer import load
    from .terminal import Terminal

    if list_targets:
        _list(to, as_json)
        return
    if to is None or output is None:
        raise SpecError("name a target with --to and a folder with -o; sidkit export --list names the targets")
    target, given = target_named(to), read_options(option)
    target.settings(given)
    require_folder(output, check_output, force, quiet=adds_to(output, target))
    named = SequenceColumns(sequence_column, item_column, user_column, time_column, file_order)
    if sids is None and (items or sequences or counts):
        raise SpecError("--items, --sequences and --counts belong to the items of SIDs; give those as well")
    notes = ColumnNotes()
    table = sids_from(sids, tokenizer, force) if sids is not None else None
    columns = (text, description)
    texts = _texts(table, items, columns, id_column, notes, output) if table is not None and items else {}
    visits = counted = None
    if table is not None and sequences:
        visits = visits_from(sequences, table.ids, named, notes, table.origin.id_column)
    if table is not None and counts:
        counted = _counts(table, counts, count_column, id_column, notes)
    files = {"sids": sids, "tokenizer": tokenizer, "items": items, "sequences": sequences, "counts": counts}
    with Terminal() as progress:
        job = ExportJob(
            table,
            load(tokenizer) if tokenizer else None,
            texts.get(text),
            texts.get(description or ""),
            visits,
            counted,
            given,
            {role: str(path) for role, path in files.items() if path is not None},
            progress,
        )
        record = write_export(to, job, output)
    if as_json:
        print(json.dumps({"output": str(output), **record} | notes.field()))
        return
    notes.print()
    _print(target, record, output)


def _texts(
    table: "SidTable",
    path: Any,
    columns: tuple[str, str | None],
    id_column: str | None,
    notes: ColumnNotes,
    output: Path,
) -> dict[str, Any]:
    """The columns of texts, a pyarrow array each; of many items they are put in order in a scratch file."""
    from ..data.items import find_ids, text_column

    chosen = find_ids(path, id_column, table.ids, table.origin.id_column)
    notes.add("items", path, (chosen,))
    beside = output.absolute().parent
    scratch = beside if beside.is_dir() else None
    wanted = [name for name in columns if name is not None]
    return {name: text_column(path, name, table.ids, chosen.column, scratch) for name in wanted}


def _counts(table: "SidTable", path: Any, column: str, id_column: str | None, notes: ColumnNotes) -> Any:
    from ..data.items import find_ids
    from ..export.counts import read_counts

    chosen = find_ids(path, id_column, table.ids, table.origin.id_column)
    notes.add("counts", path, (chosen,))
    return read_counts(path, column, table.ids, str(chosen.column))


def _list(to: str | None, as_json: bool) -> None:
    """The targets and what they hold, or the options of one."""
    from ..export.registry import all_targets, target_named
    from .printing import print_rows

    targets = [target_named(to)] if to is not None else all_targets()
    if as_json:
        print(json.dumps([_facts(target) for target in targets]))
        return
    if to is None:
        rows = [(one.name, one.reader, one.holds + (" (import)" if one.read else "")) for one in targets]
        print_rows([], ("target", "read by", "holds"), rows)
        return
    target = targets[0]
    options = [
        (one.name, "" if one.default is None else json.dumps(one.default), one.meaning) for one in target.options
    ]
    reads = [f"sidkit import reads: {target.reads}"] if target.read else []
    print_rows(
        [f"{target.name}: read by {target.reader}", f"holds: {target.holds}", *reads, ""],
        ("--set", "default", "meaning"),
        options,
    )


def _facts(target: "ExportTarget") -> dict[str, Any]:
    options = [{"name": one.name, "default": one.default, "meaning": one.meaning} for one in target.options]
    facts = {"name": target.name, "reader": target.reader, "holds": target.holds, "options": options}
    return facts | {"imports": target.reads if target.read else None}


def _print(target: "ExportTarget", record: dict[str, Any], output: Path) -> None:
    from .terminal import plain

    for note in record["notes"]:
        print(plain(f"note: {note}"))
    total = sum(facts["bytes"] for facts in record["files"].values())
    print(plain(f"wrote {count_of(len(record['files']), 'file')} ({total:,} bytes) for {target.reader} to {output}:"))
    for name in list(record["files"])[:20]:
        print(plain(f"  {name}"))
