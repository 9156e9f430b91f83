"""Options that the commands of sidkit search share, and how a reader is run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..options import BadRows
from ..outputs import require_folder
from ..parsing import require_seed

if TYPE_CHECKING:
    from ...progress import Progress
    from ...search.read.assemble import ReadOptions

Items = Annotated[str, typer.Option("--items", help="Parquet file of the items", show_default=False)]
Queries = Annotated[
    str | None, typer.Option("--queries", help="Parquet file of the queries' texts, where the other file has their ids")
]
Unknown = Annotated[
    BadRows,
    typer.Option("--unknown", help="Items of the log that are not in --items: stop, or leave them out and list them"),
]
Bad = Annotated[
    BadRows, typer.Option("--bad-rows", help="Rows that cannot be used: stop, or leave them out and list them")
]
Pairs = Annotated[int, typer.Option("--pairs", help="Maximum number of test pairs of clicks, and of orders")]
Seed = Annotated[int, typer.Option("--seed", help="Which test pairs are drawn, and which groups for the test")]
DrawnShare = Annotated[float, typer.Option("--test-share", help="Share that is drawn for the test")]
IdColumn = Annotated[str | None, typer.Option("--id-column", help="Column of ids of the items [default: detected]")]
TitleColumn = Annotated[str | None, typer.Option("--title-column", help="Column of titles [default: detected]")]
TextColumn = Annotated[
    str | None, typer.Option("--text-column", help="Column to embed [default: text, else title, brand, categories]")
]
ItemColumn = Annotated[
    str | None, typer.Option("--item-column", help="Column of items in the other file [default: detected]")
]
QueryColumn = Annotated[str | None, typer.Option("--query-column", help="Column of queries [default: detected]")]
QueryTextColumn = Annotated[
    str | None, typer.Option("--query-text-column", help="Column of texts in --queries [default: detected]")
]
SplitColumn = Annotated[
    str | None, typer.Option("--split-column", help="Column with train and test [default: split, if it is there]")
]

PerSid = Annotated[int, typer.Option("--per-sid", help="Maximum number of items per SID")]
Score = Annotated[str, typer.Option("--score", help="What ranks the items of a SID: composite, ctr, cvr, none")]
Smoothing = Annotated[float, typer.Option("--smoothing", help="What --score adds to the counts of an item")]
Availability = Annotated[
    bool, typer.Option("--availability/--no-availability", help="Whether items that were shown come first")
]


def reader_options(
    test_share: float, test_from: int | None, pairs: int, seed: int, unknown: BadRows, bad_rows: BadRows
) -> ReadOptions:
    from ...search.read.assemble import ReadOptions

    require_seed(seed)
    return ReadOptions(test_share, test_from, pairs, seed, unknown is BadRows.drop, bad_rows is BadRows.drop)


def run_reader(
    read: Callable[[Path, Progress], dict[str, Any]],
    output: Path,
    options: ReadOptions,
    as_json: bool,
    *inputs: str | Path | None,
    resume: bool = False,
    force: bool = False,
) -> None:
    """Read and print what was written. inputs: files that the output must not replace."""
    from ...files.unfinished import Unfinished
    from ...search.shop.write import require_shop_folder
    from ..terminal import Terminal
    from .printing import print_shop

    require_folder(output, lambda folder: require_shop_folder(folder, *inputs), force, quiet=resume)
    with Unfinished(output, resume) as scratch, Terminal() as progress:
        facts = read(scratch, progress)
    print_shop(output, facts, as_json, options.left_out(output).listing)
