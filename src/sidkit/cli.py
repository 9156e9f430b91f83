"""The command line: parses, calls, prints. No algorithm lives here."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import __version__
from .errors import InputError, SidkitError, SpecError, StoreError

if TYPE_CHECKING:
    from .progress import Progress
    from .rows import Source
    from .tokenizer import Tokenizer

app = typer.Typer(
    name="sidkit",
    help="Semantic IDs: from embeddings to short hierarchical token sequences.\n\nStart with: sidkit demo",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


INTERRUPTED = 130  # what shells call a process stopped by Ctrl-C


class BadRows(StrEnum):
    error = "error"
    drop = "drop"


Embeddings = Annotated[
    str, typer.Argument(help="Parquet file, folder or glob of them, .npy, .npz or .safetensors", show_default=False)
]
Output = Annotated[Path, typer.Option("--output", "-o", help="Where to write", show_default=False)]
IdColumn = Annotated[str | None, typer.Option("--id-column", help="Parquet column of ids [default: found]")]
Column = Annotated[str | None, typer.Option("--column", help="Parquet column of vectors [default: found]")]
BadRowsOption = Annotated[
    BadRows, typer.Option("--bad-rows", help="Rows with NaN, infinity or only zeros: stop, or leave out and list")
]
Device = Annotated[str, typer.Option("--device", help="cpu, cuda, or auto: wherever the rows are")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines")]
TemplateOption = Annotated[
    str, typer.Option("--template", help="letters, lc-rec, openonerec, plain, or a token such as '<{letter}_{code}>'")
]


@app.callback(invoke_without_command=True)
def _top(version: Annotated[bool, typer.Option("--version", help="Print the version and leave")] = False) -> None:
    if version:
        print(f"sidkit {__version__}")
        raise typer.Exit


@app.command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to leave everything in")] = Path("sidkit-demo"),
    items: Annotated[int, typer.Option("--items", help="How many products to make up")] = 20_000,
    seed: Annotated[int, typer.Option("--seed", help="Another seed, another shop")] = 0,
) -> None:
    """sidkit demo

    Makes up a shop catalogue, embeds its titles, fits PRQ-KMeans, encodes, and shows what the semantic IDs say.
    Leaves a folder that the other commands can use.
    """
    from .demo.show import run_demo
    from .terminal import Terminal

    with Terminal() as progress:
        story = run_demo(output, items, seed, progress)
    story()


@app.command()
def fit(
    embeddings: Embeddings,
    output: Output,
    recipe: Annotated[
        str, typer.Option("--recipe", "-r", help="Which tokenizer; `sidkit show` lists them")
    ] = "prq-kmeans",
    sizes: Annotated[
        str | None, typer.Option("--sizes", help="Codewords per level: 256,256,256 or 1024-512-128")
    ] = None,
    top_k: Annotated[int | None, typer.Option("--top-k", help="Centroids each row refines")] = None,
    beta: Annotated[float | None, typer.Option("--beta", help="Concentration of the soft weights")] = None,
    iterations: Annotated[int | None, typer.Option("--iterations", help="Passes per level")] = None,
    option: Annotated[
        list[str] | None, typer.Option("--set", help="Any other option of the recipe, name=value")
    ] = None,
    spec: Annotated[
        str | None, typer.Option("--spec", help="A spec from `sidkit show` instead of a recipe; - reads it")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Same seed, same tokenizer")] = 0,
    id_column: IdColumn = None,
    column: Column = None,
    bad_rows: BadRowsOption = BadRows.error,
    device: Device = "auto",
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a fit that was stopped")] = False,
    as_json: Json = False,
) -> None:
    """sidkit fit items.parquet -o tok/ --sizes 1024-512-128 --top-k 5

    Fit a tokenizer to embeddings and write it as a folder. A fit that is stopped leaves what it had finished beside
    it, as OUTPUT.unfinished; --resume goes on from there.
    """
    from shutil import rmtree

    from .store import check_target, load
    from .terminal import Terminal, print_quality

    named = {"sizes": _sizes(sizes), "top_k": top_k, "beta": beta, "iterations": iterations} | _options(option)
    tokenizer = _tokenizer(recipe, {key: value for key, value in named.items() if value is not None}, spec)
    _writable(output)
    check_target(output)
    with Terminal() as progress:
        source = _open(embeddings, id_column, column, bad_rows, output, progress)
        unfinished = output.parent / f"{output.name}.unfinished"
        if not resume:
            rmtree(unfinished, ignore_errors=True)
        fitted = tokenizer.fit(source, seed=seed, device=device, progress=progress, checkpoint=unfinished)
        fitted.save(output)
        rmtree(unfinished, ignore_errors=True)
    facts = dict(load(output).facts)
    if as_json:
        print(json.dumps({"output": str(output), "recipe": tokenizer.name, "sizes": fitted.sizes, **facts}))
        return
    print_quality(facts["quality"], fitted.sizes)
    print(f"\nwrote {output}; next: sidkit encode {output} {embeddings} -o sids.parquet")


@app.command()
def encode(
    tokenizer: Annotated[Path, typer.Argument(help="Folder written by `sidkit fit`", show_default=False)],
    embeddings: Annotated[str, typer.Argument(help="Embeddings as for fit; - reads JSON lines", show_default=False)],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Parquet file; - prints id<tab>sid", show_default=False)
    ],
    template: TemplateOption = "letters",
    id_column: IdColumn = None,
    column: Column = None,
    bad_rows: BadRowsOption = BadRows.error,
    device: Device = "auto",
) -> None:
    """sidkit encode tok/ items.parquet -o sids.parquet

    Give every embedding its semantic ID. Row order and ids are kept.
    """
    from .sids import SidTable, template_named
    from .store import load
    from .terminal import Terminal

    form, fitted, to_stream = template_named(template), load(tokenizer), str(output) == "-"
    if not to_stream:
        _writable(output)
    with Terminal() as progress:
        source = _open(embeddings, id_column, column, bad_rows, output, progress)
        codes = fitted.encode(source, device=device, progress=progress)
    table = SidTable(_ids(source), codes, fitted.sizes)
    if to_stream:
        for item, sid in zip(table.ids.to_pylist(), table.strings(form).to_pylist(), strict=True):
            print(f"{item}\t{sid}")
        return
    table.to_parquet(output, form)
    print(f"wrote {len(table):,} semantic IDs to {output}; next: sidkit report {output}")


@app.command()
def report(
    sids: Annotated[Path, typer.Argument(help="Parquet file written by `sidkit encode`", show_default=False)],
    as_json: Json = False,
) -> None:
    """sidkit report sids.parquet

    How good are these semantic IDs: collisions, utilisation and balance of every level.
    """
    from .report.metrics import quality
    from .sids import SidTable
    from .terminal import print_quality

    table = SidTable.from_parquet(sids)
    figures = quality(table.codes, table.sizes)
    if as_json:
        print(json.dumps({"sizes": table.sizes, **figures}))
    else:
        print_quality(figures, table.sizes)


@app.command()
def compare(
    embeddings: Embeddings,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the runs; those found there are reused")],
    recipes: Annotated[str, typer.Option("--recipes", "-r", help="Recipes, by commas")] = "prq-kmeans,rq-kmeans",
    seeds: Annotated[str, typer.Option("--seeds", help="Seeds, by commas, or how many from 0 as x5")] = "x3",
    sizes: Annotated[str | None, typer.Option("--sizes", help="Codewords per level, for all")] = None,
    option: Annotated[list[str] | None, typer.Option("--set", help="An option for the recipes that know it")] = None,
    form: Annotated[str, typer.Option("--format", help="table, json, markdown or latex")] = "table",
    id_column: IdColumn = None,
    column: Column = None,
    bad_rows: BadRowsOption = BadRows.error,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """sidkit compare items.parquet -o runs/ -r prq-kmeans,rq-kmeans --sizes 64-32-16 --seeds x2

    Fit several tokenizers with several seeds and put their codebook quality side by side.
    """
    from .report.compare import FORMS, compare
    from .terminal import Terminal, print_comparison

    if form not in FORMS:
        raise SpecError(f"--format must be one of {', '.join(FORMS)}, not {form!r}")
    given = ({"sizes": _sizes(sizes)} if sizes else {}) | _options(option)
    tokenizers = {name: _with_known_options(name, given) for name in recipes.split(",")}
    _writable(output)
    with Terminal() as progress:
        source = _open(embeddings, id_column, column, bad_rows, output, progress)
        found = compare(source, tokenizers, _seeds(seeds), output, progress, device)
    if as_json or form == "json":
        print(found.json())
    elif form == "table":
        print_comparison(found)
    else:
        print(found.markdown() if form == "markdown" else found.latex())


@app.command()
def lookup(
    sids: Annotated[Path, typer.Argument(help="Parquet file written by `sidkit encode`", show_default=False)],
    what: Annotated[str, typer.Argument(help="An item id, a SID, or the first tokens of one", show_default=False)],
    items: Annotated[Path | None, typer.Option("--items", help="Parquet file with the items' texts")] = None,
    text: Annotated[str, typer.Option("--text", help="Its column to show")] = "title",
    limit: Annotated[int, typer.Option("--limit", help="Most items to print; 0 for all")] = 20,
    as_json: Json = False,
) -> None:
    """sidkit lookup sids.parquet '<a_12><b_3>'

    From an item to its semantic ID and the items that share it; from a SID or a prefix to its items.
    """
    from .sids import TEMPLATES, SidTable
    from .terminal import print_items

    table = SidTable.from_parquet(sids)
    sid = table.sid_of(what)
    prefix = TEMPLATES["letters"].parse(what) if sid is None else sid
    rows = table.rows_of(prefix)
    if not len(rows):
        raise InputError(f"{what!r} is neither an item nor an occupied prefix of {sids}")
    shown = rows[:limit] if limit else rows
    names = _texts(items, text, table.ids) if items else None
    found = [
        {"item_id": table.ids[int(row)].as_py(), "codes": table.codes[row].tolist()}
        | ({"text": names[int(row)]} if names else {})
        for row in shown
    ]
    if as_json:
        print(json.dumps({"prefix": prefix, "count": len(rows), "items": found}, ensure_ascii=False))
    else:
        print_items(prefix, len(rows), found)


@app.command()
def show(
    recipe: Annotated[str | None, typer.Argument(help="A recipe, or a folder written by `sidkit fit`")] = None,
    sizes: Annotated[str | None, typer.Option("--sizes", help="Codewords per level")] = None,
    option: Annotated[list[str] | None, typer.Option("--set", help="Any option of the recipe, name=value")] = None,
) -> None:
    """sidkit show prq-kmeans --sizes 1024-512-128 --set top_k=5

    A recipe's spec as JSON, to read, change, and hand to `sidkit fit --spec`. Without a name: the recipes.
    """
    from .recipes import RECIPES
    from .spec import to_plain

    if recipe is None:
        for name, make in RECIPES.items():
            print(f"{name:20} {(make.__doc__ or '').splitlines()[0]}")
        return
    if Path(recipe, "config.json").is_file():
        from .store import load

        stages: Any = load(recipe).spec.stages
    else:
        given = {"sizes": _sizes(sizes)} if sizes else {}
        stages = _tokenizer(recipe, given | _options(option), None).stages
    print(json.dumps(to_plain(stages), indent=2))


def _sizes(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.replace("-", ",").split(","))
    except ValueError:
        raise SpecError(f"cannot read sizes {text!r}; write them as 1024,512,128 or 1024-512-128") from None


def _options(pairs: list[str] | None) -> dict[str, Any]:
    options = {}
    for pair in pairs or []:
        name, sign, value = pair.partition("=")
        if not sign:
            raise SpecError(f"--set {pair!r} must have the form name=value")
        try:
            options[name.replace("-", "_")] = json.loads(value)
        except ValueError:
            options[name.replace("-", "_")] = value
    if isinstance(options.get("sizes"), str):
        options["sizes"] = _sizes(options["sizes"])
    return options


def _with_known_options(name: str, options: dict[str, Any]) -> Tokenizer:
    """A recipe with those of the options that it has; sizes are for all."""
    from inspect import signature

    from .recipes import RECIPES
    from .recipes import recipe as named

    known = signature(RECIPES[name]).parameters if name in RECIPES else options
    return named(name, **{key: value for key, value in options.items() if key in known or key == "sizes"})


def _seeds(text: str) -> list[int]:
    try:
        return list(range(int(text[1:]))) if text.startswith("x") else [int(part) for part in text.split(",")]
    except ValueError:
        raise SpecError(f"cannot read seeds {text!r}; write them as 0,1,2 or x3") from None


def _tokenizer(recipe: str, options: dict[str, Any], spec: str | None) -> Tokenizer:
    if spec is None:
        from .recipes import recipe as named

        return named(recipe, **options)
    from .spec import from_plain
    from .tokenizer import Tokenizer

    if options:
        raise SpecError(f"--spec already says everything; leave out {', '.join(sorted(options))}")
    try:
        text = sys.stdin.read() if spec == "-" else Path(spec).read_text(encoding="utf-8")
        return Tokenizer(from_plain(json.loads(text)))
    except (OSError, ValueError) as error:
        raise SpecError(f"cannot read the spec {spec}: {error}") from error


def _open(
    path: str, id_column: str | None, column: str | None, bad_rows: BadRows, output: Path, progress: Progress
) -> Source:
    """The embeddings, without their bad rows if so asked; those are listed beside the output."""
    from .embeddings import open_embeddings, without
    from .streams import read_json_lines

    source = read_json_lines(sys.stdin) if path == "-" else open_embeddings(path, id_column, column)
    if bad_rows is BadRows.error:
        return source
    from .checks import find_bad_rows
    from .files import replace_file

    progress.start("check", source.shape[0])
    bad = find_bad_rows(source, progress)
    if not bad:
        return source
    listing = output.parent / f"{output.stem}.bad-rows.tsv" if str(output) != "-" else Path("bad-rows.tsv")
    ids = _ids(source)
    with replace_file(listing) as temporary:
        lines = (f"{row}\t{ids[row].as_py()}\t{why}\n" for row, why in bad.items())
        temporary.write_text("row\tid\treason\n" + "".join(lines), encoding="utf-8")
    print(f"left out {len(bad):,} bad rows, listed in {listing}", file=sys.stderr)
    return without(source, sorted(bad))


def _ids(source: Any) -> Any:
    return source.ids


def _texts(path: Path, column: str, ids: Any) -> list[str]:
    from .items import texts_of

    return texts_of(path, column, ids)


def _writable(path: Path) -> None:
    """Fail before the work, not after it, if the output cannot be written."""
    from os import W_OK, access

    parent = path.absolute().parent
    while not parent.exists():
        parent = parent.parent
    if not parent.is_dir() or not access(parent, W_OK):
        raise StoreError(f"cannot write {path}: no permission to write in {parent}")


def _farewell(code: int) -> int:
    if code == INTERRUPTED:
        print("stopped; nothing was left half-written (a fit goes on with --resume)", file=sys.stderr)
    return code


def main() -> None:
    """Run the command line; errors become one line and an exit code, never a traceback."""
    usage_error = typer.BadParameter.__mro__[2]  # click's base exception, wherever this Typer keeps click
    try:
        code = app(standalone_mode=False)
        sys.exit(_farewell(code if isinstance(code, int) else 0))
    except typer.Exit as leave:
        sys.exit(_farewell(leave.exit_code))
    except (typer.Abort, KeyboardInterrupt):
        sys.exit(_farewell(INTERRUPTED))
    except SidkitError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)
    except usage_error as error:  # type: ignore[misc]
        error.show()
        sys.exit(error.exit_code)
