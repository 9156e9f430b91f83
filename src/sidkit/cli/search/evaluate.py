"""sidkit search evaluate: what a search model finds, beside what people use instead."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from ...errors import count_of
from ..options import BadRows, Device, Force, Json
from ..swapped import require_order
from .options import Availability, Bad, PerSid, Score, Smoothing
from .shared import Model, ShopFolder, ranking_options


def evaluate(
    model: Model,
    shop: ShopFolder,
    vectors: Annotated[
        Path | None,
        typer.Option("--vectors", help="Output of `sidkit search align`: adds its nearest neighbours to the table"),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File for the rank of every pair by every system")
    ] = None,
    beams: Annotated[int | None, typer.Option("--beams", help="SIDs per query [default: as trained]")] = None,
    per_sid: PerSid = 5,
    cut: Annotated[int, typer.Option("--cut", help="Maximum number of items per answer")] = 50,
    score: Score = "composite",
    smoothing: Smoothing = 10.0,
    availability: Availability = True,
    bad_rows: Bad = BadRows.error,
    device: Device = "auto",
    force: Force = False,
    as_json: Json = False,
) -> None:
    """sidkit search evaluate run/ shop --vectors aligned

    HitRate and MRR at 50 on the test pairs of clicks and of orders, by class of query where the shop knows it, beside
    BM25, nearest neighbours and counting on the same pairs; and how sure the differences are (paired, by query).
    """
    from ...errors import need

    need("torch", "search", "evaluating a search model")
    from dataclasses import replace

    from ...data.embeddings import open_embeddings
    from ...search.evaluate.evaluation import AlignedVectors, data_of
    from ...search.evaluate.evaluation import evaluate as run
    from ...search.model.model import SearchModel
    from ...search.read.left_out import LeftOut
    from ...search.shop import Shop
    from ..outputs import TABLES, require_file
    from ..terminal import Terminal
    from .print_evaluation import print_evaluation
    from .printing import print_left_out

    ranking = ranking_options(per_sid, cut, score, smoothing, availability)
    if output is not None:
        require_file(output, endings=TABLES, force=force)
    require_order("search evaluate", model=model, shop=shop)
    loaded = replace(SearchModel.load(model, device), ranking=ranking)
    left_out = LeftOut(model.parent / f"{model.name}.left-out.tsv", bad_rows is BadRows.drop)
    data = data_of(loaded, Shop.open(shop), left_out)
    near = None
    if vectors is not None:
        near = AlignedVectors(*(open_embeddings(str(vectors / f"{name}.parquet")) for name in ("items", "queries")))
    with Terminal() as progress:
        result = run(loaded, data, near, beams, progress)
    if left_out.groups:  # else the list of the training stays
        left_out.write()
    if output is not None:
        _write_ranks(result, data, output)
    if as_json:
        figures = {"figures": result.figures(), "differences": result.differences()}
        print(json.dumps({"model": str(model), "shop": str(shop), "cut": cut, "left_out": left_out.facts(), **figures}))
        return
    print_left_out(left_out.facts(), left_out.listing)
    print_evaluation(result)
    if near is None:
        print("nearest neighbours are missing: name their vectors with --vectors")
    if output is not None:
        print(f"wrote the ranks of {count_of(sum(map(len, result.tests.values())), 'pair')} to {output}")


def _write_ranks(result: Any, data: Any, output: Path) -> None:
    """kind, query_id, item_id, intent, and a column for every system: the rank, 0 where the item is not found."""
    import pyarrow as pa

    from ...files.table_formats import write_table

    tables = []
    for kind, test in result.tests.items():
        pairs = data.shop.pairs(kind)
        columns = {"kind": pa.array([kind] * len(test)), "query_id": pairs.column("query_id")}
        columns |= {"item_id": pairs.column("item_id"), "intent": pairs.column("intent")}
        tables.append(pa.table({**columns, **{name: pa.array(ranks) for name, ranks in result.ranks[kind].items()}}))
    write_table(output, pa.concat_tables(tables).replace_schema_metadata({"sidkit.table": "ranks"}))
