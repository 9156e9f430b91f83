"""train, evaluate: a generative recommender over semantic IDs."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import SpecError
from .app import app
from .options import Device, Json, Output, SequenceColumn, require_writable

Sids = Annotated[Path, typer.Argument(help="Parquet file written by `sidkit encode`", show_default=False)]
SequencesFile = Annotated[
    Path, typer.Argument(help="Parquet: a list of items per user, or a row per event", show_default=False)
]
FIGURES = [f"{metric}@{cut}" for metric in ("Recall", "NDCG", "MRR") for cut in (5, 10, 20)]
WIDE = 120  # columns that all figures take


@app.command()
def train(
    sids: Sids,
    sequences: SequencesFile,
    output: Output,
    preset: Annotated[str, typer.Option("--preset", help="Size of the model: tiny, paper, base, large")] = "paper",
    epochs: Annotated[int, typer.Option("--epochs", help="At most so many passes")] = 200,
    batch: Annotated[int, typer.Option("--batch", help="Examples a step")] = 256,
    learning_rate: Annotated[float, typer.Option("--learning-rate", help="Of Adam")] = 1e-4,
    dropout: Annotated[float | None, typer.Option("--dropout", help="In training [default: the preset's, 0.1]")] = None,
    patience: Annotated[
        int, typer.Option("--patience", help="Epochs without a better validation NDCG@20 before it stops")
    ] = 10,
    history: Annotated[int, typer.Option("--history", help="Items of a history that are used, the latest")] = 20,
    beams: Annotated[int, typer.Option("--beams", help="SIDs generated per user")] = 30,
    constrained: Annotated[
        bool, typer.Option("--constrained/--unconstrained", help="Whether validation and test generate valid SIDs only")
    ] = True,
    precision: Annotated[
        str, typer.Option("--precision", help="Of matrix products on a GPU: auto (bfloat16), bfloat16, float32")
    ] = "auto",
    seed: Annotated[int, typer.Option("--seed", help="Decides first weights, order and dropout")] = 0,
    sequence_column: SequenceColumn = None,
    device: Device = "auto",
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a training that was stopped")] = False,
    as_json: Json = False,
) -> None:
    """sidkit train sids.parquet sequences.parquet -o run/ --preset tiny --epochs 2 --learning-rate 1e-3

    Train TIGER's encoder-decoder to generate the semantic ID of the next item. The last item of every sequence is the
    test, the one before it validation, the rest training. The defaults are the paper's, but that only SIDs of items are
    generated and a GPU computes in bfloat16. The folder loads with transformers' from_pretrained, and its tensorboard/
    with TensorBoard.
    """
    from ..errors import need

    need("torch", "retriever", "training a retriever")
    from dataclasses import replace

    from ..data.sequences import read_sequences
    from ..measure.counting import counted
    from ..retriever.model import preset as named
    from ..retriever.plan import Plan
    from ..retriever.retriever import find_device
    from ..retriever.retriever import train as run
    from ..sids.table import SidTable
    from .terminal import Terminal

    if precision not in ("auto", "bfloat16", "float32"):
        raise SpecError(f"--precision must be auto, bfloat16 or float32, not {precision!r}")
    shape = named(preset) if dropout is None else replace(named(preset), dropout=dropout)
    plan = Plan(
        shape, epochs, batch, learning_rate, patience, history, beams, constrained, precision, seed  # type: ignore[arg-type]
    )  # fmt: skip
    require_writable(output)
    table = SidTable.from_parquet(sids)
    behaviour = read_sequences(sequences, table.ids, sequence_column)
    if preset != "tiny" and str(find_device(device)) == "cpu":
        print(f"the {preset} model takes hours on a CPU; --preset tiny is the size to start with", file=sys.stderr)
    with Terminal() as progress:
        retriever = run(table, behaviour, output, plan, device, progress, resume)
    facts, simple = retriever.facts, counted(behaviour, len(table))
    if as_json:
        print(json.dumps({"output": str(output), **facts, "counting": simple}))
        return
    print_figures(facts["test"], facts["users"], simple)
    print(
        f"\nbest epoch {facts['best_epoch']} of {facts['epochs']}, {facts['seconds']:,.0f} s; wrote {output}; "
        f"next: sidkit evaluate {output} {sequences}"
    )


@app.command()
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
    from ..measure.counting import CUTS, counted
    from ..retriever.retriever import Retriever
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


def print_figures(means: Mapping[str, Any], users: int, counting: Mapping[str, Mapping[str, float]]) -> None:
    """One line per reading, one column per figure; below, what counting gives without a model. A terminal too narrow
    for all columns gets a table for each of Recall, NDCG and MRR."""
    from rich.console import Console
    from rich.table import Table

    readings = {
        "item": "item (a random one per SID)",
        "expected": "item, expected",
        "corrected": "item, collision-corrected",
        "sid": "SID",
    }
    simple = {"popular": "no model: the most popular", "followed": "no model: what followed the last item"}
    rows = [(words, {key: means[f"{name}_{key.lower()}"] for key in FIGURES}, "") for name, words in readings.items()]
    rows += [(simple[name], {key: found[key.lower()] for key in FIGURES}, "dim") for name, found in counting.items()]
    console = Console()
    console = Console(width=max(console.width, WIDE)) if not console.is_terminal else console
    for some in [FIGURES] if console.width >= WIDE else [FIGURES[:3], FIGURES[3:6], FIGURES[6:]]:
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column(f"{users:,} users", no_wrap=True)
        for key in some:
            table.add_column(key, no_wrap=True)
        for words, figures, style in rows:
            table.add_row(words, *(f"{figures[key]:.4f}" for key in some), style=style)
        console.print(table)
    console.print("one target per user, so HitRate@K equals Recall@K", style="dim")
    if (valid := means["valid_share"]) < 1:
        console.print(f"{valid:.1%} of what was generated are SIDs of items", style="dim", highlight=False)
