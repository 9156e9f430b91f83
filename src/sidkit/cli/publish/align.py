"""sidkit publish align: a refit whose items keep their tokens."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...errors import InputError, count_of
from ..columns import ColumnNotes, as_fitted, vectors_from
from ..options import Column, Device, Force, IdColumn, Json, Location, Output, location
from ..outputs import require_folder

if TYPE_CHECKING:
    from ...tokenizer.tokenizer import FittedTokenizer


def align(
    old: Annotated[Path, typer.Argument(help="The tokenizer of the published SIDs", show_default=False)],
    new: Annotated[Path, typer.Argument(help="The refit", show_default=False)],
    output: Output,
    items: Annotated[
        str | None,
        typer.Argument(help="Embeddings of items that both know [default: those that the refit was fitted on]"),
    ] = None,
    sids: Annotated[
        Location | None,
        typer.Option(
            "--sids",
            help="Published SIDs of these items, in place of encoding with the old tokenizer",
            parser=location,
            metavar="PATH",
        ),
    ] = None,
    id_column: IdColumn = None,
    column: Column = None,
    device: Device = "auto",
    force: Force = False,
    as_json: Json = False,
) -> None:
    """sidkit publish align tok/ refit/ items.parquet -o next/

    Renumber the codewords of a refit so that items keep as many of their tokens as possible: one permutation for each
    token, or for each parent where codebooks are private to parents, by an exact assignment on the items. The result is
    the refit with other numbers and nothing else. Printed is the share of items with another token, and with another
    prefix, before and after, beside the least that any renumbering leaves. The refit is an ordinary one:

    sidkit fit items.parquet -o refit/ --seed 1
    """
    from dataclasses import replace

    from ...publish.align import align_tokenizer
    from ...tokenizer.store import check_target
    from ...tokenizer.tokenizer import load
    from ..terminal import Terminal

    former, refit, notes = load(old), load(new), ColumnNotes()
    if sids is None and len(former.sizes) != len(refit.sizes):
        counts = f"{len(former.sizes)} tokens and {len(refit.sizes)}"
        raise InputError(f"{old} and {new} give {counts}, so their codes cannot be aligned")
    require_folder(output, check_target, force)
    path = items or _noted_embeddings(refit, new)
    with Terminal():
        source = vectors_from(path, *as_fitted(refit, path, id_column, column), notes)
        if sids is None:
            rows: Any = source
            before = former.encode(source, device)
        else:
            rows, before = _published(source, str(sids))
        made = align_tokenizer(before, refit, rows, device)
    facts = {"to": str(old), "digest": former.digest, "of": refit.digest, **made.facts}
    replace(made.fitted, facts={**refit.facts, "aligned": facts}).save(output)
    if as_json:
        print(json.dumps({"output": str(output), "sizes": refit.sizes, **facts} | notes.field()))
        return
    notes.print()
    _print(facts, refit.sizes, output)


def _noted_embeddings(refit: "FittedTokenizer", folder: Path) -> str:
    """The file that a tokenizer was fitted on."""
    name = refit.facts.get("embeddings")
    if not isinstance(name, str) or ("://" not in name and not Path(name).exists()):
        gone = f"was fitted on {name}, which is not there" if name else "does not note what it was fitted on"
        raise InputError(f"{folder} {gone}; name embeddings of items that both tokenizers know, after the two folders")
    return name


def _published(source: Any, sids: str) -> tuple[Any, Any]:
    """The embeddings of published items, and their codes in the same order."""
    import numpy as np

    from ...data.ids import match
    from ...data.subset import without
    from ...sids.table import SidTable

    table = SidTable.from_parquet(sids)
    row = match(source.ids, table.ids)
    if not (row >= 0).any():
        raise InputError(f"no item of {sids} has an embedding, so there is nothing to align by")
    missing = np.flatnonzero(row < 0)
    return without(source, missing) if len(missing) else source, table.codes[row[row >= 0]]


def _print(facts: Mapping[str, Any], sizes: tuple[int, ...], output: Path) -> None:
    from ..printing import print_rows

    head = ["token", "size", "other token: before", "after", "least", "other prefix: before", "after", "at least"]
    names = [f"{kind}_{when}" for kind in ("tokens", "prefixes") for when in ("before", "after", "least")]
    rows = [
        [str(token + 1), f"{size:,}", *(f"{facts[name][token]:.1%}" for name in names)]
        for token, size in enumerate(sizes)
    ]
    print_rows([f"{count_of(facts['items'], 'item')}, aligned with {facts['to']}"], head, rows)
    if facts["ties"]:
        print(
            f"{count_of(facts['ties'], 'item lies', 'items lie')} exactly between two codes; the tokens of such items "
            "differ from the renumbered ones"
        )
    print(f"wrote {output}")
