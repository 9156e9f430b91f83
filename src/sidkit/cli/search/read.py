"""sidkit search read: a shop from released or exported data."""

from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...errors import InputError
from ..options import BadRows, Json, Output
from .options import (
    Bad,
    DrawnShare,
    IdColumn,
    ItemColumn,
    Items,
    Pairs,
    Queries,
    QueryColumn,
    QueryTextColumn,
    Seed,
    SplitColumn,
    TextColumn,
    TitleColumn,
    Unknown,
    reader_options,
    run_reader,
)

if TYPE_CHECKING:
    from ...progress import Progress


class Together(StrEnum):
    pair = "pair"
    query = "query"


def log(
    items: Items,
    log: Annotated[str, typer.Option("--log", help="Parquet file of the log", show_default=False)],
    output: Output,
    queries: Queries = None,
    users: Annotated[str | None, typer.Option("--users", help="Parquet file of the users' profiles")] = None,
    gap: Annotated[
        float, typer.Option("--gap", help="Pause that ends a session: seconds, or the unit of times that are integers")
    ] = 1800.0,
    test_share: Annotated[
        float | None, typer.Option("--test-share", help="Share of searches, the latest, for the test [default: 0.1]")
    ] = None,
    test_from: Annotated[
        int | None,
        typer.Option("--test-from", help="Time from which searches are for the test [default: by the share]"),
    ] = None,
    pairs: Pairs = 30_000,
    seed: Seed = 0,
    unknown: Unknown = BadRows.error,
    bad_rows: Bad = BadRows.error,
    id_column: IdColumn = None,
    title_column: TitleColumn = None,
    text_column: TextColumn = None,
    item_column: ItemColumn = None,
    query_column: QueryColumn = None,
    query_text_column: QueryTextColumn = None,
    user_column: Annotated[
        str | None, typer.Option("--user-column", help="Column of users [default: detected]")
    ] = None,
    session_column: Annotated[
        str | None, typer.Option("--session-column", help="Column of sessions [default: detected, else by --gap]")
    ] = None,
    time_column: Annotated[
        str | None, typer.Option("--time-column", help="Column of times: integers or timestamps [default: detected]")
    ] = None,
    split_column: SplitColumn = None,
    as_json: Json = False,
) -> None:
    """sidkit search read log --items shop/items.parquet --log shop/log.parquet -o again/

    Read a shop from a log of searches. A row is a search with lists of items (clicked, and perhaps shown and ordered),
    or an item that was clicked, with its user, query, query_time and click_time. The test part is the latest, unless
    the log has a column that splits it and neither --test-share nor --test-from is given. This command writes a log to
    try it on:

    sidkit search simulate -o shop/ --items 2000
    """
    from ...search.read.log import LogFiles, read_log

    named = {"item": item_column, "query": query_column, "user": user_column, "session": session_column}
    named |= {"time": time_column, "split": split_column}
    by_time = test_share is not None or test_from is not None
    files = LogFiles(
        items, log, queries, users, gap, by_time, id_column, title_column, text_column, query_text_column,
        {ours: theirs for ours, theirs in named.items() if theirs is not None},
    )  # fmt: skip
    options = reader_options(0.1 if test_share is None else test_share, test_from, pairs, seed, unknown, bad_rows)
    run_reader(
        partial(read_log, files, output, options),
        output,
        options,
        as_json,
        items,
        log,
        queries,
        users,
    )


def clicks(
    items: Items,
    clicks: Annotated[str, typer.Option("--clicks", help="Parquet file of query, item and count", show_default=False)],
    output: Output,
    queries: Queries = None,
    split: Annotated[Together, typer.Option("--split", help="What the split keeps together")] = Together.pair,
    test_share: DrawnShare = 0.1,
    pairs: Pairs = 30_000,
    seed: Seed = 0,
    unknown: Unknown = BadRows.error,
    bad_rows: Bad = BadRows.error,
    id_column: IdColumn = None,
    title_column: TitleColumn = None,
    text_column: TextColumn = None,
    item_column: ItemColumn = None,
    query_column: QueryColumn = None,
    query_text_column: QueryTextColumn = None,
    count_column: Annotated[
        str | None, typer.Option("--count-column", help="Column of counts [default: detected, else 1 each]")
    ] = None,
    as_json: Json = False,
) -> None:
    """sidkit search read clicks --items shop/items.parquet --clicks shop/click.parquet -o clicked/

    Read a shop from pairs of a query and an item, with the number of clicks. A pair stands for that many searches. This
    command writes pairs to try it on:

    sidkit search simulate -o shop/ --items 2000
    """
    from ...search.read.clicks import ClickFiles, read_clicks

    files = ClickFiles(
        items, clicks, queries, split.value, id_column, title_column, text_column, item_column, query_column,
        query_text_column, count_column,
    )  # fmt: skip
    options = reader_options(test_share, None, pairs, seed, unknown, bad_rows)
    run_reader(partial(read_clicks, files, output, options), output, options, as_json, items, clicks, queries)


