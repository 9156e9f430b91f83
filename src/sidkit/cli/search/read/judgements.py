"""sidkit search read judgements: a shop from judged query-item pairs."""

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
    SplitColumn,
    TextColumn,
    TitleColumn,
    Unknown,
    reader_options,
    run_reader,
)


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
    force: Force = False,
    as_json: Json = False,
) -> None:
    """sidkit search read judgements --items shop/items.parquet --judgements shop/order.parquet -o judged/

    Read a shop from pairs that people judged: a query, an item, and a label of how well they fit. Every query is a
    search that showed the judged items; those with a label of at least --label-min were clicked, and all of them where
    there are no labels. Without a column that splits the pairs, queries are drawn for the test. This command writes
    pairs to try it on:

    sidkit search simulate -o shop/ --items 2000
    """
    from ....search.read.judgements import JudgementFiles, read_judgements

    files = JudgementFiles(
        items, judgements, queries, label_min, id_column, title_column, text_column, item_column, query_column,
        query_text_column, label_column, split_column,
    )  # fmt: skip
    options = reader_options(test_share, None, pairs, seed, unknown, bad_rows)
    inputs = (items, judgements, queries)
    read = partial(read_judgements, files, output, options)
    run_reader(read, output, options, as_json, *inputs, force=force)
