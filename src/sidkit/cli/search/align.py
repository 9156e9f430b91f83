"""sidkit search align: queries and items in one space."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ...errors import InputError, count_of
from ..options import Device, Force, Json, Output
from ..outputs import require_folder
from ..parsing import require_seed
from .shared import ShopFolder, shop_table


def align(
    shop: ShopFolder,
    items_embeddings: Annotated[
        str, typer.Option("--items-embeddings", help="Embeddings of the items, by item_id", show_default=False)
    ],
    queries_embeddings: Annotated[
        str, typer.Option("--queries-embeddings", help="Embeddings of the queries, by query_id", show_default=False)
    ],
    output: Output,
    dimensions: Annotated[int, typer.Option("--dimensions", help="Dimensions of the aligned vectors")] = 128,
    hidden: Annotated[int, typer.Option("--hidden", help="Width of a hidden layer; 0 for a linear projection")] = 0,
    towers: Annotated[
        str, typer.Option("--towers", help="shared: one projection for queries and items; separate: one for each")
    ] = "shared",
    l1: Annotated[float, typer.Option("--l1", help="Weight of the query-query loss")] = 1.0,
    l2: Annotated[float, typer.Option("--l2", help="Weight of the item-item loss")] = 1.0,
    l3: Annotated[float, typer.Option("--l3", help="Weight of the query-item loss")] = 1.0,
    temperature: Annotated[float, typer.Option("--temperature", help="Divisor of the cosines in the losses")] = 0.05,
    batch: Annotated[int, typer.Option("--batch", help="Pairs of each kind in a step")] = 512,
    negatives: Annotated[
        int, typer.Option("--negatives", help="Random items in a step, as further negatives of the queries")
    ] = 512,
    epochs: Annotated[int, typer.Option("--epochs", help="Maximum number of passes over the query-item pairs")] = 20,
    patience: Annotated[
        int, typer.Option("--patience", help="Passes without a better recall before training stops")
    ] = 3,
    learning_rate: Annotated[float, typer.Option("--learning-rate", help="Learning rate of AdamW")] = 1e-3,
    held_out: Annotated[
        float, typer.Option("--held-out", help="Share of the clicked queries that is measured and not trained on")
    ] = 0.05,
    start: Annotated[str, typer.Option("--start", help="First weights: pca or random")] = "pca",
    order_weight: Annotated[float, typer.Option("--order-weight", help="An order counts as this many clicks")] = 2.0,
    per_query: Annotated[int, typer.Option("--per-query", help="Maximum number of items per query")] = 20,
    per_item: Annotated[
        int, typer.Option("--per-item", help="Maximum number of queries per item that are compared")
    ] = 20,
    per_session: Annotated[
        int, typer.Option("--per-session", help="Maximum number of items per session that are compared")
    ] = 20,
    neighbours: Annotated[
        int,
        typer.Option(
            "--neighbours", help="Maximum number of neighbours of a query among queries, and of an item among items"
        ),
    ] = 10,
    keywords: Annotated[
        str | None, typer.Option("--keywords", help="Embeddings of keywords, by keyword, to mix into the vectors")
    ] = None,
    keyword_weight: Annotated[
        float, typer.Option("--keyword-weight", help="Share of the keywords in a vector with keywords")
    ] = 0.5,
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same alignment")] = 0,
    device: Device = "auto",
    force: Force = False,
    as_json: Json = False,
) -> None:
    """sidkit search align shop --items-embeddings items-emb.parquet --queries-embeddings queries-emb.parquet -o aligned

    Project the embeddings of queries and items into one space, in which queries are near the items that people click
    for them. Writes items.parquet and queries.parquet, which `sidkit fit` reads, and the projection, which embeds
    queries that come later. These commands, for instance, make the embeddings:

    sidkit embed shop/items.parquet --text text -o items-emb.parquet

    sidkit embed shop/queries.parquet --text query --queries --encoder items-emb.encoder -o queries-emb.parquet

    --keywords keywords-emb.parquet mixes the vectors of keywords into those of the texts that have them:

    sidkit search keywords shop -o keywords.parquet

    sidkit embed keywords.parquet --text keyword --id-column keyword --encoder items-emb.encoder -o keywords-emb.parquet
    """
    from ...files.ours import require_own_folder
    from ...search.align.alignment import FOLDER, AlignPlan
    from ...search.align.job import align as align_shop
    from ...search.align.job import write_aligned
    from ...search.align.pairs import PairOptions
    from ..terminal import Terminal

    require_seed(seed)
    options: dict[str, Any] = {"towers": towers, "start": start, "held_out": held_out, "seed": seed}
    plan = AlignPlan(
        dimensions, hidden, l1=l1, l2=l2, l3=l3, temperature=temperature, batch=batch, negatives=negatives,
        epochs=epochs, patience=patience, learning_rate=learning_rate, **options,
    )  # fmt: skip
    pairs = PairOptions(order_weight, per_query, per_item, per_session, neighbours)
    require_folder(output, lambda folder: require_own_folder(folder, "alignment", FOLDER), force)
    log = shop_table(shop, "log", ("query", "clicked"), ("ordered", "user", "session", "split"))
    items = shop_table(shop, "items", ("item_id",), ("text", "keywords"))
    queries = shop_table(shop, "queries", ("query_id", "query", "train_records"))
    vectors = _embeddings(items_embeddings), _embeddings(queries_embeddings)
    words = _keywords(keywords, keyword_weight)
    with Terminal() as progress:
        made = align_shop(log, items, queries, *vectors, plan, pairs, words, device, progress)
        write_aligned(made, output)
    if as_json:
        print(json.dumps({"output": str(output), **made.facts}))
        return
    _print(made.facts, output)
    empty = [int((~rows.any(axis=1)).sum()) for rows in (made.items, made.queries)]
    if any(empty):
        print(
            f"{count_of(empty[0], 'item')} and {count_of(empty[1], 'query', 'queries')} have embeddings of zeros, "
            "which stay zero; `sidkit fit --bad-rows drop` leaves them out",
            file=sys.stderr,
        )


def _embeddings(path: str) -> Any:
    from ...data.embeddings import open_embeddings

    return open_embeddings(path)


def _keywords(path: str | None, weight: float) -> Any:
    if path is None:
        return None
    from ...search.align.job import Keywords
    from ...search.keywords.matching import require_share

    require_share(weight)
    source = _embeddings(path)
    words = tuple(source.ids.to_pylist())
    if not all(isinstance(word, str) for word in words):
        raise InputError(f"the ids of {path} must be the keywords; embed them with --id-column keyword")
    return Keywords(words, next(iter(source.chunks(source.shape[0]))), weight)


def _print(facts: dict[str, Any], output: Path) -> None:
    from ..printing import command_line

    recall, counts = facts["recall"], facts["pairs"]
    used = ", ".join(f"{count:,} {name.replace('_', '-')}" for name, count in counts.items())
    print(f"trained on {used} pairs; kept epoch {facts['best_epoch']} of {len(facts['history']) - 1}")
    print(
        f"recall@{recall['cut']} of {count_of(recall['pairs'], 'held-out pair')} "
        f"({count_of(recall['queries'], 'query', 'queries')}): "
        f"{recall['before']:.4f} before, {recall['after']:.4f} after"
    )
    files = output / "items.parquet", "--queries", output / "queries.parquet"
    print(f"wrote {output}; next: {command_line('fit', *files, '--repeats', 'train_records', '-o', 'tok/')}")
