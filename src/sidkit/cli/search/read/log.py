"""sidkit search read log: a shop from a log of searches."""

from functools import partial
from typing import Annotated

import typer

from ...options import BadRows, Force, Json, Output
from ..options import (
    Bad,
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
        float | None,
        typer.Option("--test-share", help="Share of the searches that are the test: the latest [default: 0.1]"),
    ] = None,
    test_from: Annotated[
        int | None,
        typer.Option("--test-from", help="Time from which searches are the test [default: by the share]"),
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
    force: Force = False,
    as_json: Json = False,
) -> None:
    """sidkit search read log --items shop/items.parquet --log shop/log.parquet -o again/

    Read a shop from a log of searches. A row is a search with lists of items (clicked, and perhaps shown and ordered),
    or an item that was clicked, with its user, query, query_time and click_time. The test part is the latest, unless
    the log has a column that splits it and neither --test-share nor --test-from is given. This command writes a log to
    try it on:

    sidkit search simulate -o shop/ --items 2000
    """
    from ....search.read.log import LogFiles, read_log

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
        force=force,
    )
