"""sidkit evaluate: how well a trained recommender recommends."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import SpecError, count_of
from .columns import ColumnNotes, visits_from
from .inputs import ids_of_lines
from .options import (
    Device,
    FileOrder,
    Force,
    ItemColumn,
    Json,
    SequenceColumn,
    SequencesFile,
    TimeColumn,
    UserColumn,
    Within,
)
from .outputs import require_file
from .swapped import require_order

if TYPE_CHECKING:
    from ..retriever.metrics import Tally


def evaluate(
    retriever: Annotated[
        Path, typer.Argument(help="Folder written by `sidkit train`, of one seed or several", show_default=False)
    ],
    sequences: SequencesFile,
    split: Annotated[str, typer.Option("--split", help="Which held-out item is predicted: test or valid")] = "test",
    beams: Annotated[int | None, typer.Option("--beams", help="SIDs generated per user [default: as trained]")] = None,
    inference_batch: Annotated[
        int | None,
        typer.Option("--inference-batch", help="Users whose SIDs are generated at once [default: as trained]"),
    ] = None,
    constrained: Annotated[
        bool | None,
        typer.Option(
            "--constrained/--unconstrained", help="Generate valid SIDs only, or any tokens [default: as trained]"
        ),
    ] = None,
    invalid_consumes_rank: Annotated[
        bool,
        typer.Option("--invalid-consumes-rank", help="Generated tokens that are not a SID take a rank in the list"),
    ] = False,
    fused: Annotated[
        bool | None,
        typer.Option("--fused/--not-fused", help="Figures of lists fused with counts too [default: where they helped]"),
    ] = None,
    within: Within = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Page to write: .html; or its figure: .svg; or --json's: .json"),
    ] = None,
    sequence_column: SequenceColumn = None,
    item_column: ItemColumn = None,
    user_column: UserColumn = None,
    time_column: TimeColumn = None,
    file_order: FileOrder = False,
    device: Device = "auto",
    force: Force = False,
    as_json: Json = False,
) -> None:
    """sidkit evaluate run/ sequences.parquet

    Recall, NDCG, HitRate and MRR at 5, 10 and 20 of a trained recommender: item by item as the paper counts them, their
    exact expectation, corrected for colliding items, and for semantic IDs alone; of the same lists fused with counts;
    then what counting gives without a model. A second table has items that were never or seldom seen in training apart
    from the others. Of a folder with several seeds, the mean of every figure and its standard deviation over seeds.

    sidkit evaluate run/ sequences.parquet -o evaluation.html

    The same as a page, with a figure of how well items that were never or seldom seen in training are found.
    """
    from ..errors import need

    need("torch", "retriever", "evaluating a retriever")
    from ..data.sequence_columns import SequenceColumns
    from ..measure.counting import counted
    from ..measure.ranking import CUTS
    from ..retriever.retriever import Retriever
    from ..retriever.seeds import seed_folder, seeds_in
    from .print_beyond import print_beyond
    from .printing import print_figures
    from .terminal import Terminal

    if output is not None:
        require_file(output, sequences, endings=(".html", ".svg", ".json"), force=force)
    if split not in ("test", "valid"):
        raise SpecError(f"--split must be test or valid, not {split!r}")
    named = SequenceColumns(sequence_column, item_column, user_column, time_column, file_order)
    require_order("evaluate", retriever=retriever, sequences=sequences)
    seeds, notes = seeds_in(retriever), ColumnNotes()
    folders = {f"seed {seed}": seed_folder(retriever, seed) for seed in seeds} or {"evaluate": retriever}
    trained = {label: Retriever.load(folder, device) for label, folder in folders.items()}
    first = next(iter(trained.values()))
    behaviour = visits_from(sequences, first.table.ids, named, notes, first.table.origin.id_column)
    if not as_json:
        notes.print()
    options = (split, beams, constrained, None if within is None else ids_of_lines(within))
    with Terminal() as progress:
        tallies = [
            one.evaluate(behaviour, *options, progress, invalid_consumes_rank, label, inference_batch, fused)  # type: ignore[arg-type]
            for label, one in trained.items()
        ]
    simple = {} if within else counted(behaviour, len(first.table), split)  # type: ignore[arg-type]
    fusion = None if fused is False else first.facts.get("fusion")
    facts = _facts(tallies, seeds) | {"fusion": fusion, "counting": simple, **notes.field()}
    if output is not None:
        _write(output, facts, retriever, sequences)
    if as_json:
        print(json.dumps(facts))
        return
    print_figures(facts["means"], facts["users"], simple, seeds, facts.get("stds", {}))
    print_beyond(facts["seen"], fusion)
    if (most := beams or first.plan.beams) < max(CUTS):
        print(f"with {count_of(most, 'SID')} generated per user, figures at more than {most} are those at {most}")
    if output is not None:
        print(f"wrote {output}")


def _facts(tallies: "Sequence[Tally]", seeds: list[int]) -> dict[str, Any]:
    """Figures of one retriever, or the means of several and their deviations; of rare targets apart."""
    from ..retriever.seeds import mean_seen, means_and_stds

    figures = [tally.means() for tally in tallies]
    means, stds = means_and_stds(figures)
    by_seed = {str(seed): each for seed, each in zip(seeds, figures, strict=False)}
    rest = {"seeds": seeds, "figures": by_seed, "stds": stds} if seeds else {"sums": tallies[0].sums}
    return {"users": tallies[0].count, "means": means, **rest, "seen": mean_seen([tally.seen for tally in tallies])}


def _write(output: Path, facts: dict[str, Any], retriever: Path, sequences: SequencesFile) -> None:
    """The page, its figure, or what --json prints."""
    from ..files.atomic import replace_file
    from ..files.ours import MADE_BY
    from ..report.draw.svg import figure_svg
    from ..report.made import Made
    from ..retriever.page import evaluation_page, seen_figure
    from .printing import this_command

    made = Made(this_command(), [("retriever", str(retriever)), ("sequences", str(sequences))])
    texts = {
        ".html": lambda: evaluation_page(retriever.name, facts, made),
        ".svg": lambda: figure_svg(seen_figure(facts["seen"])),
        ".json": lambda: json.dumps({"by": MADE_BY} | facts, indent=1) + "\n",
    }
    with replace_file(output) as temporary:
        temporary.write_text(texts[output.suffix.lower()](), encoding="utf-8")
