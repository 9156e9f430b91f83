"""sidkit search read clicks: a shop from counted query-item pairs."""

from enum import StrEnum
from functools import partial
from typing import Annotated

import typer

from ...options import BadRows, Force, Json, Output
from ..options import (
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
    TextColumn,
    TitleColumn,
    Unknown,
    reader_options,
    run_reader,
)


class Together(StrEnum):
    pair = "pair"
    query = "query"


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
    force: Force = False,
    as_json: Json = False,
) -> None:
    """sidkit search read clicks --items shop/items.parquet --clicks shop/click.parquet -o clicked/

    Read a shop from pairs of a query and an item, with the number of clicks. A pair stands for that many searches. This
    command writes pairs to try it on:

    sidkit search simulate -o shop/ --items 2000
    """
    from ....search.read.clicks import ClickFiles, read_clicks

    files = ClickFiles(
        items, clicks, queries, split.value, id_column, title_column, text_column, item_column, query_column,
        query_text_column, count_column,
    )  # fmt: skip
    options = reader_options(test_share, None, pairs, seed, unknown, bad_rows)
    read, inputs = partial(read_clicks, files, output, options), (items, clicks, queries)
    run_reader(read, output, options, as_json, *inputs, force=force)
