"""sidkit fit: a tokenizer from embeddings."""

import json
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import SpecError
from .columns import ColumnNotes
from .joint import JointEmbeddings, Queries, Repeats, Roles, describe_roles, joint_roles, open_joint
from .options import BadRows, BadRowsOption, Column, Device, Force, IdColumn, Json, Output, Recipe
from .outputs import require_folder
from .parsing import read_options, read_sizes, tokenizer_of
from .ray import Cpus, DivideBatches, Ray, Workers, list_left_out, require_ray, rows_on_ray

if TYPE_CHECKING:
    from ..progress import Progress
    from ..tokenizer.tokenizer import FittedTokenizer, Tokenizer

HELPS = {"rq-vae": "--set remove_mean=true or --set reset_dead=true"}  # against collapsed levels, by recipe


def fit(
    embeddings: JointEmbeddings,
    output: Output,
    recipe: Recipe = "prq-kmeans",
    sizes: Annotated[
        str | None,
        typer.Option(
            "--sizes", help="Codewords per level, such as 1024-512-128 [default: the recipe's, mostly 256-256-256]"
        ),
    ] = None,
    top_k: Annotated[
        int | None, typer.Option("--top-k", help="Centroids that each row refines [default: the recipe's, mostly 2]")
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
    start: Annotated[
        Path | None,
        typer.Option("--from", help="A tokenizer to fit again, from its codebooks and with its recipe", metavar="PATH"),
    ] = None,
    churn: Annotated[
        float | None, typer.Option("--churn", help="With --from, the largest share of rows that may get another SID")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same tokenizer")] = 0,
    queries: Queries = None,
    roles: Roles = None,
    repeats: Repeats = None,
    id_column: IdColumn = None,
    column: Column = None,
    bad_rows: BadRowsOption = BadRows.error,
    device: Device = "auto",
    resume: Annotated[bool, typer.Option("--resume", help="Resume a fit that was stopped")] = False,
    ray: Ray = None,
    workers: Workers = None,
    cpus: Cpus = 1,
    divide_batches: DivideBatches = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """sidkit fit items.parquet -o tok/ --sizes 1024-512-128 --top-k 5

    Fit a tokenizer to embeddings and write it as a folder. A fit that is stopped leaves its finished part beside the
    folder, as OUTPUT.unfinished, and --resume continues from there. With --ray the workers of a cluster hold the rows;
    the tokens are the same.

    Queries can be fitted with the items, so that both have SIDs by the same codebooks; the figures count items alone:

    sidkit fit items.parquet --queries queries.parquet --repeats train_records -o tok-shared/

    A catalogue that has changed can be fitted from its old tokenizer, so that few items get another SID:

    sidkit fit items.parquet --from tok/ --churn 0.05 -o tok-next/
    """
    from ..data.source import chosen_columns
    from ..files.unfinished import Unfinished
    from ..rows.run_report import ran_on
    from ..tokenizer.card import facts_of
    from ..tokenizer.store import check_target
    from .printing import command_line
    from .terminal import Terminal

    named = {"sizes": read_sizes(sizes), "top_k": top_k, "beta": beta, "iterations": iterations} | read_options(option)
    chosen = {key: value for key, value in named.items() if value is not None}
    old = _old(start, churn, recipe, chosen, spec, ray)
    tokenizer = tokenizer_of(recipe, chosen, spec) if old is None else old.spec
    files = joint_roles(embeddings, queries, roles, repeats)
    require_ray(ray, workers, cpus)
    _require_ray_can(ray, divide_batches, tokenizer, len(files))
    require_folder(output, check_target, force)
    notes = ColumnNotes()
    with Terminal() as progress, ExitStack() as stack:
        source: Any
        if ray is None:
            source = open_joint(files, repeats, id_column, column, bad_rows, output, progress, notes)
        else:
            options = (ray, workers, cpus, id_column, column, device, bad_rows, progress, True, divide_batches)
            source = stack.enter_context(rows_on_ray(files["items"], *options))
            notes.add("items", files["items"], chosen_columns(source.source))
            list_left_out(source, output)
        unfinished = stack.enter_context(Unfinished(output, resume))
        if old is None:
            fitted = tokenizer.fit(source, seed=seed, device=device, progress=progress, checkpoint=unfinished)
            fitted = replace(fitted, facts=facts_of(fitted))
        else:
            fitted = _fit_from(old, start, churn, source, seed, device, progress, unfinished)
        fitted = replace(fitted, facts={**fitted.facts, "embeddings": str(files["items"])})
        fitted.save(output)
    facts, ran = dict(fitted.facts), ran_on(fitted.fitted_rows)
    _warn_of_collapse(facts, fitted.sizes, tokenizer.name)
    if as_json:
        result = {"output": str(output), "recipe": tokenizer.name, "sizes": fitted.sizes, "ran": ran}
        print(json.dumps(result | facts | notes.field()))
        return
    notes.print()
    _print_fit(facts, fitted.sizes, ran)
    same = {"--id-column": id_column, "--column": column, "--bad-rows": "drop" if bad_rows is BadRows.drop else None}
    following = command_line("encode", output, files["items"], "-o", "sids.parquet", options=same)
    print(f"\nwrote {output}; next: {following}")


def _require_ray_can(ray: str | None, divide_batches: bool, tokenizer: "Tokenizer", files: int) -> None:
    """An error for what --ray does not do, and where batches are to be divided but there are none, or no workers."""
    if ray is not None and files > 1:
        raise SpecError("--ray fits one file of embeddings; leave out --ray to fit items and queries together")
    if divide_batches and ray is None:
        raise SpecError("--divide-batches is for the workers of --ray; give that too")
    if divide_batches and not tokenizer.fits_seeds_at_once:
        raise SpecError("--divide-batches is for rq-vae and r3-vae; other recipes have no batches, or one machine's")


def _warn_of_collapse(facts: Mapping[str, Any], sizes: tuple[int, ...], recipe: str) -> None:
    """Say on standard error which levels hardly use their codes, and what may help."""
    from ..report.findings import collapsed_levels

    found = collapsed_levels(facts["quality"], sizes) if "quality" in facts else []
    for one in found:
        print(f"warning: {one.text}", file=sys.stderr)
    if found and recipe in HELPS:
        print(f"warning: this happens where all vectors have much in common; {HELPS[recipe]} may help", file=sys.stderr)


def _old(
    start: Path | None, churn: float | None, recipe: str, options: dict[str, Any], spec: str | None, ray: str | None
) -> "FittedTokenizer | None":
    """The tokenizer of --from, if there is one; an error beside options that it decides."""
    from ..tokenizer.tokenizer import load
    from ..tokenizer.warm import warm_starts

    if start is None:
        if churn is not None:
            raise SpecError("--churn is for a fit from an old tokenizer; name that with --from")
        return None
    if options or spec is not None or recipe != "prq-kmeans":
        raise SpecError("--from fits the recipe of the old tokenizer again; leave out recipe, sizes and other options")
    if ray is not None:
        raise SpecError("--from fits on one machine; it cannot be combined with --ray")
    old = load(start)
    warm_starts(old)
    return old


def _fit_from(
    old: "FittedTokenizer",
    start: Path | None,
    churn: float | None,
    source: Any,
    seed: int,
    device: str,
    progress: "Progress",
    unfinished: Path,
) -> "FittedTokenizer":
    """The refit of --from, with what changed among its facts."""
    from ..tokenizer.warm import fit_from

    made = fit_from(old, source, churn, seed, device, progress, unfinished)
    facts = {"tokenizer": str(start), "digest": old.digest, **made.facts}
    return replace(made.fitted, facts={**made.fitted.facts, "from": facts})


def _print_fit(facts: Mapping[str, Any], sizes: tuple[int, ...], ran: Mapping[str, Any]) -> None:
    from ..rows.run_report import describe_run
    from .printing import print_quality

    print_quality(facts["quality"], sizes)
    if "from" in facts:
        print(f"\n{_describe_start(facts['from'])}")
    if "roles" in facts:
        print(f"\n{describe_roles(facts['roles'])}")
    if ran:
        print(f"\n{describe_run(ran)}")


def _describe_start(facts: Mapping[str, Any]) -> str:
    """How far the fit went from the old tokenizer."""
    levels = ", ".join(f"{share:.1%}" for share in facts["prefixes"])
    went = f", {facts['t']:.1%} of the way to a refit, to keep to {facts['budget']:.1%}" if facts["t"] < 1 else ""
    return f"from {facts['tokenizer']}: {facts['changed']:.1%} of the rows have another SID (prefixes: {levels}){went}"
