"""sidkit import: semantic IDs that someone else made."""

import json
from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError, SpecError, count_of
from .options import Force, Json, TableOutput
from .outputs import TABLES, require_file
from .parsing import read_sizes


def import_(
    file: Annotated[Path, typer.Argument(help="The file or folder to read", show_default=False)],
    source: Annotated[str, typer.Option("--from", help="Its format; `sidkit export --list` marks those that are read")],
    output: TableOutput,
    ids: Annotated[
        Path | None, typer.Option("--ids", help="item_ids.parquet (row, item_id), where the file knows rows alone")
    ] = None,
    sizes: Annotated[
        str | None, typer.Option("--sizes", help="Codewords per level [default: the file's, or its largest codes]")
    ] = None,
    levels: Annotated[int | None, typer.Option("--levels", help="Tokens to take of every item [default: all]")] = None,
    first: Annotated[int, typer.Option("--first", help="The number of the first code")] = 0,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """sidkit import lc-rec/items.index.json --from lc-rec -o imported.parquet

    Read semantic IDs that someone else made, print how good they are, and write them as `sidkit encode` would: every
    command takes them from there.
    """
    from ..export.imports import Foreign, named_ids
    from ..export.registry import all_targets, target_named
    from ..report.evidence import gather
    from .printing import print_report
    from .terminal import plain

    target = target_named(source)
    if target.read is None:
        known = ", ".join(one.name for one in all_targets() if one.read)
        raise SpecError(f"files of {target.name} do not hold everything, so they cannot be imported (known: {known})")
    if levels is not None and levels < 1:
        raise SpecError(f"--levels must be at least 1, not {levels}")
    if not file.exists():
        raise InputError(f"no such file or folder: {file}")
    if file.is_dir() and not target.folder:
        raise InputError(f"{file} is a folder; name the file in it: {target.reads}")
    require_file(output, ids, endings=TABLES, force=force)
    how = Foreign(levels, read_sizes(sizes), first)
    table = target.read(file, how)
    beside = (file if file.is_dir() else file.parent) / "item_ids.parquet"
    if ids is not None:
        table = named_ids(table, ids)
    elif beside.is_file():
        how.notes.append(f"items have the numbers of the file; --ids {beside} gives them their ids")
    facts = gather(table).facts
    table.to_file(output)
    if as_json:
        print(json.dumps({"output": str(output), "notes": how.notes, **facts}))
        return
    for note in how.notes:
        print(plain(f"note: {note}"))
    print_report(facts)
    print(f"wrote {count_of(len(table), 'semantic ID')} to {output}")


import_.__name__ = "import"  # a word that Python keeps for itself
