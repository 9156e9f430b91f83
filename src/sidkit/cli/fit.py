"""fit, encode, show: from embeddings to semantic IDs."""

import json
from contextlib import ExitStack
from typing import Annotated, Any

import typer

from ..errors import SpecError
from .joint import JointEmbeddings, Queries, Repeats, Roles, joint_roles, open_joint
from .options import (
    BadRows,
    BadRowsOption,
    Column,
    Device,
    IdColumn,
    Json,
    Output,
    fresh_unfinished,
    read_options,
    read_sizes,
    require_folder,
    tokenizer_of,
)
from .ray import Cpus, Ray, Workers, require_ray, rows_on_ray, tell_left_out


def fit(
    embeddings: JointEmbeddings,
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
    queries: Queries = None,
    roles: Roles = None,
    repeats: Repeats = None,
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

    Queries can be fitted with the items, so that both have SIDs by the same codebooks; the figures count items alone:

    sidkit fit items.parquet --queries queries.parquet --repeats train_records -o tok-shared/
    """
    from ..files.atomic import discard
    from ..rows.device import describe_run, ran_on
    from ..tokenizer.store import check_target, load
    from .printing import print_quality
    from .terminal import Terminal

    named = {"sizes": read_sizes(sizes), "top_k": top_k, "beta": beta, "iterations": iterations} | read_options(option)
    tokenizer = tokenizer_of(recipe, {key: value for key, value in named.items() if value is not None}, spec)
    files = joint_roles(embeddings, queries, roles, repeats)
    if ray is not None and len(files) > 1:
        raise SpecError("--ray fits one file of embeddings; leave out --ray to fit items and queries together")
    require_ray(ray, workers, cpus)
    require_folder(output)
    check_target(output)
    with Terminal() as progress, ExitStack() as stack:
        source: Any
        if ray is None:
            source = open_joint(files, repeats, id_column, column, bad_rows, output, progress)
        else:
            ways = (ray, workers, cpus, id_column, column, device, bad_rows, progress)
            source = stack.enter_context(rows_on_ray(files["items"], *ways))
            tell_left_out(source, output)
        unfinished = fresh_unfinished(output, resume)
        fitted = tokenizer.fit(source, seed=seed, device=device, progress=progress, checkpoint=unfinished)
        fitted.save(output)
        discard(unfinished)
    facts, place = dict(load(output).facts), ran_on(fitted.fitted_rows)
    if as_json:
        told = {"output": str(output), "recipe": tokenizer.name, "sizes": fitted.sizes, "ran": place}
        print(json.dumps(told | facts))
        return
    print_quality(facts["quality"], fitted.sizes)
    if "roles" in facts:
        counts = " and ".join(f"{count:,} {role}" for role, count in facts["roles"].items())
        print(f"\nfitted on {counts}; these figures count items alone")
    if place:
        print(f"\n{describe_run(place)}")
    print(f"\nwrote {output}; next: sidkit encode {output} {files['items']} -o sids.parquet")
