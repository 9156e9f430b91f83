"""sidkit train: a generative recommender over semantic IDs, with one seed or several."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import SpecError, count_of
from .columns import ColumnNotes, visits_from
from .inputs import sids_from
from .options import (
    Device,
    FileOrder,
    InsistOnBoth,
    ItemColumn,
    Json,
    Output,
    SequenceColumn,
    SequencesFile,
    Sids,
    TimeColumn,
    TokenizerOption,
    UserColumn,
)
from .outputs import require_folder
from .parsing import read_seeds, require_choice
from .swapped import require_order


def train(
    sids: Sids,
    sequences: SequencesFile,
    output: Output,
    preset: Annotated[str, typer.Option("--preset", help="Size of the model: tiny, paper, base, large")] = "paper",
    epochs: Annotated[int, typer.Option("--epochs", help="Maximum number of passes over the examples")] = 200,
    batch: Annotated[int, typer.Option("--batch", help="Examples per step")] = 256,
    learning_rate: Annotated[float, typer.Option("--learning-rate", help="Learning rate of Adam")] = 1e-4,
    dropout: Annotated[
        float | None, typer.Option("--dropout", help="Dropout rate [default: the preset's, 0.1]")
    ] = None,
    patience: Annotated[
        int, typer.Option("--patience", help="Epochs without a better validation NDCG@20 before training stops")
    ] = 10,
    history: Annotated[int, typer.Option("--history", help="Latest items of a history that are used")] = 20,
    beams: Annotated[int, typer.Option("--beams", help="SIDs generated per user")] = 30,
    inference_batch: Annotated[
        int, typer.Option("--inference-batch", help="Users whose SIDs are generated at once; 0: what the memory holds")
    ] = 0,
    constrained: Annotated[
        bool, typer.Option("--constrained/--unconstrained", help="Whether validation and test generate valid SIDs only")
    ] = True,
    precision: Annotated[
        str,
        typer.Option("--precision", help="Precision of matrix products on a GPU: auto (bfloat16), bfloat16, float32"),
    ] = "auto",
    seed: Annotated[
        int | None, typer.Option("--seed", help="Seed of initial weights, order of examples and dropout [default: 0]")
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option("--seeds", help="Train once with each of these seeds: separated by commas, or x8 for 0 to 7"),
    ] = None,
    at_once: Annotated[
        int | None,
        typer.Option("--at-once", help="Seeds trained at once [default: on a GPU what fits, up to 15; on a CPU 1]"),
    ] = None,
    sequence_column: SequenceColumn = None,
    item_column: ItemColumn = None,
    user_column: UserColumn = None,
    time_column: TimeColumn = None,
    file_order: FileOrder = False,
    tokenizer: TokenizerOption = None,
    force: InsistOnBoth = False,
    device: Device = "auto",
    resume: Annotated[bool, typer.Option("--resume", help="Resume a training that was stopped")] = False,
    as_json: Json = False,
) -> None:
    """sidkit train sids.parquet sequences.parquet -o run/ --preset tiny --epochs 2 --learning-rate 1e-3

    Train TIGER's encoder-decoder to generate the semantic ID of the next item. The last item of every sequence is the
    test, the one before it validation, the rest training. The defaults are the paper's, but that only SIDs of items are
    generated and a GPU computes in bfloat16. The folder loads with transformers' from_pretrained, and its tensorboard/
    with TensorBoard.

    sidkit train sids.parquet sequences.parquet -o seeds/ --seeds x2 --preset tiny --epochs 2

    Several seeds are trained at once on a GPU: eight take about three times as long as one. Each has its folder,
    seeds/seed-0/ and so on, as if trained alone; seeds.json and the table have the mean and the standard deviation of
    every figure.
    """
    from ..errors import need

    need("torch", "retriever", "training a retriever")
    from dataclasses import replace

    from ..data.sequence_columns import SequenceColumns
    from ..engine.device import find_device
    from ..measure.counting import counted
    from ..retriever.model import preset as named
    from ..retriever.plan import Plan
    from ..retriever.trainer import train as run
    from ..retriever.trainer import train_seeds
    from .printing import command_line, print_figures
    from .terminal import Terminal

    require_choice("--precision", precision, ("auto", "bfloat16", "float32"))
    chosen = _seeds(seed, seeds, at_once)
    shape = named(preset) if dropout is None else replace(named(preset), dropout=dropout)
    plan = Plan(
        shape, epochs, batch, learning_rate, patience, history, beams, constrained, precision, chosen[0],  # type: ignore[arg-type]
        inference_batch,
    )  # fmt: skip
    _require_output(output, seeds and chosen, force, resume)
    columns = SequenceColumns(sequence_column, item_column, user_column, time_column, file_order)
    require_order("train", sids=sids, sequences=sequences)
    table, notes = sids_from(sids, tokenizer, force), ColumnNotes()
    behaviour = visits_from(sequences, table.ids, columns, notes, table.origin.id_column)
    if not as_json:
        notes.print()
    if preset != "tiny" and find_device(device) == "cpu":
        print(f"the {preset} model takes hours on a CPU; --preset tiny is the size to start with", file=sys.stderr)
    with Terminal() as progress:
        if seeds is None:
            facts = run(table, behaviour, output, plan, device, progress, resume).facts
            means, stds, done = facts["test"], {}, f"best epoch {facts['best_epoch']} of {facts['epochs']}"
        else:
            facts = train_seeds(table, behaviour, output, chosen, plan, device, progress, resume, at_once).plain()
            means, stds = facts["means"], facts["stds"]
            done = f"{count_of(len(chosen), 'seed')}, {facts['at_once']} at once"
    simple = counted(behaviour, len(table))
    if as_json:
        print(json.dumps({"output": str(output), **facts, "counting": simple, **notes.field()}))
        return
    print_figures(means, facts["users"], simple, chosen if seeds else (), stds)
    following = command_line("evaluate", output, sequences, *columns.flags(), options=columns.options())
    print(f"\n{done}, {facts['seconds']:,.0f} s; wrote {output}; next: {following}")


def _require_output(output: Path, seeds: Any, force: bool, resume: bool) -> None:
    """seeds: those of --seeds, if given: their runs get folders in the output."""
    from functools import partial

    from ..retriever.seeds import check_seeds_folder
    from ..retriever.store import RETRIEVER

    check = partial(check_seeds_folder, seeds=seeds) if seeds else RETRIEVER.check_target
    require_folder(output, check, force, quiet=resume)


def _seeds(seed: int | None, seeds: str | None, at_once: int | None) -> list[int]:
    """The seeds to train with: one, or those of --seeds."""
    if seed is not None and seeds is not None:
        raise SpecError(f"--seed {seed} and --seeds {seeds} exclude each other; give one of them")
    if at_once is not None and seeds is None:
        raise SpecError(f"--at-once {at_once} is for several seeds; give them too, as in --seeds x8")
    if at_once is not None and at_once < 1:
        raise SpecError(f"--at-once must be at least 1, not {at_once}")
    return [seed or 0] if seeds is None else read_seeds(seeds)
