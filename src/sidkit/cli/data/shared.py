"""What the commands of `sidkit data` share: options, the run, and what is printed."""

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...errors import count_of
from ..options import BadRows
from ..outputs import require_folder

if TYPE_CHECKING:
    from ...data.public.lines import BadLines
    from ...progress import Progress

Core = Annotated[int, typer.Option("--core", help="Events that every user and item must have; 1 keeps all")]
BadLineOption = Annotated[
    BadRows, typer.Option("--bad-rows", help="Lines that cannot be read: stop, or leave them out and list them")
]


def run_data(
    read: "Callable[[BadLines, Progress], dict[str, Any]]",
    output: Path,
    bad_rows: BadRows,
    force: bool,
    as_json: bool,
    *inputs: Path,
) -> None:
    """Read, write the folder and print its counts."""
    from ...data.public.lines import BadLines
    from ...data.public.write import require_dataset_folder
    from ..terminal import Terminal

    require_folder(output, lambda folder: require_dataset_folder(folder, *inputs), force)
    bad = BadLines(bad_rows is BadRows.drop)
    with Terminal() as progress:
        facts = read(bad, progress)
    if bad.found:
        from ...data.bad_rows import write_listing

        listing = output.parent / f"{output.name}.bad-rows.tsv"
        write_listing(listing, ("file", "line", "reason"), bad.found)
        print(f"left out {count_of(len(bad.found), 'bad line')}, listed in {listing}", file=sys.stderr)
    if as_json:
        print(json.dumps({"output": str(output), **facts}, ensure_ascii=False))
    else:
        _print(output, facts)


def _print(output: Path, facts: Mapping[str, Any]) -> None:
    from ..printing import command_line

    if facts["items_without_metadata"]:
        print(f"{count_of(facts['items_without_metadata'], 'item has', 'items have')} no metadata", file=sys.stderr)
    print(f"      read: {_counted(facts['read'])}")
    print(f"      {facts['core']}-core: {_counted(facts)}")
    print(f"wrote {output / 'items.parquet'} and {output / 'sequences.parquet'}")
    vectors = output / "embeddings.parquet"
    print(f"      next: {command_line('embed', output / 'items.parquet', '--text', 'text', '-o', vectors)}")


def _counted(counts: Mapping[str, int]) -> str:
    """19,412 users, 11,924 items, 167,597 interactions"""
    return ", ".join(count_of(counts[f"{name}s"], name) for name in ("user", "item", "interaction"))
