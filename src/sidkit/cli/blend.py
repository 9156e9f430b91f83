"""sidkit blend: co-occurrence vectors appended to embeddings."""

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import SpecError, count_of
from .columns import ColumnNotes, visits_from
from .inputs import all_rows, open_source
from .options import (
    BadRows,
    BadRowsOption,
    Column,
    Embeddings,
    FileOrder,
    Force,
    IdColumn,
    ItemColumn,
    Json,
    SequenceColumn,
    SequencesOption,
    TableOutput,
    TimeColumn,
    UserColumn,
)
from .outputs import TABLES, require_file

if TYPE_CHECKING:
    from ..files.address import Location


def blend(
    embeddings: Embeddings,
    output: TableOutput,
    sequences: SequencesOption = None,
    weight: Annotated[
        float, typer.Option("--weight", help="Weight of the co-occurrence vectors (embeddings have weight 1)")
    ] = 1.0,
    dimensions: Annotated[int, typer.Option("--dimensions", help="Dimensions of the co-occurrence vectors")] = 128,
    window: Annotated[
        int,
        typer.Option("--window", help="Largest distance in a sequence at which two items co-occur; 0: whole sequences"),
    ] = 5,
    auto: Annotated[
        bool,
        typer.Option("--auto", help="Choose --weight and --window by what they would have brought; 0 if nothing"),
    ] = False,
    everything: Annotated[
        bool,
        typer.Option("--everything", help="Also count the last two items of sequences, which train and judge hold out"),
    ] = False,
    like: Annotated[
        str | None,
        typer.Option(
            "--like", help="Blended file to take co-occurrence vectors from; items that it does not have get zeros"
        ),
    ] = None,
    sequence_column: SequenceColumn = None,
    item_column: ItemColumn = None,
    user_column: UserColumn = None,
    time_column: TimeColumn = None,
    file_order: FileOrder = False,
    id_column: IdColumn = None,
    column: Column = None,
    bad_rows: BadRowsOption = BadRows.error,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """sidkit blend items.parquet --sequences sequences.parquet -o blended.parquet

    Append to every embedding a vector of which items its item occurs with, for `sidkit fit`. The last two items of
    every sequence are not counted: `sidkit judge`, `train` and `evaluate` hold them out. Whether it pays, and with
    which weight, can be found without them and without training:

    sidkit blend items.parquet --sequences sequences.parquet -o blended.parquet --auto

    Items that arrive later are blended for the same tokenizer with

    sidkit blend new.parquet --like blended.parquet -o more.parquet
    """
    from ..advice.blending import advise_blending
    from ..data.sequence_columns import SequenceColumns
    from ..data.source import chosen_columns, id_name_of
    from ..embed.co_occurrence import blend_file, co_occurrence, require_weight, vectors_of
    from ..rows.checks import require_good_rows
    from .print_blending import print_blending
    from .terminal import Terminal

    if (sequences is None) == (like is None):
        raise SpecError("give --sequences, or --like with a file that `sidkit blend` wrote")
    if like is not None and (weight, dimensions, window, everything, auto) != (1.0, 128, 5, False, False):
        options = "--weight, --dimensions, --window, --everything, --auto"
        raise SpecError(f"--like takes vectors as they are; leave out {options}")
    if auto and (weight, window) != (1.0, 5):
        raise SpecError("--auto chooses the weight and the window; leave out --weight and --window, or --auto")
    require_file(output, embeddings, sequences, like, endings=TABLES, force=force)
    require_weight(weight)
    named = SequenceColumns(sequence_column, item_column, user_column, time_column, file_order)
    notes = ColumnNotes()
    with Terminal() as progress:
        source = open_source(embeddings, id_column, column, bad_rows, output, progress)
        notes.add("embeddings", embeddings, chosen_columns(source))
        require_good_rows(source, progress)
        if sequences is None:
            vectors, facts = vectors_of(str(like), source.ids, source.shape[1])
            written = blend_file(source, vectors, 1.0, output, facts, progress)
        else:
            known = visits_from(sequences, source.ids, named, notes, id_name_of(source))
            advice = advise_blending(all_rows(source), known, dimensions, progress=progress) if auto else None
            weight, window = (advice.weight, advice.window) if advice else (weight, window)
            counted = known.known() if everything else known.known().training()
            vectors = co_occurrence(counted, len(source.ids), dimensions, window, progress)
            facts = {"weight": weight, "window": window, "everything": everything}
            given = (vectors, weight) if weight else (0 * vectors, 1.0)  # --auto: zeros, if it does not pay
            written = blend_file(source, *given, output, facts, progress)
            written |= {"sequences": len(known), "items_unknown": known.unknown_items}
            written |= {"advice": advice.as_dict()} if advice else {}
    if as_json:
        print(json.dumps({"output": str(output), **written, **notes.field()}))
        return
    notes.print()
    if "advice" in written:
        print_blending(written["advice"])
    _print(written, output, like is not None)


def _print(written: Mapping[str, Any], output: "Location", like: bool) -> None:
    from .printing import command_line

    if written.get("items_unknown"):
        unknown = count_of(written["items_unknown"], "item of the sequences has", "items of the sequences have")
        print(f"{unknown} no embedding and were left out", file=sys.stderr)
    if written["alone"] and written["weight"]:
        print(
            f"{count_of(written['alone'], 'item occurs', 'items occur')} with no other, or too seldom; "
            "the co-occurrence vectors of such items are zero",
            file=sys.stderr,
        )
    count = count_of(written["items"], "embedding")
    print(f"wrote {count} of {written['d']} + {written['beside']} dimensions to {output}")
    if like:
        print(f"      next: {command_line('encode', 'tok/', output, '-o', f'{output.stem}-sids.parquet')}")
        return
    print(f"      next: {command_line('fit', output, '-o', 'tok/')}")
    print(f"      then: {command_line('encode', 'tok/', output, '-o', 'sids.parquet', '--spread')}")
