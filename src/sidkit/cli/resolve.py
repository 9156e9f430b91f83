"""sidkit resolve: apply a collision policy to semantic IDs."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InputError, count_of
from .collisions import (
    CapacityOption,
    CollisionChoice,
    PopularityOption,
    RoomOption,
    describe_policy,
    weights_of,
)
from .columns import ColumnNotes, as_fitted, vectors_from
from .inputs import sids_from
from .options import Column, IdColumn, InsistOnBoth, Json, Location, Sids, TableOutput, location
from .outputs import TABLES, require_file

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ..data.source import Embeddings
    from ..progress import Progress
    from ..sids.table import SidTable


def resolve(
    sids: Sids,
    output: TableOutput,
    policy: Annotated[
        str | None,
        typer.Option(
            "--policy",
            help="keep, counter, nearest, capacity, popular, least-cost or sinkhorn [default: nearest]",
            show_default=False,
        ),
    ] = None,
    tokenizer: Annotated[
        Path | None, typer.Option("--tokenizer", help="Their tokenizer [default: the one that they note]")
    ] = None,
    embeddings: Annotated[
        str | None, typer.Option("--embeddings", help="Their vectors [default: those that they note]")
    ] = None,
    keep: Annotated[
        Location | None,
        typer.Option("--keep", help="Published SIDs whose items keep theirs", parser=location, metavar="PATH"),
    ] = None,
    capacity: CapacityOption = None,
    popularity: PopularityOption = None,
    room: RoomOption = 256,
    neighbours: Annotated[
        int, typer.Option("--neighbours", help="Measure what moving does to this many neighbours; 0 for none")
    ] = 10,
    id_column: IdColumn = None,
    column: Column = None,
    force: InsistOnBoth = False,
    as_json: Json = False,
) -> None:
    """sidkit resolve sids.parquet --policy nearest -o resolved.parquet

    Decide what happens to items that share a semantic ID, and print what that costs: how many items moved, what that
    adds to the distortion of their last token, and whether items still have their neighbours beside them. With --keep
    published.parquet the items of that file keep their SIDs, and no other item gets one of those.
    """
    from ..sids.collision_note import collision_note
    from ..sids.read import origin_of
    from ..sids.table import SidTable
    from ..tokenizer.tokenizer import load
    from .printing import command_line
    from .terminal import Terminal

    published = None if keep is None else str(keep)
    choice = CollisionChoice(policy or "nearest", capacity, room, published, popularity)
    choice.check()
    require_file(output, str(sids), published, endings=TABLES, force=force)
    folder = tokenizer or _noted("tokenizer", origin_of(sids).tokenizer, sids)
    table, notes, fitted = sids_from(sids, folder, force), ColumnNotes(), load(folder)
    if table.sizes != fitted.sizes:
        raise InputError(f"{folder} makes SIDs of sizes {fitted.sizes}, but those of {sids} are {table.sizes}")
    given = choice.read_published()
    chosen = choice.chosen(fitted, given)
    with Terminal() as progress:
        source, rows = None, None
        if chosen.needs_costs:
            path = embeddings or str(_noted("embeddings", table.origin.embeddings, sids))
            source = vectors_from(path, *as_fitted(fitted, path, id_column, column), notes, origin=table.origin)
            rows = _rows_of(table, source, path)
        weights = weights_of(source, popularity, rows)
        made = choice.settle(fitted, source, table.ids, table.codes, given, weights, progress, rows)
        facts = dict(made.facts)
        if facts["moved"] and neighbours and rows is not None:
            facts["neighbours"] = _neighbours(table, made.codes, source, rows, neighbours, progress)
    after = SidTable(table.ids, made.codes, made.sizes, table.template, table.origin)
    after.to_file(output, notes=collision_note(facts))
    if as_json:
        print(json.dumps({"output": str(output), "sizes": made.sizes, "collisions": facts} | notes.field()))
        return
    notes.print()
    print(describe_policy(facts))
    print(f"wrote {count_of(len(after), 'semantic ID')} to {output}; next: {command_line('report', output)}")


def _noted(kind: str, name: str, sids: Any) -> Path:
    """What SIDs note that they were made from; an error if they note nothing, or it is gone."""
    if not name or ("://" not in name and not Path(name).exists()):
        gone = f"{sids} was made from {name}, which is not there" if name else f"{sids} does not note its {kind}"
        raise InputError(f"{gone}; name it with --{kind}")
    return Path(name)


def _rows_of(table: "SidTable", source: "Embeddings", path: str) -> "NDArray[np.int64]":
    """The row of every item among the embeddings."""
    from ..data.ids import match

    rows = match(table.ids, source.ids)
    missing = int((rows < 0).sum())
    if missing:
        first = table.ids[int((rows < 0).argmax())].as_py()
        raise InputError(f"{path} has no vectors for {missing:,} of these items, the first being {first!r}")
    return rows


def _neighbours(
    table: "SidTable", after: Any, source: Any, rows: "NDArray[np.int64]", neighbours: int, progress: "Progress"
) -> dict[str, Any]:
    import numpy as np

    from ..data.embeddings import without
    from ..measure.moved import neighbours_before_and_after

    order = np.argsort(rows, kind="stable")
    others = np.setdiff1d(np.arange(source.shape[0]), rows)
    vectors = without(source, others) if len(others) else source
    codes = table.codes[order], after[order, : table.codes.shape[1]]
    count = min(neighbours, len(table) - 1)
    return neighbours_before_and_after(*codes, table.sizes, vectors, count, progress=progress)
