"""sidkit evaluate: how well a trained recommender recommends."""

import json
from pathlib import Path
from typing import Annotated

import typer

from ..errors import SpecError
from .options import Device, Json, SequenceColumn, SequencesFile


def evaluate(
    retriever: Annotated[Path, typer.Argument(help="Folder written by `sidkit train`", show_default=False)],
    sequences: SequencesFile,
    split: Annotated[str, typer.Option("--split", help="test or valid: which held-out item is to be found")] = "test",
    beams: Annotated[int | None, typer.Option("--beams", help="SIDs generated per user [default: as trained]")] = None,
    constrained: Annotated[
        bool | None,
        typer.Option(
            "--constrained/--unconstrained", help="Generate valid SIDs only, or any tokens [default: as trained]"
        ),
    ] = None,
    invalid_consumes_rank: Annotated[
        bool, typer.Option("--invalid-consumes-rank", help="What is generated and is no SID takes a place in the list")
    ] = False,
    within: Annotated[
        Path | None, typer.Option("--within", help="Recommend only these items: a text file, an id a line")
    ] = None,
    sequence_column: SequenceColumn = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """sidkit evaluate run/ sequences.parquet

    Recall, NDCG, HitRate and MRR at 5, 10 and 20 of a trained recommender: item by item as the paper counts them, their
    exact expectation, corrected for colliding items, and for semantic IDs alone; beside them what counting gives that
    needs no model.
    """
    from ..errors import InputError, need

    need("torch", "retriever", "evaluating a retriever")
    from ..data.sequences import read_sequences
    from ..measure.counting import counted
    from ..measure.ranking import CUTS
    from ..retriever.retriever import Retriever
    from .printing import print_figures
    from .terminal import Terminal

    if split not in ("test", "valid"):
        raise SpecError(f"--split must be test or valid, not {split!r}")
    found = Retriever.load(retriever, device)
    behaviour = read_sequences(sequences, found.table.ids, sequence_column)
    try:
        lines = within.read_text(encoding="utf-8").splitlines() if within else []
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {within}: {error}") from error
    allowed = [line.strip() for line in lines if line.strip()] if within else None
    with Terminal() as progress:
        ways = (split, beams, constrained, allowed, progress, invalid_consumes_rank)
        tally = found.evaluate(behaviour, *ways)  # type: ignore[arg-type]
    simple = {} if within else counted(behaviour, len(found.table), split)  # type: ignore[arg-type]
    if as_json:
        print(json.dumps({"users": tally.count, "means": tally.means(), "sums": tally.sums, "counting": simple}))
        return
    print_figures(tally.means(), tally.count, simple)
    if (most := beams or found.plan.beams) < max(CUTS):
        print(f"with {most} SIDs generated per user, figures at more than {most} say no more than at {most}")
