"""advise: which codebook sizes."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import SpecError
from .options import (
    BadRows,
    BadRowsOption,
    Column,
    Device,
    Embeddings,
    IdColumn,
    Json,
    open_source,
    read_options,
    read_sizes,
    require_file,
    require_seed,
    tokenizer_of,
)

if TYPE_CHECKING:
    from ..advice.candidates import Advice


def advise(
    embeddings: Embeddings,
    icr: Annotated[
        float | None, typer.Option("--icr", help="SIDs with one item / distinct SIDs, at least [default: 0.95]")
    ] = None,
    sids_per_item: Annotated[
        float | None, typer.Option("--sids-per-item", help="Distinct SIDs / items, at least")
    ] = None,
    largest_bucket: Annotated[int | None, typer.Option("--largest-bucket", help="Items on one SID, at most")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The trade-off as .html, .svg or .json", show_default=False)
    ] = None,
    recipe: Annotated[
        str, typer.Option("--recipe", "-r", help="Which tokenizer; `sidkit show` lists them")
    ] = "prq-kmeans",
    levels: Annotated[int, typer.Option("--levels", help="Most tokens an item may have")] = 3,
    sizes: Annotated[
        list[str] | None, typer.Option("--sizes", help="Try these, as 256-256-256; may be repeated [default: a sweep]")
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="An option of the recipe; may be repeated")
    ] = None,
    sample: Annotated[int, typer.Option("--sample", help="Rows to fit on; more for large codebooks")] = 20_000,
    count: Annotated[int, typer.Option("--count", help="Rows whose SIDs are counted")] = 200_000,
    seed: Annotated[int, typer.Option("--seed", help="Which rows are drawn, and of the fits")] = 0,
    id_column: IdColumn = None,
    column: Column = None,
    bad_rows: BadRowsOption = BadRows.error,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """sidkit advise items.parquet --icr 0.9 -o advice.html

    Which codebook sizes? Fits candidates on a sample, counts their collisions, carries them over to all items, and
    ends with a command that fits the smallest sizes that should meet the target.
    """
    from ..advice.candidates import Target
    from ..advice.sweep import advise as advised
    from .terminal import Terminal

    named = read_options(option)
    if "sizes" in named:
        raise SpecError("give sizes to try as --sizes 256-256-256, not with --set")
    if icr is None and sids_per_item is None and largest_bucket is None:
        icr = 0.95
    require_seed(seed)
    target = Target(icr, sids_per_item, largest_bucket)
    tried = [read for text in sizes or [] if (read := read_sizes(text)) is not None]
    if output is not None:
        if output.suffix not in (".html", ".svg", ".json"):
            raise SpecError(f"cannot write {output}; the trade-off is written as .html, .svg or .json")
        require_file(output, embeddings)
    tokenizer_of(recipe, named | ({"sizes": tried[0]} if tried else {"sizes": (16,) * levels}), None)
    with Terminal() as progress:
        source = open_source(embeddings, id_column, column, bad_rows, output or Path("advice"), progress)
        found = advised(
            source, target, lambda sizes: tokenizer_of(recipe, named | {"sizes": sizes}, None), tried or None,
            levels, sample, count, seed, device, progress,
        )  # fmt: skip
    extra = {"--recipe": recipe if recipe != "prq-kmeans" else None, "--id-column": id_column, "--column": column}
    extra |= {"--seed": str(seed) if seed else None, "--bad-rows": "drop" if bad_rows is BadRows.drop else None}
    command = _command(embeddings, found, extra, option)
    if output is not None:
        _write(output, found, embeddings, command)
    if as_json:
        print(json.dumps(found.as_dict() | {"command": command}))
        return
    _print(found, command)
    if output is not None:
        print(f"wrote {output}")


def _command(embeddings: str, found: "Advice", extra: dict[str, str | None], option: list[str] | None) -> str:
    """What fits the sizes chosen; '' when there are none."""
    from shlex import join

    if found.chosen is None:
        return ""
    words = ["sidkit", "fit", embeddings, "-o", "tok/", "--sizes", "-".join(map(str, found.chosen.sizes))]
    words += [word for name, value in extra.items() if value for word in (name, value)]
    return join(words + [word for pair in option or [] for word in ("--set", pair)])


def _write(output: Path, found: "Advice", name: str, command: str) -> None:
    from ..advice.page import advice_page, tradeoff
    from ..files.atomic import replace_file
    from ..report.draw.svg import figure_svg

    texts = {
        ".html": lambda: advice_page(found, name, command),
        ".svg": lambda: figure_svg(tradeoff(found)),
        ".json": lambda: json.dumps(found.as_dict() | {"command": command}, indent=1) + "\n",
    }
    with replace_file(output) as temporary:
        temporary.write_text(texts[output.suffix](), encoding="utf-8")


def _print(found: "Advice", command: str) -> None:
    from rich.console import Console
    from rich.table import Table

    from ..advice.page import DRIFTS, headline, interval

    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("sizes", "codewords", "ICR", "SIDs per item", "largest bucket", "fitted on", "meets"):
        table.add_column(heading, justify="right", no_wrap=heading == "sizes")
    for one in found.candidates:
        figures = (interval(one, name) for name in ("icr_per_sid", "sids_per_item", "largest_bucket"))
        on = "all" if one.measured else f"{one.fitted_on:,}"
        style = "bold" if one is found.chosen else ""
        named = "-".join(map(str, one.sizes))
        table.add_row(named, f"{one.codewords:,}", *figures, on, one.meets(found.target), style=style)
    wide = console if console.is_terminal else Console(highlight=False, width=max(console.width, 140))
    wide.print(table)
    counted = "" if found.counted == found.items else f"; SIDs were counted for {found.counted:,} and carried over"
    brackets = (
        "" if all(one.measured for one in found.candidates) else " 90 % of full fits are expected in the brackets."
    )
    console.print(f"\n{found.items:,} items{counted}.{brackets}", style="dim")
    if found.drifts:
        console.print(f"Careful: {DRIFTS}.", style="yellow")
    console.print(f"[bold]{headline(found)}[/bold]")
    if command:
        console.print(f"  {command}", markup=False, soft_wrap=True)
