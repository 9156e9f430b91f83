"""embed, blend: embeddings from texts, and with what people do beside them."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError, SpecError
from .app import app
from .options import (
    BadRows,
    BadRowsOption,
    Column,
    Embeddings,
    IdColumn,
    Json,
    SequenceColumn,
    fresh_unfinished,
    ids_of,
    open_source,
    place,
    require_file,
)


@app.command()
def embed(
    items: Annotated[
        str | None, typer.Argument(help="Parquet file, folder or glob with ids and texts", show_default=False)
    ] = None,
    text: Annotated[
        list[str] | None, typer.Option("--text", help="Column of texts; several are joined", show_default="title")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Parquet file to write", parser=place)] = None,
    model: Annotated[
        str, typer.Option("--model", help="wordllama, tfidf, or a sentence-transformers model by name or folder")
    ] = "wordllama",
    encoder: Annotated[
        Path | None, typer.Option("--encoder", help="An encoder that an earlier run kept, instead of a model")
    ] = None,
    query: Annotated[
        list[str] | None, typer.Option("--query", help="Embed this text with --encoder and print JSON lines")
    ] = None,
    queries: Annotated[bool, typer.Option("--queries", help="The texts of the file are queries, not items")] = False,
    dimensions: Annotated[int | None, typer.Option("--dimensions", help="Keep so many [default: all]")] = None,
    device: Annotated[str | None, typer.Option("--device", help="For sentence-transformers: cpu, cuda")] = None,
    id_column: IdColumn = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run that was stopped")] = False,
    as_json: Json = False,
) -> None:
    """sidkit embed items.parquet --text title -o embeddings.parquet

    Turn a column of texts into embeddings that `sidkit fit` reads. The encoder is kept beside them, so that queries
    can be embedded as the items were, and get SIDs by a tokenizer that was fitted on these:

    sidkit fit embeddings.parquet -o tok-a/

    sidkit embed --query 'red shoes' --encoder embeddings.encoder | sidkit encode tok-a/ - -o -
    """
    if query:
        if encoder is None or items is not None:
            raise SpecError("--query needs --encoder, the folder beside the items' embeddings, and no file of items")
        return _print_queries(encoder, query)
    if items is None or output is None:
        raise SpecError("name a file of items and, with -o, a file to write; or --query and --encoder")
    from ..data.items import read_texts
    from ..embed import beside
    from ..embed.job import Choice, embed_file
    from ..files.atomic import discard
    from .terminal import Terminal

    _require_parquet(output)
    if not isinstance(output, Path):
        raise SpecError(f"embed keeps its encoder beside the embeddings, so {output} must be a path of this machine")
    require_file(output, items)
    if device not in (None, "cpu") and encoder is None and model in ("wordllama", "tfidf"):
        raise SpecError(f"--device is for sentence-transformers; {model} runs on the CPU")
    choice = Choice(model, dimensions, device, encoder)
    ids, texts = read_texts(items, text or ["title"], id_column)
    unfinished = fresh_unfinished(output, resume)
    with Terminal() as progress:
        facts = embed_file(ids, texts, output, choice, unfinished, progress, queries)
    discard(unfinished)
    if as_json:
        print(json.dumps({"output": str(output), **facts}))
        return None
    if facts["without_text"]:
        print(
            f"{facts['without_text']:,} items have no text that the encoder knows; their rows are zero, and "
            "`sidkit fit --bad-rows drop` leaves them out",
            file=sys.stderr,
        )
    print(f"wrote {facts['items']:,} embeddings of {facts['d']} dimensions ({facts['encoder']}) to {output}")
    print(f"      their encoder to {beside(output)}; next: sidkit fit {output} -o tok/")
    return None


def _print_queries(folder: Path, queries: list[str]) -> None:
    from ..embed import load

    rows = load(folder).embed(queries, query=True)
    for query, row in zip(queries, rows, strict=True):
        if not row.any():
            raise InputError(f"the encoder {folder} knows nothing of {query!r}")
        print(json.dumps({"item_id": query, "embedding": row.tolist()}, ensure_ascii=False))


@app.command()
def blend(
    embeddings: Embeddings,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Parquet file to write", show_default=False, parser=place)
    ],
    sequences: Annotated[
        str | None,
        typer.Option("--sequences", help="Parquet of what people did: lists of items, or events", show_default=False),
    ] = None,
    weight: Annotated[float, typer.Option("--weight", help="Of what people do; the embedding has 1")] = 1.0,
    dimensions: Annotated[int, typer.Option("--dimensions", help="Of the vectors of what people do")] = 128,
    window: Annotated[int, typer.Option("--window", help="Items so far apart in a sequence are taken together")] = 5,
    everything: Annotated[
        bool, typer.Option("--everything", help="Count the last two items of a sequence, which train and judge ask for")
    ] = False,
    like: Annotated[
        str | None,
        typer.Option("--like", help="A blended file: keep its vectors, and give items that it has not zeros"),
    ] = None,
    sequence_column: SequenceColumn = None,
    id_column: IdColumn = None,
    column: Column = None,
    bad_rows: BadRowsOption = BadRows.error,
    as_json: Json = False,
) -> None:
    """sidkit blend items.parquet --sequences sequences.parquet -o blended.parquet

    Put beside every embedding a vector of what the item is taken with, for `sidkit fit`. The last two items of every
    sequence are left out, so that `sidkit judge`, `train` and `evaluate` can ask for them. Items that came later go to
    the same tokenizer with

    sidkit blend new.parquet --like blended.parquet -o more.parquet
    """
    from ..data.sequences import read_sequences
    from ..embed.co_occurrence import blend_file, co_occurrence, require_weight, vectors_of
    from ..rows.checks import require_good_rows
    from .terminal import Terminal

    if (sequences is None) == (like is None):
        raise SpecError("give --sequences, or --like with a file that `sidkit blend` wrote")
    if like is not None and (weight, dimensions, window, everything) != (1.0, 128, 5, False):
        raise SpecError("--like takes vectors as they are; leave out --weight, --dimensions, --window, --everything")
    _require_parquet(output)
    require_file(output, embeddings, sequences, like)
    require_weight(weight)
    with Terminal() as progress:
        source = open_source(embeddings, id_column, column, bad_rows, output, progress)
        ids = ids_of(source)
        if bad_rows is BadRows.error:  # else they are left out already
            require_good_rows(source, progress)
        if like is not None:
            beside, facts = vectors_of(like, ids, source.shape[1])
            told = blend_file(source, beside, 1.0, output, facts, progress)
        else:
            found = read_sequences(str(sequences), ids, sequence_column)
            counted = found.known() if everything else found.known().training()
            beside = co_occurrence(counted, len(ids), dimensions, window, progress)
            facts = {"weight": weight, "window": window, "everything": everything}
            told = blend_file(source, beside, weight, output, facts, progress)
            told |= {"sequences": len(found), "items_unknown": found.unknown_items}
    if as_json:
        print(json.dumps({"output": str(output), **told}))
        return
    if told.get("items_unknown"):
        print(f"{told['items_unknown']:,} items of the sequences have no embedding and were left out", file=sys.stderr)
    if told["alone"]:
        print(
            f"{told['alone']:,} items are taken with no other, or too seldom to tell; they have their embedding alone",
            file=sys.stderr,
        )
    print(f"wrote {told['items']:,} embeddings of {told['d']} + {told['beside']} dimensions to {output}")
    after = f"fit {output} -o tok/, and sidkit encode --spread" if like is None else f"encode tok/ {output}"
    print(f"      next: sidkit {after}")


def _require_parquet(output: Path) -> None:
    from ..data.formats.arrays import READERS

    if str(output) == "-" or output.suffix.lower() in READERS:
        raise SpecError(f"the output is a Parquet file; name it so, not {output}")
