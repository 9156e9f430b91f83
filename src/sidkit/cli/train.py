"""train, evaluate: a generative recommender over semantic IDs."""

import json
import sys
from typing import Annotated

import typer

from ..errors import SpecError
from .options import Device, Json, Output, SequenceColumn, SequencesFile, Sids
from .outputs import require_writable


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
    from .printing import print_figures
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