def judgements(
    items: Items,
    judgements: Annotated[
        str, typer.Option("--judgements", help="Parquet file of query, item, label and split", show_default=False)
    ],
    output: Output,
    queries: Queries = None,
    label_min: Annotated[
        float | None, typer.Option("--label-min", help="Pairs with at least this label count as clicked")
    ] = None,
    test_share: DrawnShare = 0.1,
    pairs: Pairs = 30_000,
    seed: Seed = 0,
    unknown: Unknown = BadRows.error,
    bad_rows: Bad = BadRows.error,
    id_column: IdColumn = None,
    title_column: TitleColumn = None,
    text_column: TextColumn = None,
    item_column: ItemColumn = None,
    query_column: QueryColumn = None,
    query_text_column: QueryTextColumn = None,
    label_column: Annotated[
        str | None, typer.Option("--label-column", help="Column of labels [default: detected]")
    ] = None,
    split_column: SplitColumn = None,
    as_json: Json = False,
) -> None:
    """sidkit search read judgements --items shop/items.parquet --judgements shop/order.parquet -o judged/

    Read a shop from pairs that people judged: a query, an item, and a label of how well they fit. Every query is a
    search that showed the judged items; those with a label of at least --label-min were clicked, and all of them where
    there are no labels. Without a column that splits the pairs, queries are drawn for the test. This command writes
    pairs to try it on:

    sidkit search simulate -o shop/ --items 2000
    """
    from ...search.read.judgements import JudgementFiles, read_judgements

    files = JudgementFiles(
        items, judgements, queries, label_min, id_column, title_column, text_column, item_column, query_column,
        query_text_column, label_column, split_column,
    )  # fmt: skip
    options = reader_options(test_share, None, pairs, seed, unknown, bad_rows)
    inputs = (items, judgements, queries)
    run_reader(partial(read_judgements, files, output, options), output, options, as_json, *inputs)


def kuaisearch(
    folder: Annotated[Path, typer.Argument(help="Folder with items, recall, rank, users and relevance as JSON lines")],
    output: Output,
    lite: Annotated[
        bool, typer.Option("--lite", help="Read the files of the smaller release, items_lite and so on")
    ] = False,
    prices: Annotated[
        bool, typer.Option("--prices/--no-prices", help="Whether to read rank, most of the bytes, for the prices")
    ] = True,
    test_share: Annotated[
        float, typer.Option("--test-share", help="Share of searches, the latest, for the test")
    ] = 0.1,
    test_from: Annotated[
        int | None,
        typer.Option("--test-from", help="Time index from which searches are for the test [default: by the share]"),
    ] = None,
    pairs: Pairs = 30_000,
    seed: Seed = 0,
    unknown: Unknown = BadRows.error,
    bad_rows: Bad = BadRows.error,
    resume: Annotated[bool, typer.Option("--resume", help="Resume a read that was stopped")] = False,
    as_json: Json = False,
) -> None:
    """sidkit search read kuaisearch kuaisearch/ -o shop/

    Read a shop from KuaiSearch as it is released, full or lite. Files are read in parts that stay in SHOP.unfinished
    until the shop is written; --resume continues from there. This command writes files in the same form:

    sidkit search simulate -o kuaisearch/ --items 2000 --layout kuaisearch
    """
    from ...search.read.kuaisearch import KuaiSearchFiles, read_kuaisearch

    options = reader_options(test_share, test_from, pairs, seed, unknown, bad_rows)
    given = KuaiSearchFiles(folder, lite, prices)

    def read(scratch: Path, progress: "Progress") -> dict[str, Any]:
        try:
            return read_kuaisearch(given, output, options, scratch, progress)
        except InputError as error:
            raise InputError(f"{error}. What was read is kept; --resume does not read it again") from error

    run_reader(read, output, options, as_json, folder, resume=resume)
