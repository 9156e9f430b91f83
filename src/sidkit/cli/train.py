"""sidkit train: a generative recommender over semantic IDs, with one seed or several."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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

if TYPE_CHECKING:
    from ..data.sequences import Sequences
    from ..retriever.plan import Plan


def train(
    sids: Sids,
    sequences: SequencesFile,
    output: Output,
    preset: Annotated[
        str,
        typer.Option(
            "--preset", help="Size of the model: tiny, paper, base, large; or best, which also changes the plan"
        ),
    ] = "paper",
    epochs: Annotated[
        int | None, typer.Option("--epochs", help="Maximum number of passes over the examples [default: 200; best: 50]")
    ] = None,
    batch: Annotated[int | None, typer.Option("--batch", help="Examples per step [default: 256; best: 512]")] = None,
    learning_rate: Annotated[
        float | None, typer.Option("--learning-rate", help="Learning rate of Adam [default: 1e-4; best: 2e-3]")
    ] = None,
    warmup: Annotated[
        int | None,
        typer.Option("--warmup", help="Steps over which the learning rate rises [default: 0; best: 500]"),
    ] = None,
    decay: Annotated[
        str | None,
        typer.Option("--decay", help="How it falls until the last epoch: none, linear, cosine [best: cosine]"),
    ] = None,
    layers: Annotated[
        int | None, typer.Option("--layers", help="Layers of the encoder, and of the decoder [default: the preset's]")
    ] = None,
    width: Annotated[
        int | None, typer.Option("--width", help="Width of the model; 64 and 128 are fast [default: the preset's]")
    ] = None,
    dropout: Annotated[
        float | None, typer.Option("--dropout", help="Dropout rate [default: the preset's, 0.1]")
    ] = None,
    smoothing: Annotated[
        float | None, typer.Option("--smoothing", help="Label smoothing [default: 0; best: 0.1]")
    ] = None,
    weight_decay: Annotated[
        float | None, typer.Option("--weight-decay", help="Weight decay, as in AdamW [default: 0; best: 0.3]")
    ] = None,
    average: Annotated[
        float | None,
        typer.Option("--average", help="Factor by which weights are averaged over steps [default: 0; best: 0.999]"),
    ] = None,
    crop: Annotated[
        float | None,
        typer.Option("--crop", help="Share of examples with a history cut to a random length [default: 0; best: 0.2]"),
    ] = None,
    also: Annotated[
        list[Path] | None,
        typer.Option("--also", help="Other SIDs of the same items, for histories to be read by; may be repeated"),
    ] = None,
    swap: Annotated[
        float | None, typer.Option("--swap", help="Share of items read by another SID [default: 0.2 with --also]")
    ] = None,
    fusion: Annotated[
        bool | None,
        typer.Option("--fusion/--no-fusion", help="Whether counts join the model's lists where validation gains by it"),
    ] = None,
    patience: Annotated[
        int | None,
        typer.Option(
            "--patience", help="Epochs without a better validation NDCG@20 before training stops [default: 10]"
        ),
    ] = None,
    history: Annotated[
        int | None, typer.Option("--history", help="Latest items of a history that are used [default: 20]")
    ] = None,
    beams: Annotated[int | None, typer.Option("--beams", help="SIDs generated per user [default: 30]")] = None,
    inference_batch: Annotated[
        int | None,
        typer.Option("--inference-batch", help="Users whose SIDs are generated at once [default: what memory holds]"),
    ] = None,
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
    generated and a GPU computes in bfloat16. The folder loads with transformers' from_pretrained. Counts are fused with
    the model's lists where validation gains by it; figures are printed with and without.

    sidkit train sids.parquet sequences.parquet -o best/ --preset best --layers 1 --width 64 --epochs 2

    `best` has the paper's sizes and a plan that a search on validation figures found: warm-up and decay, label
    smoothing, averaged weights, cut histories. Every option overrides its preset.

    sidkit train sids.parquet sequences.parquet -o seeds/ --seeds x2 --preset tiny --epochs 2

    Several seeds are trained at once on a GPU: eight take about three times as long as one. Each has its folder, as if
    trained alone; seeds.json and the table have the mean and the standard deviation of every figure.
    """
    from ..errors import need

    need("torch", "retriever", "training a retriever")
    from ..data.sequence_columns import SequenceColumns
    from ..measure.counting import counted
    from ..retriever.plan import changed, plan_of
    from ..retriever.trainer import train as run
    from ..retriever.trainer import train_seeds
    from .printing import command_line
    from .terminal import Terminal

    require_choice("--precision", precision, ("auto", "bfloat16", "float32"))
    chosen = _seeds(seed, seeds, at_once)
    plan = changed(
        plan_of(preset),
        {"layers": layers, "d_model": width, "dropout": dropout},
        epochs=epochs, batch=batch, learning_rate=learning_rate, warmup=warmup, decay=decay, smoothing=smoothing,
        weight_decay=weight_decay, average=average, crop=crop, swap=_swap(swap, also), fusion=fusion, patience=patience,
        history=history, beams=beams, inference_batch=inference_batch, constrained=constrained, precision=precision,
        seed=chosen[0],
    )  # fmt: skip
    _require_output(output, seeds and chosen, force, resume)
    columns = SequenceColumns(sequence_column, item_column, user_column, time_column, file_order)
    require_order("train", sids=sids, sequences=sequences)
    table, notes = sids_from(sids, tokenizer, force), ColumnNotes()
    behaviour = visits_from(sequences, table.ids, columns, notes, table.origin.id_column)
    if not as_json:
        notes.print()
    others = [sids_from(one, None, force) for one in also or ()]
    _say_pace(preset, plan, table.sizes, device)
    _say_warmup(plan, behaviour)
    given = (table, behaviour, output)
    with Terminal() as progress:
        if seeds is None:
            facts = run(*given, plan, device, progress, resume, others).facts
        else:
            facts = train_seeds(*given, chosen, plan, device, progress, resume, at_once, others).plain()
    simple = counted(behaviour, len(table))
    if as_json:
        print(json.dumps({"output": str(output), **facts, "counting": simple, **notes.field()}))
        return
    following = command_line("evaluate", output, sequences, *columns.flags(), options=columns.options())
    print(f"\n{_print_facts(facts, simple)}, {facts['seconds']:,.0f} s; wrote {output}; next: {following}")


