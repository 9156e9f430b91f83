"""sidkit case query: the prefix of a query under each tokenizer."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...errors import InputError, SpecError
from ..columns import ColumnNotes, id_column_in, vectors_from
from ..inputs import texts_for
from ..options import Column, Form, IdColumn, Items, Json, TextColumn
from .printing import print_case, print_texts

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ...data.source import Embeddings


def query(
    query: Annotated[str, typer.Argument(help="The text of the query", show_default=False)],
    embeddings: Annotated[str, typer.Argument(help="The items' vectors, as `sidkit embed` wrote them")],
    tokenizers: Annotated[list[Path], typer.Argument(help="Tokenizers fitted on them, one or more")],
    encoder: Annotated[
        Path | None, typer.Option("--encoder", help="The items' encoder [default: the one beside the embeddings]")
    ] = None,
    vector: Annotated[
        str | None,
        typer.Option("--vector", help="The query's vector, in place of an encoder: [0.1, 0.2] or a file with one row"),
    ] = None,
    alignment: Annotated[
        Path | None, typer.Option("--alignment", help="Output of `sidkit search align` that the embeddings are from")
    ] = None,
    level: Annotated[int, typer.Option("--level", help="Tokens of the query's SID that make the prefix")] = 2,
    items: Items = None,
    text: TextColumn = "title",
    id_column: IdColumn = None,
    column: Column = None,
    force: Annotated[
        bool, typer.Option("--force", help="Accept tokenizers that were fitted on other embeddings")
    ] = False,
    form: Form = "table",
    as_json: Json = False,
) -> None:
    """sidkit case query 'red shoes' embeddings.parquet tok-a/ tok-b/ --items items.parquet

    The prefix of a query under each tokenizer: the items that share it, and how many different tokens follow it. The
    query is embedded by the encoder of the items. For aligned vectors name the encoder and the alignment: --encoder
    items-emb.encoder --alignment aligned. A query that was embedded elsewhere
    is given by its vector: --vector query.npy. The files above are made by

    sidkit embed items.parquet -o embeddings.parquet

    sidkit fit embeddings.parquet -o tok-a/

    sidkit fit embeddings.parquet -o tok-b/ -r rq-kmeans
    """
    from ...data.source import id_name_of
    from ...embed import load as load_encoder
    from ...embed.pair import encoder_of
    from ...report.cases import query_case
    from ...search.align.alignment import Alignment
    from ...sids.table import SidTable
    from ...tokenizer.pairs import require_fitted_on
    from ...tokenizer.tokenizer import load
    from ..terminal import Terminal

    notes = ColumnNotes()
    source = vectors_from(embeddings, id_column, column, notes, items)
    if vector is not None and encoder is not None:
        raise SpecError("--vector is the embedded query; leave out --encoder")
    if vector is not None:
        embedded = _given(vector)
    else:
        embedded = load_encoder(encoder or encoder_of(embeddings)).embed([query], query=True)
        if not embedded.any():
            raise InputError(f"the items' encoder knows no word of {query!r}; try other words")
    if alignment is not None:
        embedded = Alignment.load(alignment).queries(embedded, [query])
    if embedded.shape[1] != source.shape[1]:
        whose = "the encoder makes" if vector is None else "--vector has"
        raise InputError(f"{whose} {embedded.shape[1]} dimensions, but {embeddings} has {source.shape[1]}")
    of_items = id_column_in(id_column, items, embeddings) if items else None
    texts = texts_for(items, text, source.ids, of_items, notes, id_name_of(source)) if items else None
    cases = {}
    loaded = {path: load(path) for path in tokenizers}
    for path, fitted in loaded.items():
        if not force:
            require_fitted_on(fitted, path, source, embeddings)
    with Terminal() as progress:
        for path, fitted in loaded.items():
            table = SidTable(source.ids, fitted.encode(source, progress=progress), fitted.sizes)
            cases[path.name] = query_case(query, fitted.encode(embedded)[0].tolist(), table, level, texts)
    cases = {name: case | notes.field() for name, case in cases.items()}
    head = ["tokenizer", "prefix", f"items under L{level} prefix", "distinct next tokens", "keywords"]
    rows = [[name, *_query_cells(case)] for name, case in cases.items()]
    lines = [f"the prefix of {query!r}, by its first {level} tokens"]
    print_case(form, as_json, cases, head, rows, lines, notes)
    if form == "table" and not as_json:
        _print_matches(cases)


def _given(vector: str) -> "NDArray[np.float32]":
    """The vector of --vector as one row: numbers in brackets, or a file of embeddings with one row."""
    import numpy as np

    from ...data.embeddings import open_embeddings
    from ...data.json_lines import read_json_lines

    source: Embeddings
    if vector.lstrip().startswith("["):
        try:
            source = read_json_lines([vector])
        except InputError as error:
            raise InputError(f"--vector must be numbers in brackets: {error.typed}") from None
    else:
        source = open_embeddings(vector)
    if source.shape[0] != 1:
        raise InputError(f"--vector needs one vector, but {vector} has {source.shape[0]:,}")
    row: NDArray[np.float32] = np.asarray(source.take(np.zeros(1, np.int64)), np.float32)
    if not np.isfinite(row).all() or not row.any():
        raise InputError("--vector must hold finite numbers that are not all zero")
    return row


def _query_cells(case: Mapping[str, Any]) -> list[str]:
    following = "–" if case["next_tokens"] is None else str(case["next_tokens"])
    return [case["prefix"], f"{case['items']:,}", following, "; ".join(case["words"])]


def _print_matches(cases: Mapping[str, Mapping[str, Any]]) -> None:
    """Under each tokenizer, how many items share one token with the query, two, and so on."""
    from ..terminal import plain

    for name, case in cases.items():
        shared = [f"{depth} with {count:,}" for depth, count in enumerate(case["items_per_level"], 1)]
        print(f"\n{plain(name)}: {case['sid']}; tokens shared with items: {', '.join(shared)}")
        print_texts(case["branches"], [branch["prefix"] for branch in case["branches"]])
