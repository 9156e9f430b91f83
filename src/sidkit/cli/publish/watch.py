"""sidkit publish watch: whether new items are still like those of the fit."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...errors import InputError, SpecError
from ..columns import ColumnNotes, as_fitted, vectors_from
from ..options import Column, Force, IdColumn, Json
from ..outputs import require_file
from .shared import RegistryArgument

if TYPE_CHECKING:
    from ...publish.drift import Watched
    from ...publish.readings import Readings
    from ...tokenizer.tokenizer import FittedTokenizer

EXIT = {"append": 0, "refit-and-align": 3, "refit-afresh": 4}


def watch(
    registry: RegistryArgument,
    items: Annotated[str, typer.Argument(help="Embeddings of new items", show_default=False)],
    reference: Annotated[
        str | None,
        typer.Option(
            "--reference",
            help="Embeddings of items that were not in the fit and are known to be good, or what --save wrote "
            "[default: a tenth of the rows of the fit, measured by a fit to the others]",
            show_default=False,
        ),
    ] = None,
    save: Annotated[Path | None, typer.Option("--save", help="Write the reference as JSON, for --reference")] = None,
    tokenizer: Annotated[
        Path | None, typer.Option("--tokenizer", "-t", help="Folder of the registry's tokenizer, if it was moved")
    ] = None,
    alpha: Annotated[float, typer.Option("--alpha", help="Chance of a false alarm, over all tests together")] = 0.01,
    tolerance: Annotated[
        float, typer.Option("--tolerance", help="Relative change up to which a difference is no drift")
    ] = 0.02,
    draws: Annotated[int, typer.Option("--draws", help="Random draws of each test")] = 999,
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same p-values")] = 0,
    id_column: IdColumn = None,
    column: Column = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """sidkit publish watch registry.db new.parquet

    Test whether new items are like those that the tokenizer was fitted for: how many prefixes they use (utilisation),
    how evenly (Gini), what their SIDs lose of them (distortion), how far they are from centroids, and how many tokens
    were nearly others. Items that are published already are left out. The exit code is 0 for items to append, 3 to
    refit and align, 4 to refit afresh.
    """
    from ...publish.drift import Watched
    from ...publish.drift import watch as watch_items
    from ...publish.readings import MOST, readings_of
    from ...publish.reference import write_reference
    from ...publish.registry import open_registry
    from ...publish.unpublished import unpublished_rows
    from ..terminal import Terminal

    if not 0 < alpha < 1 or draws < 5 / alpha:
        raise SpecError(f"alpha {alpha} needs at least {5 / alpha:.0f} draws" if alpha > 0 else "alpha must be above 0")
    if save is not None:
        require_file(save, items, reference, endings=(".json",), force=force)
    notes = ColumnNotes()
    with open_registry(registry) as opened, Terminal():
        fitted = opened.load_tokenizer(tokenizer)
        source = vectors_from(items, *as_fitted(fitted, items, id_column, column), notes)
        new = unpublished_rows(opened, source.ids, MOST, seed)
        if len(new):
            known, described = _reference(fitted, reference, id_column, column)
            outcome = watch_items(known, readings_of(fitted, source.take(new), seed), alpha, tolerance, draws, seed)
        else:
            outcome, described = Watched((), "append", alpha, tolerance, 0, 0), "nothing is new"
    if save is not None and len(new):
        write_reference(save, known, fitted.digest)
    if as_json:
        print(json.dumps({"registry": registry, "reference": described, **outcome.to_plain()} | notes.field()))
    else:
        notes.print()
        _print(outcome, described)
    raise typer.Exit(EXIT[outcome.advice])


def _reference(
    fitted: "FittedTokenizer", named: str | None, id_column: str | None, column: str | None
) -> tuple["Readings", str]:
    """The readings to compare with, and where they come from."""
    from ...publish.readings import readings_of
    from ...publish.reference import held_out_reference, read_reference

    if named is not None and named.endswith(".json"):
        return read_reference(Path(named), fitted), named
    path = named or fitted.facts.get("embeddings")
    if named is None and (not isinstance(path, str) or ("://" not in path and not Path(path).exists())):
        gone = f"{path}, which the tokenizer was fitted on, is not there" if path else "the tokenizer notes no file"
        raise InputError(f"{gone}; name embeddings of items that were not in the fit with --reference")
    source: Any = vectors_from(str(path), *as_fitted(fitted, str(path), id_column, column), ColumnNotes())
    if named is not None:
        return readings_of(fitted, source), named
    return held_out_reference(fitted, source), f"a tenth of {path}, held out"


def _print(outcome: "Watched", described: str) -> None:
    from ...publish.drift import ADVICE
    from ..printing import print_rows

    if not outcome.items:
        print("all these items are published already")
        return
    rows = [
        [
            test.name.replace("_", " "),
            f"{test.reference:.4f}",
            f"{test.new:.4f}",
            f"{test.adjusted_p:.3f}",
            "drift" if test.drift else "",
        ]
        for test in outcome.tests
    ]
    items = f"{outcome.items:,} new items, compared with {outcome.reference_items:,} ({described})"
    print_rows([items], ["figure", "reference", "new", "p, for all tests", ""], rows)
    print(f"{ADVICE[outcome.advice]} (false alarms: at most {outcome.alpha:.1%})")
