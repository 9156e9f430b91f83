"""sidkit blend: co-occurrence vectors beside embeddings."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from ..errors import SpecError
from .options import (
    BadRows,
    BadRowsOption,
    Column,
    Embeddings,
    IdColumn,
    Json,
    SequenceColumn,
    open_source,
    place,
    require_file,
    require_parquet,
)


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
    require_parquet(output)
    require_file(output, embeddings, sequences, like)
    require_weight(weight)
    with Terminal() as progress:
        source = open_source(embeddings, id_column, column, bad_rows, output, progress)
        ids = source.ids
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
