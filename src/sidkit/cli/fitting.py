"""fit, encode, show: from embeddings to semantic IDs."""

import json
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import SpecError
from .app import app
from .on_ray import Cpus, Ray, WithRay, Workers, require_ray, rows_on_ray, tell_encoded, tell_left_out
from .options import (
    BadRows,
    BadRowsOption,
    Column,
    Device,
    Embeddings,
    IdColumn,
    Json,
    Output,
    TemplateOption,
    fresh_unfinished,
    ids_of,
    open_source,
    place,
    read_options,
    read_sizes,
    require_file,
    require_folder,
    require_writable,
    tokenizer_of,
)


@app.command(cls=WithRay)
def fit(
    embeddings: Embeddings,
    output: Output,
    recipe: Annotated[
        str, typer.Option("--recipe", "-r", help="Which tokenizer; `sidkit show` lists them")
    ] = "prq-kmeans",
    sizes: Annotated[
        str | None,
        typer.Option(
            "--sizes", help="Codewords per level, as 1024-512-128 [default: the recipe's, mostly 256-256-256]"
        ),
    ] = None,
    top_k: Annotated[
        int | None, typer.Option("--top-k", help="Centroids each row refines [default: the recipe's, mostly 2]")
    ] = None,
    beta: Annotated[
        float | None, typer.Option("--beta", help="Concentration of the soft weights [default: the recipe's, 15]")
    ] = None,
    iterations: Annotated[
        int | None, typer.Option("--iterations", help="Passes per level [default: the recipe's, mostly 25]")
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any other option of the recipe; may be repeated"),
    ] = None,
    spec: Annotated[
        str | None,
        typer.Option(
            "--spec", help="A file with a spec from `sidkit show`, instead of a recipe; - reads standard input"
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Same seed, same tokenizer")] = 0,
    id_column: IdColumn = None,
    column: Column = None,
    bad_rows: BadRowsOption = BadRows.error,
    device: Device = "auto",
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a fit that was stopped")] = False,
    ray: Ray = None,
    workers: Workers = None,
    cpus: Cpus = 1,
    as_json: Json = False,
) -> None:
    """sidkit fit items.parquet -o tok/ --sizes 1024-512-128 --top-k 5

    Fit a tokenizer to embeddings and write it as a folder. A fit that is stopped leaves what it had finished beside
    it, as OUTPUT.unfinished; --resume goes on from there. With --ray the workers of a cluster hold the rows; the
    tokens are the same.
    """
    from ..files.atomic import discard
    from ..rows.device import place_of, said
    from ..tokenizer.store import check_target, load
    from .terminal import Terminal, print_quality

    named = {"sizes": read_sizes(sizes), "top_k": top_k, "beta": beta, "iterations": iterations} | read_options(option)
    tokenizer = tokenizer_of(recipe, {key: value for key, value in named.items() if value is not None}, spec)
    require_ray(ray, workers, cpus)
    require_folder(output)
    check_target(output)
    with Terminal() as progress, ExitStack() as stack:
        source: Any
        if ray is None:
            source = open_source(embeddings, id_column, column, bad_rows, output, progress)
        else:
            ways = (ray, workers, cpus, id_column, column, device, bad_rows, progress)
            source = stack.enter_context(rows_on_ray(embeddings, *ways))
            tell_left_out(source, output)
        unfinished = fresh_unfinished(output, resume)
        fitted = tokenizer.fit(source, seed=seed, device=device, progress=progress, checkpoint=unfinished)
        fitted.save(output)
        discard(unfinished)
    facts, place = dict(load(output).facts), place_of(fitted.fitted_rows)
    if as_json:
        told = {"output": str(output), "recipe": tokenizer.name, "sizes": fitted.sizes, "ran": place}
        print(json.dumps(told | facts))
        return
    print_quality(facts["quality"], fitted.sizes)
    if place:
        print(f"\n{said(place)}")
    print(f"\nwrote {output}; next: sidkit encode {output} {embeddings} -o sids.parquet")


@app.command(cls=WithRay)
def encode(
    tokenizer: Annotated[Path, typer.Argument(help="Folder written by `sidkit fit`", show_default=False)],
    embeddings: Annotated[str, typer.Argument(help="Embeddings as for fit; - reads JSON lines", show_default=False)],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Parquet file; - prints id<tab>sid", show_default=False, parser=place)
    ],
    template: TemplateOption = "letters",
    spread: Annotated[
        bool,
        typer.Option("--spread", help="Part items that share a SID: free codes of their last level, nearest first"),
    ] = False,
    id_column: IdColumn = None,
    column: Column = None,
    bad_rows: BadRowsOption = BadRows.error,
    device: Device = "auto",
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an encoding that was stopped")] = False,
    ray: Ray = None,
    workers: Workers = None,
    cpus: Cpus = 1,
    as_json: Json = False,
) -> None:
    """sidkit encode tok/ items.parquet -o sids.parquet

    Give every embedding its semantic ID. Row order and ids are kept. An encoding that is stopped leaves what it had
    finished beside the output, as OUTPUT.unfinished; --resume goes on from there. With --ray the output is a folder,
    or an address such as s3://bucket/sids, with a file for every file of embeddings; those that are there already,
    made by the same tokenizer from the same file, are kept. With --spread items give way to each other in their last
    token, so encode the whole catalogue at once.
    """
    from ..files.atomic import discard
    from ..rows.device import said
    from ..sids.table import SidTable
    from ..sids.template import template_named
    from ..tokenizer.store import load
    from .terminal import Terminal, plain

    require_ray(ray, workers, cpus)
    form, fitted, to_stream = template_named(template), load(tokenizer), str(output) == "-"
    if not to_stream and ray is not None:
        require_writable(output)
    elif not to_stream:
        require_file(output, embeddings)
    elif as_json:
        raise SpecError("--json tells of what was written to a file; -o - prints the semantic IDs themselves")
    if ray is not None:
        if to_stream:
            raise SpecError("with --ray the output is a folder or an address, not -")
        if spread:
            raise SpecError("--spread needs all items in one place; it does not go with --ray")
        with Terminal() as progress:
            ways = (ray, workers, cpus, id_column, column, device, bad_rows, progress)
            with rows_on_ray(embeddings, *ways, check=False) as rows:
                done = rows.encode(fitted, output, template, bad_rows.value)
        tell_encoded(done, output, rows.place(), as_json)
        return
    ran: dict[str, Any] = {}
    with Terminal() as progress:
        source = open_source(embeddings, id_column, column, bad_rows, output, progress)
        unfinished = None if to_stream else fresh_unfinished(output, resume)
        codes = fitted.encode(source, device=device, progress=progress, checkpoint=unfinished, spread=spread, ran=ran)
    table = SidTable(ids_of(source), codes, fitted.sizes)
    if unfinished is None:
        shown: Any = plain if sys.stdout.isatty() else str  # a pipe gets ids as they are
        for item, sid in zip(table.ids.to_pylist(), table.strings(form).to_pylist(), strict=True):
            print(f"{shown(item)}\t{sid}")
        return
    table.to_parquet(output, form)
    discard(unfinished)
    if as_json:
        print(json.dumps({"output": str(output), "items": len(table), "sizes": fitted.sizes, "ran": ran}))
        return
    if ran:
        print(said(ran))
    print(f"wrote {len(table):,} semantic IDs to {output}; next: sidkit report {output}")


@app.command()
def show(
    recipe: Annotated[str | None, typer.Argument(help="A recipe, or a folder written by `sidkit fit`")] = None,
    sizes: Annotated[str | None, typer.Option("--sizes", help="Codewords per level")] = None,
    option: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="An option of the recipe; may be repeated")
    ] = None,
) -> None:
    """sidkit show prq-kmeans --sizes 1024-512-128 --set top_k=5

    A recipe's spec as JSON, to read, change, and hand to `sidkit fit --spec`. Without a name: the recipes.
    """
    from ..tokenizer.recipes import RECIPES
    from ..tokenizer.spec import to_plain

    if recipe is None and (sizes or option):
        raise SpecError("--sizes and --set are for a recipe; name one, as sidkit show prq-kmeans --sizes 64-32-16")
    if recipe is None:
        for name, make in RECIPES.items():
            print(f"{name:20} {(make.__doc__ or '').splitlines()[0]}")
        return
    if Path(recipe, "config.json").is_file():
        from ..tokenizer.store import load

        if sizes or option:
            raise SpecError(f"{recipe} is fitted already; --sizes and --set are for recipes")
        stages: Any = load(recipe).spec.stages
    else:
        given = {"sizes": read_sizes(sizes)} if sizes else {}
        stages = tokenizer_of(recipe, given | read_options(option), None).stages
    print(json.dumps(to_plain(stages), indent=2))
