"""sidkit case: items and queries followed through two tokenizers."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import InputError
from .columns import ColumnNotes, id_column_in, vectors_from
from .inputs import texts_for
from .options import Column, Form, IdColumn, Items, Json, Location, TextColumn, location
from .parsing import require_choice


def collisions(
    first: Annotated[
        Location, typer.Argument(help="SIDs by one tokenizer, as `sidkit encode` wrote them", parser=location)
    ],
    second: Annotated[Location, typer.Argument(help="SIDs of the same items by another", parser=location)],
    items: Items = None,
    text: TextColumn = "title",
    sid: Annotated[
        str | None, typer.Option("--sid", help="SID of the first table to follow [default: chosen by a rule]")
    ] = None,
    id_column: IdColumn = None,
    form: Form = "table",
    as_json: Json = False,
) -> None:
    """sidkit case collisions sids.parquet other.parquet --items items.parquet

    Items that share one SID under the first tokenizer, followed through the levels of the second, with the words that
    distinguish its branches. By default the group is the largest that the second keeps together at its first level,
    separates at its second, and divides into SIDs of two items or more. The second table is made, for instance, by

    sidkit fit items.parquet -o other/ -r rq-kmeans

    sidkit encode other/ items.parquet -o other.parquet
    """
    from ..report.cases import collision_case
    from ..sids.table import SidTable
    from ..sids.template import read_sid

    a, b = SidTable.from_parquet(first), SidTable.from_parquet(second)
    notes = ColumnNotes()
    texts = texts_for(items, text, a.ids, id_column, notes, a.origin.id_column) if items else None
    codes = read_sid(sid, a.template) if sid is not None else None
    if codes is not None and len(codes) != len(a.sizes):
        example = a.template.write(a.codes[0].tolist()) if len(a) else a.template.example()
        raise InputError(f"--sid follows a whole SID of {first}, such as {example!r}, not {sid!r}")
    case = collision_case(a, b, texts, codes)
    branch, second_level = (_letters(case["branches"], depth) for depth in (len(b.sizes), 2))
    rows = [
        [branch[i], second_level[i], one["sid"], str(one["items"]), "; ".join(one["words"])]
        for i, one in enumerate(case["branches"])
    ]
    levels = ", ".join(f"{count} at level {level}" for level, count in enumerate(case["prefixes_per_level"], 1))
    lines = [
        f"{case['items']} items share {case['sid']} under {first.stem}: {', '.join(case['words'])}",
        f"prefixes under {second.stem}: {levels}",
    ]
    if sid is None:
        lines.append(f"the largest of {case['groups']:,} with: {'; '.join(case['rules']) or 'a shared SID'}")
    head = ["branch", "L2", "SID", "items", "keywords"]
    _print(form, as_json, case | notes.field(), head, rows, lines, notes)
    if form == "table" and not as_json:
        _print_texts(case["branches"], branch)


def query(
    query: Annotated[str, typer.Argument(help="The text of the query", show_default=False)],
    embeddings: Annotated[str, typer.Argument(help="The items' vectors, as `sidkit embed` wrote them")],
    tokenizers: Annotated[list[Path], typer.Argument(help="Tokenizers fitted on them, one or more")],
    encoder: Annotated[
        Path | None, typer.Option("--encoder", help="The items' encoder [default: the one beside the embeddings]")
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
    query is embedded by the encoder of the items. The files above are made by

    sidkit embed items.parquet -o embeddings.parquet

    sidkit fit embeddings.parquet -o tok-a/

    sidkit fit embeddings.parquet -o tok-b/ -r rq-kmeans
    """
    from ..data.source import id_name_of
    from ..embed import beside
    from ..embed import load as load_encoder
    from ..report.cases import query_case
    from ..sids.table import SidTable
    from ..tokenizer.pairs import require_fitted_on
    from ..tokenizer.tokenizer import load
    from .terminal import Terminal

    notes = ColumnNotes()
    source = vectors_from(embeddings, id_column, column, notes, items)
    vector = load_encoder(encoder or beside(embeddings)).embed([query], query=True)
    if not vector.any():
        raise InputError(f"the items' encoder knows nothing of {query!r}; try other words")
    if vector.shape[1] != source.shape[1]:
        raise InputError(f"the encoder makes {vector.shape[1]} dimensions, but {embeddings} has {source.shape[1]}")
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
            cases[path.name] = query_case(query, fitted.encode(vector)[0].tolist(), table, level, texts)
    cases = {name: case | notes.field() for name, case in cases.items()}
    head = ["tokenizer", "prefix", f"items under L{level} prefix", "distinct next tokens", "keywords"]
    rows = [[name, *_query_cells(case)] for name, case in cases.items()]
    lines = [f"the prefix of {query!r}, by its first {level} tokens"]
    _print(form, as_json, cases, head, rows, lines, notes)
    if form == "table" and not as_json:
        _print_matches(cases)


def _query_cells(case: Mapping[str, Any]) -> list[str]:
    following = "–" if case["next_tokens"] is None else str(case["next_tokens"])
    return [case["prefix"], f"{case['items']:,}", following, "; ".join(case["words"])]


def _letters(branches: Sequence[Mapping[str, Any]], depth: int) -> list[str]:
    """A, B, C … for the different prefixes of `depth` tokens, in order of appearance."""
    seen: dict[tuple[int, ...], str] = {}
    for branch in branches:
        prefix = tuple(branch["codes"][:depth])
        seen.setdefault(prefix, chr(ord("A") + len(seen)) if len(seen) < 26 else f"A{len(seen)}")
    return [seen[tuple(branch["codes"][:depth])] for branch in branches]


def _print(
    form: str,
    as_json: bool,
    facts: Mapping[str, Any],
    head: list[str],
    rows: list[list[str]],
    lines: Sequence[str],
    notes: ColumnNotes,
) -> None:
    from ..report.compare import FORMS
    from ..report.tables import latex, latex_text, markdown

    require_choice("--format", form, FORMS)
    if as_json or form == "json":
        print(json.dumps(facts, ensure_ascii=False))
        return
    notes.print()
    if form == "markdown":
        print(markdown(head, rows))
    elif form == "latex":
        print(latex([latex_text(name) for name in head], [[latex_text(cell) for cell in row] for row in rows]))
    else:
        from .printing import print_rows

        print_rows(lines, head, rows)


def _print_matches(cases: Mapping[str, Mapping[str, Any]]) -> None:
    """Under each tokenizer, how many items share one token with the query, two, and so on."""
    from .terminal import plain

    for name, case in cases.items():
        shared = [f"{depth} with {count:,}" for depth, count in enumerate(case["items_per_level"], 1)]
        print(f"\n{plain(name)}: {case['sid']}; tokens shared with items: {', '.join(shared)}")
        _print_texts(case["branches"], [branch["prefix"] for branch in case["branches"]])


def _print_texts(branches: Sequence[Mapping[str, Any]], names: Sequence[str]) -> None:
    from .terminal import plain

    for name, branch in zip(names, branches, strict=True):
        for text in branch.get("texts", ())[:5]:
            print(f"  {name}  {plain(text)}")
