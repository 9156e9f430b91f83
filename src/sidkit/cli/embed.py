"""sidkit embed: embeddings of texts."""

import json
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InputError, SpecError, count_of
from .columns import ColumnNotes
from .options import Force, IdColumn, Json, Location, location
from .outputs import TABLES, require_file
from .ray import HERE, Cpus, Ray, Workers, require_ray

if TYPE_CHECKING:
    from ..embed.on_ray import RayEmbeds


def embed(
    items: Annotated[
        str | None, typer.Argument(help="Parquet, CSV or JSON lines with ids and texts", show_default=False)
    ] = None,
    text: Annotated[
        list[str] | None, typer.Option("--text", help="Column of texts; several are joined", show_default="title")
    ] = None,
    output: Annotated[
        Location | None,
        typer.Option(
            "--output", "-o", help="File to write: .parquet, .csv, .tsv or .jsonl", parser=location, metavar="PATH"
        ),
    ] = None,
    model: Annotated[
        str, typer.Option("--model", help="wordllama, tfidf, or a sentence-transformers model by name or folder")
    ] = "wordllama",
    encoder: Annotated[
        Path | None, typer.Option("--encoder", help="Encoder that an earlier run saved, instead of a model")
    ] = None,
    query: Annotated[
        list[str] | None, typer.Option("--query", help="Embed this text with --encoder and print JSON lines")
    ] = None,
    queries: Annotated[bool, typer.Option("--queries", help="The texts of the file are queries, not items")] = False,
    dimensions: Annotated[
        int | None, typer.Option("--dimensions", help="Keep the first N dimensions [default: all]")
    ] = None,
    device: Annotated[str | None, typer.Option("--device", help="For sentence-transformers: cpu, cuda")] = None,
    download: Annotated[
        bool, typer.Option("--allow-download", help="Fetch --model by its name, if it is not on this machine")
    ] = False,
    id_column: IdColumn = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume a run that was stopped")] = False,
    force: Force = False,
    ray: Ray = None,
    workers: Workers = None,
    cpus: Cpus = 1,
    as_json: Json = False,
) -> None:
    """sidkit embed items.parquet --text title -o embeddings.parquet

    Turn a column of texts into embeddings that `sidkit fit` reads. The encoder is saved beside them, so that queries
    are embedded as the items were, and get SIDs by a tokenizer that was fitted on these embeddings:

    sidkit fit embeddings.parquet -o tok-a/

    sidkit embed --query 'red shoes' --encoder embeddings.encoder | sidkit encode tok-a/ - -o -

    With --ray the workers of a cluster embed parts of the texts, and the files are the same, to the byte.
    """
    require_ray(ray, workers, cpus)
    if query:
        if encoder is None or items is not None:
            raise SpecError("--query needs --encoder, the folder beside the items' embeddings, and no file of items")
        return _print_queries(encoder, query)
    if items is None or output is None:
        raise SpecError("name a file of items and, with -o, a file to write; or --query and --encoder")
    from ..data.items import find_ids, read_texts
    from ..embed.job import PART, Choice, embed_file
    from ..embed.pair import complete
    from ..files.unfinished import Unfinished
    from .terminal import Terminal

    if not isinstance(output, Path):
        raise SpecError(f"embed saves its encoder beside the embeddings, so {output} must be a path on this machine")
    require_file(output, items, endings=TABLES, force=force)
    if device not in (None, "cpu") and encoder is None and model in ("wordllama", "tfidf"):
        raise SpecError(f"--device is for sentence-transformers; {model} runs on the CPU")
    choice = Choice(model, dimensions, device, encoder, download)
    chosen, notes = find_ids(items, id_column), ColumnNotes()
    notes.add("items", items, (chosen,))
    ids, texts = read_texts(items, text or ["title"], chosen.column)
    complete(output)
    with Unfinished(output, resume) as unfinished, Terminal() as progress, ExitStack() as stack:
        embeds = None
        if ray is not None:
            embeds = _workers(stack, -(-len(texts) // PART), ray, workers, cpus, device)
        facts = embed_file(ids, texts, output, choice, unfinished, progress, queries, str(chosen.column), embeds)
    if as_json:
        print(json.dumps({"output": str(output), **facts, **notes.field()}))
    else:
        notes.print()
        _print(facts, output)
    return None


def _workers(stack: ExitStack, parts: int, ray: str, workers: int | None, cpus: int, device: str | None) -> "RayEmbeds":
    """The workers of a cluster, which are stopped at the end of the block."""
    from ..embed.on_ray import RayEmbeds
    from ..fleet.open import workers_on_ray

    pool = workers_on_ray(parts, None if ray == HERE else ray, workers, cpus, device or "cpu")
    stack.callback(pool.close)
    return RayEmbeds(pool)


def _print(facts: Mapping[str, Any], output: Path) -> None:
    from ..embed import beside
    from .printing import command_line

    if facts["without_text"]:
        print(
            f"{count_of(facts['without_text'], 'item has', 'items have')} no text that the encoder knows; such rows "
            "are zero, and `sidkit fit --bad-rows drop` leaves them out",
            file=sys.stderr,
        )
    drop = {"--bad-rows": "drop" if facts["without_text"] else None}
    count = count_of(facts["items"], "embedding")
    print(f"wrote {count} of {facts['d']} dimensions ({facts['encoder']}) to {output}")
    print(f"      their encoder to {beside(output)}; next: {command_line('fit', output, '-o', 'tok/', options=drop)}")


def _print_queries(folder: Path, queries: list[str]) -> None:
    from ..embed import load

    rows = load(folder).embed(queries, query=True)
    for query, row in zip(queries, rows, strict=True):
        if not row.any():
            raise InputError(f"the encoder {folder} knows no word of {query!r}")
        print(json.dumps({"item_id": query, "embedding": row.tolist()}, ensure_ascii=False))
