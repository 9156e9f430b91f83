"""sidkit search train: a model that writes the semantic IDs of items for a query."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ...errors import SpecError
from ..inputs import sids_from
from ..options import BadRows, Device, InsistOnBoth, Json, Location, Output, location
from ..outputs import require_folder
from ..parsing import require_seed
from .options import Bad
from .printing import print_left_out
from .shared import ShopFolder


def train(
    shop: ShopFolder,
    item_sids: Annotated[
        Location,
        typer.Argument(
            help="Semantic IDs of the items, by item_id", show_default=False, parser=location, metavar="ITEM_SIDS"
        ),
    ],
    query_sids: Annotated[
        Location,
        typer.Argument(
            help="Semantic IDs of the queries, by query_id", show_default=False, parser=location, metavar="QUERY_SIDS"
        ),
    ],
    output: Output,
    tokenizer: Annotated[
        Path | None, typer.Option("--tokenizer", help="Tokenizer of the SIDs; SID tokens start from its centroids")
    ] = None,
    alignment: Annotated[
        Path | None, typer.Option("--alignment", help="Output of `sidkit search align`, to encode new queries")
    ] = None,
    encoder: Annotated[
        Path | None, typer.Option("--encoder", help="Encoder of the texts, to encode new queries")
    ] = None,
    preset: Annotated[str, typer.Option("--preset", help="Size of the BART: tiny, small, base (the paper's)")] = "base",
    config: Annotated[
        Path | None, typer.Option("--config", help="config.json of a BART, for its sizes [default: by --preset]")
    ] = None,
    start: Annotated[
        Path | None, typer.Option("--start", help="Local folder of a BART with its tokenizer [default: fresh weights]")
    ] = None,
    epochs: Annotated[
        str, typer.Option("--epochs", help="Passes of the three stages: content, pairs, personal")
    ] = "4,3,6",
    batch: Annotated[
        int | None, typer.Option("--batch", help="Examples per step [default: 512; small 128, tiny 64]")
    ] = None,
    learning_rate: Annotated[
        float | None, typer.Option("--learning-rate", help="Of AdamW [default: 5e-05; small 5e-04, tiny 1e-03]")
    ] = None,
    warmup: Annotated[
        int | None,
        typer.Option("--warmup", help="Steps over which the learning rate rises [default: 0; small 100, tiny 20]"),
    ] = None,
    decay: Annotated[
        str | None,
        typer.Option(
            "--decay",
            help="How the learning rate falls over a stage: none, linear [default: none; small and tiny linear]",
        ),
    ] = None,
    weight_decay: Annotated[float, typer.Option("--weight-decay", help="Of AdamW")] = 0.01,
    words: Annotated[int, typer.Option("--words", help="Size of the vocabulary of texts, without --start")] = 16_000,
    longest: Annotated[int, typer.Option("--longest", help="Maximum number of tokens of an input")] = 128,
    templates: Annotated[
        str, typer.Option("--templates", help="What the model reads and writes: en, zh, or a TOML file")
    ] = "en",
    from_centroids: Annotated[
        bool, typer.Option("--from-centroids/--from-random", help="How SID tokens start, with --tokenizer")
    ] = True,
    positives: Annotated[
        str, typer.Option("--positives", help="Items that the last stage answers with: both, clicks, orders")
    ] = "both",
    history: Annotated[int, typer.Option("--history", help="Latest clicks of a user that are read")] = 5,
    long_history: Annotated[int, typer.Option("--long-history", help="Clicks in the long SID of a user")] = 50,
    recent_queries: Annotated[int, typer.Option("--recent-queries", help="Latest queries of a user")] = 3,
    history_vectors: Annotated[
        int,
        typer.Option(
            "--history-vectors", help="Number of vectors that sum up the long history before an input; 0 for none"
        ),
    ] = 0,
    item_vectors: Annotated[
        str | None, typer.Option("--item-vectors", help="Vectors of the items, by item_id, for --history-vectors")
    ] = None,
    cold_users: Annotated[
        str,
        typer.Option(
            "--cold-users", help="SIDs of a user without clicks: query, from what was clicked for it, or none"
        ),
    ] = "query",
    beams: Annotated[int, typer.Option("--beams", help="SIDs generated for a query")] = 128,
    precision: Annotated[
        str,
        typer.Option("--precision", help="Precision of matrix products on a GPU: auto (bfloat16), bfloat16, float32"),
    ] = "auto",
    seed: Annotated[int, typer.Option("--seed", help="Seed of initial weights, order of examples and dropout")] = 0,
    bad_rows: Bad = BadRows.error,
    device: Device = "auto",
    resume: Annotated[bool, typer.Option("--resume", help="Resume a training that was stopped")] = False,
    force: InsistOnBoth = False,
    as_json: Json = False,
) -> None:
    """sidkit search train shop sids.parquet query-sids.parquet -o run/ --preset tiny --epochs 1,1,2

    Train a BART in the three stages of OneSearch: texts and SIDs of queries and items, queries with the items that were
    clicked for them, and queries of users with what is known of them. It answers with the SIDs of items. The defaults
    of the base model are the paper's; tiny and small ones start from nothing and take more steps, and larger ones. SIDs
    of queries and items come from one tokenizer, for instance by these:

    sidkit fit aligned/items.parquet --queries aligned/queries.parquet --repeats train_records -o tok/ --sizes 64-32-16

    sidkit encode tok/ aligned/items.parquet -o sids.parquet

    sidkit encode tok/ aligned/queries.parquet -o query-sids.parquet

    With --tokenizer tok --alignment aligned --encoder items-emb.encoder the model gives SIDs to new queries too, and
    the tokens of SIDs start from centroids.
    """
    from ...errors import need

    need("torch", "search", "training a search model")
    from ...engine.device import find_device
    from ...search.model.store import SEARCH_MODEL
    from ...search.model.trainer import train_search
    from ...search.read.left_out import LeftOut
    from ...search.shop import Shop
    from ...search.training.corpus import SearchData
    from ...search.training.plan import plan_for
    from ..printing import command_line
    from ..terminal import Terminal

    require_seed(seed)
    plan = plan_for(
        preset if config is None and start is None else "base", shape=_shape(config, start),
        epochs=_epochs(epochs), batch=batch, learning_rate=learning_rate, warmup=warmup, decay=decay,
        weight_decay=weight_decay, words=words, longest=longest, templates=templates, from_centroids=from_centroids,
        history=history, recent_queries=recent_queries, long_history=long_history, history_vectors=history_vectors,
        cold_users=cold_users, beams=beams, precision=precision, seed=seed,
    )  # fmt: skip
    item_embeddings = _item_embeddings(item_vectors, history_vectors)
    require_folder(output, SEARCH_MODEL.check_target, force, quiet=resume)
    query_encoder, fitted = _parts(tokenizer, alignment, encoder)
    tables = sids_from(item_sids, tokenizer, force), sids_from(query_sids, tokenizer, force)
    left_out = LeftOut(output.parent / f"{output.name}.left-out.tsv", bad_rows is BadRows.drop)
    data = SearchData.of(Shop.open(shop), *tables, left_out, positives)
    data = data if item_embeddings is None else data.with_item_vectors(item_embeddings)
    left_out.write()
    if preset != "tiny" and config is None and find_device(device) == "cpu":
        print(f"the {preset} model takes hours on a CPU; --preset tiny is the size to start with", file=sys.stderr)
    with Terminal() as progress:
        model = train_search(data, output, plan, fitted, query_encoder, start, device, progress, resume)
    facts = {**model.facts, "left_out": left_out.facts()}
    if as_json:
        print(json.dumps({"output": str(output), **facts}))
        return
    _print_training(facts, left_out)
    if query_encoder is None:
        print("new queries get no SID: the model was trained without --tokenizer and --encoder", file=sys.stderr)
    near = () if alignment is None else ("--vectors", alignment)
    print(f"wrote {output}; next: {command_line('search', 'evaluate', output, shop, *near)}")


def _parts(tokenizer: Path | None, alignment: Path | None, encoder: Path | None) -> tuple[Any, Any]:
    """The encoder of new queries, if all of its parts are given; and the tokenizer."""
    from ...embed.store import load as load_encoder
    from ...search.align.alignment import Alignment
    from ...search.model.query_sids import QueryEncoder
    from ...tokenizer.tokenizer import load as load_tokenizer

    if tokenizer is None:
        for name, value in (("--encoder", encoder), ("--alignment", alignment)):
            if value is not None:
                raise SpecError(f"{name} serves to encode new queries, which needs --tokenizer too")
        return None, None
    fitted = load_tokenizer(tokenizer)
    if encoder is None:
        if alignment is not None:
            raise SpecError("--alignment serves to encode new queries, which needs --encoder too")
        return None, fitted
    aligned = None if alignment is None else Alignment.load(alignment)
    return QueryEncoder(load_encoder(encoder), aligned, fitted), fitted


def _item_embeddings(path: str | None, history_vectors: int) -> Any:
    from ...data.embeddings import open_embeddings

    if bool(history_vectors) != (path is not None):
        raise SpecError("--history-vectors and --item-vectors belong together: name both or none")
    return None if path is None else open_embeddings(path)


def _print_training(facts: dict[str, Any], left_out: Any) -> None:
    print_left_out(left_out.facts(), left_out.listing)
    losses = ", ".join(f"{one['stage']} {one['loss']:.3f}" for one in _last_of_each(facts["losses"]))
    print(f"trained on {sum(facts['examples'].values()):,} examples in {facts['seconds']:,.0f} s; loss: {losses}")


def _shape(config: Path | None, start: Path | None) -> Any:
    """The sizes that a config states; None without one."""
    from ...search.bart.shape import shape_in

    if config is not None and start is not None:
        raise SpecError("--config is for fresh weights, and --start has a config of its own; give one of them")
    return None if config is None else shape_in(config)


def _epochs(text: str) -> Any:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise SpecError(f"--epochs are three numbers, separated by commas, such as 4,3,6, not {text!r}") from error


def _last_of_each(losses: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return list({one["stage"]: one for one in losses}.values())
