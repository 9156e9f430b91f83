"""sidkit case: items and queries followed through two tokenizers."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import InputError, SpecError
from .options import Form, Items, Json, TextColumn, texts_for


def collisions(
    first: Annotated[Path, typer.Argument(help="SIDs of one tokenizer, written by `sidkit encode`")],
    second: Annotated[Path, typer.Argument(help="SIDs of the same items by another")],
    items: Items = None,
    text: TextColumn = "title",
    sid: Annotated[str | None, typer.Option("--sid", help="Follow this SID of the first [default: by a rule]")] = None,
    form: Form = "table",
    as_json: Json = False,
) -> None:
    """sidkit case collisions sids.parquet other.parquet --items items.parquet

    Items that share one SID under the first tokenizer, followed through the levels of the second, with the words that
    set its branches apart. The group is the largest that the second keeps together at its first level, separates at its
    second, and divides into SIDs of two items or more. The second table is, for instance, what these write:

    sidkit fit items.parquet -o other/ -r rq-kmeans

    sidkit encode other/ items.parquet -o other.parquet
    """
    from ..report.cases import collision_case
    from ..sids.table import SidTable
    from ..sids.template import read_sid

    a, b = SidTable.from_parquet(first), SidTable.from_parquet(second)
    names = texts_for(items, text, a.ids) if items else None
    wanted = read_sid(sid, a.template) if sid is not None else None
    if wanted is not None and len(wanted) != len(a.sizes):
        whole = a.template.write(a.codes[0].tolist()) if len(a) else a.template.example()
        raise InputError(f"--sid follows a whole SID of {first}, such as {whole!r}, not {sid!r}")
    found = collision_case(a, b, names, wanted)
    branch, second_level = (_letters(found["branches"], depth) for depth in (len(b.sizes), 2))
    rows = [
        [branch[i], second_level[i], one["sid"], str(one["items"]), "; ".join(one["words"])]
        for i, one in enumerate(found["branches"])
    ]
    levels = ", ".join(f"{many} at level {level}" for level, many in enumerate(found["prefixes_per_level"], 1))
    told = [
        f"{found['items']} items share {found['sid']} under {first.stem}: {', '.join(found['words'])}",
        f"prefixes under {second.stem}: {levels}",
    ]
    if sid is None:
        told.append(f"the largest of {found['groups']:,} with: {'; '.join(found['rules']) or 'a shared SID'}")
    _tell(form, as_json, found, ["branch", "L2", "SID", "items", "keywords"], rows, told)
    if form == "table" and not as_json:
        _print_texts(found["branches"], branch)


def query(
    query: Annotated[str, typer.Argument(help="What somebody typed", show_default=False)],
    embeddings: Annotated[str, typer.Argument(help="The items' vectors, as `sidkit embed` wrote them")],
    tokenizers: Annotated[list[Path], typer.Argument(help="Tokenizers fitted on them, one or more")],
    encoder: Annotated[
        Path | None, typer.Option("--encoder", help="The items' encoder [default: the one beside the embeddings]")
    ] = None,
    level: Annotated[int, typer.Option("--level", help="How many tokens of the query make the prefix")] = 2,
    items: Items = None,
    text: TextColumn = "title",
    form: Form = "table",
    as_json: Json = False,
) -> None:
    """sidkit case query 'red shoes' embeddings.parquet tok-a/ tok-b/ --items items.parquet

    The prefix that a query lands in under each tokenizer: the items under it, and how many different tokens come next.
    The query is embedded by the encoder of the items. These make what is named above:

    sidkit embed items.parquet -o embeddings.parquet

    sidkit fit embeddings.parquet -o tok-a/

    sidkit fit embeddings.parquet -o tok-b/ -r rq-kmeans
    """
    from ..data.embeddings import open_embeddings
    from ..embed import beside
    from ..embed import load as load_encoder
    from ..report.cases import query_case
    from ..sids.table import SidTable
    from ..tokenizer.tokenizer import load
    from .terminal import Terminal, plain

    source = open_embeddings(embeddings)
    vector = load_encoder(encoder or beside(embeddings)).embed([query], query=True)
    if not vector.any():
        raise InputError(f"the items' encoder knows nothing of {query!r}; try other words")
    if vector.shape[1] != source.shape[1]:
        raise InputError(f"the encoder makes {vector.shape[1]} dimensions, but {embeddings} has {source.shape[1]}")
    names = texts_for(items, text, source.ids) if items else None
    found = {}
    with Terminal() as progress:
        for path in tokenizers:
            fitted = load(path)
            table = SidTable(source.ids, fitted.encode(source, progress=progress), fitted.sizes)
            found[path.name] = query_case(query, fitted.encode(vector)[0].tolist(), table, level, names)
    rows = [
        [
            name,
            one["prefix"],
            f"{one['items']:,}",
            "–" if one["next_tokens"] is None else str(one["next_tokens"]),
            "; ".join(one["words"]),
        ]
        for name, one in found.items()
    ]
    head = ["tokenizer", "prefix", f"items under L{level} prefix", "distinct next tokens", "keywords"]
    _tell(form, as_json, found, head, rows, [f"where {query!r} lands, by its first {level} tokens"])
    if form == "table" and not as_json:
        for name, one in found.items():
            shared = [f"{depth} with {many:,}" for depth, many in enumerate(one["items_per_level"], 1)]
            print(f"\n{plain(name)}: {one['sid']}; tokens shared with items: {', '.join(shared)}")
            _print_texts(one["branches"], [branch["prefix"] for branch in one["branches"]])


def _letters(branches: Sequence[Mapping[str, Any]], depth: int) -> list[str]:
    """A, B, C … for the different prefixes of so many tokens, in order of appearance."""
    seen: dict[tuple[int, ...], str] = {}
    for branch in branches:
        prefix = tuple(branch["codes"][:depth])
        seen.setdefault(prefix, chr(ord("A") + len(seen)) if len(seen) < 26 else f"A{len(seen)}")
    return [seen[tuple(branch["codes"][:depth])] for branch in branches]


def _tell(form: str, as_json: bool, found: Any, head: list[str], rows: list[list[str]], told: Sequence[str]) -> None:
    from ..report.compare import FORMS
    from ..report.tables import latex, latex_text, markdown

    if form not in FORMS:
        raise SpecError(f"--format must be one of {', '.join(FORMS)}, not {form!r}")
    if as_json or form == "json":
        print(json.dumps(found, ensure_ascii=False))
    elif form == "markdown":
        print(markdown(head, rows))
    elif form == "latex":
        print(latex([latex_text(name) for name in head], [[latex_text(cell) for cell in row] for row in rows]))
    else:
        from .printing import print_rows

        print_rows(told, head, rows)


def _print_texts(branches: Sequence[Mapping[str, Any]], names: Sequence[str]) -> None:
    from .terminal import plain

    for name, branch in zip(names, branches, strict=True):
        for shown in branch.get("texts", ())[:5]:
            print(f"  {name}  {plain(shown)}")
