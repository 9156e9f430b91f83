"""sidkit explore: the tree of semantic IDs, in a browser."""

import json
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import SpecError, count_of
from .columns import ColumnNotes, id_column_in, vectors_from
from .inputs import require_its_tokenizer
from .options import Column, IdColumn, Insist, Items, Json, Location, Sids, TokenizerOption, location

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..explore.pages import Asked, Pages

COMPARED = 100  # items whose SIDs are compared with those of the search model, about


def explore(
    sids: Sids,
    items: Items = None,
    text: Annotated[str, typer.Option("--text", help="Column of --items to show and search")] = "title",
    embeddings: Annotated[
        str | None, typer.Option("--embeddings", help="The items' vectors, as for fit, to find surprises by")
    ] = None,
    compare: Annotated[
        Location | None,
        typer.Option("--compare", help="SIDs of the same items by another tokenizer", parser=location, metavar="PATH"),
    ] = None,
    search: Annotated[
        Path | None, typer.Option("--search", help="A search model, to be asked: folder of `sidkit search train`")
    ] = None,
    host: Annotated[
        str, typer.Option("--host", help="Address to listen at; any but a loopback address requires a token")
    ] = "127.0.0.1",
    port: Annotated[int | None, typer.Option("--port", help="0 for any free port [default: 8417 or the next]")] = None,
    browser: Annotated[
        bool | None, typer.Option("--open/--no-open", help="Open a browser [default: if this is a terminal]")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Read and index everything, print a summary, and end")] = False,
    id_column: IdColumn = None,
    column: Column = None,
    tokenizer: TokenizerOption = None,
    force: Insist = False,
    as_json: Json = False,
) -> None:
    """sidkit explore sids.parquet --items items.parquet --text title

    Walk the prefix tree in a browser: find items, see what each token separates, compare two tokenizers, and with
    --search ask a search model. Everything stays on this machine; Ctrl-C ends it.
    """
    from ..errors import need
    from ..explore.catalogue import read
    from ..explore.pages import Pages
    from ..sids.read import origin_of
    from .terminal import Terminal, plain

    need("starlette", "explore", "sidkit explore")
    if port is not None and not 0 <= port < 1 << 16:
        raise SpecError(f"--port must lie between 0 and 65535, not {port}")
    notes = ColumnNotes()
    origin = origin_of(sids)
    require_its_tokenizer(origin, sids, tokenizer, force)
    vectors = vectors_from(embeddings, id_column, column, notes, items, origin=origin) if embeddings else None
    of_items = id_column_in(id_column, items, embeddings) if items else None
    with Terminal() as progress:
        catalogue = read(sids, compare, items, text, vectors, progress, of_items)
        pages = Pages(catalogue)
        if search is not None:
            pages.model = _model(search, pages)
    if items is not None:
        notes.add("items", items, catalogue.chosen)
    about = pages.about()
    if as_json:
        print(json.dumps(about | notes.field()), flush=True)
    else:
        notes.print()
        for side in about["sides"]:
            sizes = "-".join(map(str, side["sizes"]))
            counts = f"{count_of(side['items'], 'item')}, {count_of(side['sids'], 'distinct SID')}"
            print(f"{plain(side['name'])}: {counts}, sizes {sizes}")
    if not check:
        _serve(pages, host, port, sys.stdout.isatty() if browser is None else browser, as_json)


def _model(folder: Path, pages: "Pages") -> "Callable[[str], Asked]":
    """The function that answers a query with items, which are those of the pages."""
    from ..errors import need

    need("torch", "search", "asking a search model")
    from ..explore.pages import Asked
    from ..search.model.model import Request, SearchModel

    model = SearchModel.load(folder)
    table = model.parts.table
    some = range(0, len(table), max(1, len(table) // COMPARED))
    pages.require_sids(table.sizes, {str(table.ids[row].as_py()): table.codes[row].tolist() for row in some})

    def ask(query: str) -> Asked:
        codes = model.query_codes([query])[0].tolist()
        (answers,) = model.ask([Request(query)])
        return Asked(codes if codes[0] >= 0 else None, [(one.item, one.probability) for one in answers])

    return ask


def _serve(pages: "Pages", host: str, port: int | None, browser: bool, as_json: bool) -> None:
    import webbrowser

    from ..explore.server import serve

    # Standard output is for JSON alone, where that was asked for.
    write = partial(print, file=sys.stderr if as_json else sys.stdout, flush=True)

    def ready(url: str) -> None:
        write(f"open {url} (Ctrl-C ends)")
        if host in ("0.0.0.0", "::"):
            write("from other machines: the same, with the name of this one instead of 127.0.0.1")
        if browser:
            webbrowser.open(url)

    with suppress(KeyboardInterrupt):
        serve(pages, host, port, ready)
    write("explorer stopped")