def _swap(share: float | None, also: list[Path] | None) -> float | None:
    """The share of items that are read by another SID, which has to be there."""
    if share is not None and not also:
        raise SpecError(f"--swap {share} needs other SIDs of the items: --also others.parquet")
    return 0.2 if also and share is None else share


def _print_facts(facts: dict[str, Any], simple: dict[str, dict[str, float]]) -> str:
    """Print the figures of one seed or several; how far their training came."""
    from .print_beyond import print_beyond
    from .printing import print_figures

    seeds = facts.get("seeds", ())
    means, stds = (facts["means"], facts["stds"]) if seeds else (facts["test"], {})
    print_figures(means, facts["users"], simple, seeds, stds)
    print_beyond(facts.get("seen", {}), facts.get("fusion"))
    if seeds:
        return f"{count_of(len(seeds), 'seed')}, {facts['at_once']} at once"
    return f"best epoch {facts['best_epoch']} of {facts['epochs']}"


def _say_pace(preset: str, plan: "Plan", sizes: tuple[int, ...], device: str) -> None:
    """Say beforehand what will be slow: a large model on a CPU, or one that the kernels do not serve on a GPU."""
    from ..engine.device import find_device, product_dtype

    device = find_device(device)
    if device == "cpu":
        if plan.shape.layers > 2 or plan.shape.d_model > 64:
            print(f"the {preset} model takes hours on a CPU; --preset tiny is the size to start with", file=sys.stderr)
        return
    from ..retriever.backend import why_no_kernels

    tokens = -(-plan.history * len(sizes) // 16) * 16
    if why := why_no_kernels(plan.shape, product_dtype(plan.precision, device), device, tokens):
        print(f"this model is compiled by torch, which takes 15 to 60 s and is slower: {why}", file=sys.stderr)


def _say_warmup(plan: "Plan", sequences: "Sequences") -> None:
    """Say beforehand that the learning rate will hardly reach its value, as in a short training of a small dataset."""
    from ..retriever.data import examples

    steps = -(-len(examples(sequences, "train")) // plan.batch) * plan.epochs
    if plan.warmup > steps // 2:
        print(
            f"the learning rate rises for {plan.warmup:,} of at most {count_of(steps, 'step')}; for so few, give "
            f"--warmup {steps // 10}, or a smaller --batch",
            file=sys.stderr,
        )


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
