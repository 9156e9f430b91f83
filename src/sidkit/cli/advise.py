"""sidkit advise: which codebook sizes to take."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import SpecError
from .columns import ColumnNotes, visits_from
from .inputs import all_rows
from .joint import JointEmbeddings, Queries, Repeats, Roles, joint_roles, open_joint
from .options import (
    BadRows,
    BadRowsOption,
    Column,
    Device,
    FileOrder,
    Force,
    IdColumn,
    ItemColumn,
    Json,
    Recipe,
    RecipeOptions,
    SequenceColumn,
    SequencesOption,
    TimeColumn,
    UserColumn,
)
from .outputs import require_file
from .parsing import read_options, read_sizes, require_seed, tokenizer_of

if TYPE_CHECKING:
    from ..advice.blending import Blending
    from ..advice.candidates import Advice


BLENDED = "blended.parquet"  # of the commands that are printed


def advise(
    embeddings: JointEmbeddings,
    icr: Annotated[
        float | None,
        typer.Option(
            "--icr", help="Target: SIDs with one item / distinct SIDs, at least [default: 0.95; none with --sequences]"
        ),
    ] = None,
    sids_per_item: Annotated[
        float | None, typer.Option("--sids-per-item", help="Target: distinct SIDs / items, at least")
    ] = None,
    largest_bucket: Annotated[
        int | None, typer.Option("--largest-bucket", help="Target: items on one SID, at most")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Trade-off to write: .html, .svg or .json", show_default=False)
    ] = None,
    sequences: SequencesOption = None,
    blend: Annotated[
        bool,
        typer.Option(
            "--blend", help="With --sequences: also say whether co-occurrence will pay (sidkit blend), and how"
        ),
    ] = False,
    recipe: Recipe = "prq-kmeans",
    levels: Annotated[int, typer.Option("--levels", help="Maximum number of tokens in a SID")] = 3,
    sizes: Annotated[
        list[str] | None,
        typer.Option("--sizes", help="Sizes to try, such as 256-256-256; may be repeated [default: a sweep]"),
    ] = None,
    option: RecipeOptions = None,
    sample: Annotated[int, typer.Option("--sample", help="Rows to fit on; large codebooks get more")] = 20_000,
    count: Annotated[int, typer.Option("--count", help="Rows whose SIDs are counted")] = 200_000,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the samples and of the fits")] = 0,
    queries: Queries = None,
    roles: Roles = None,
    repeats: Repeats = None,
    sequence_column: SequenceColumn = None,
    item_column: ItemColumn = None,
    user_column: UserColumn = None,
    time_column: TimeColumn = None,
    file_order: FileOrder = False,
    id_column: IdColumn = None,
    column: Column = None,
    bad_rows: BadRowsOption = BadRows.error,
    device: Device = "auto",
    force: Force = False,
    as_json: Json = False,
) -> None:
    """sidkit advise items.parquet --icr 0.9 -o advice.html

    Which codebook sizes to take. Candidates are fitted on a sample, and their collisions are counted and extrapolated
    to all items. The last line is a command that fits the smallest sizes that are expected to meet the target. Queries
    can be fitted with the items, as in `sidkit fit`; collisions of items alone are counted.

    sidkit advise items.parquet --sequences sequences.parquet

    With --sequences sizes are ranked by counted NDCG@20, with and without `encode --spread`: how well items are
    recommended by counting which SIDs follow which first token. Of all figures without training it predicted best how
    well a trained recommender does. The last lines are then two commands, for fit and encode.

    sidkit advise items.parquet --sequences sequences.parquet --blend

    With --blend it also says, as `sidkit blend --auto` does, whether co-occurrence in the embeddings and a separate SID
    for every item will pay. If co-occurrence does, a command that blends comes first.
    """
    from ..advice.blending import advise_blending
    from ..advice.candidates import Target
    from ..advice.sweep import advise as sweep
    from ..data.joint import items_of
    from ..data.sequence_columns import SequenceColumns
    from ..data.source import id_name_of
    from .printing import command_line
    from .terminal import Terminal

    named = read_options(option)
    if "sizes" in named:
        raise SpecError("give sizes to try as --sizes 256-256-256, not with --set")
    visited = SequenceColumns(sequence_column, item_column, user_column, time_column, file_order)
    _require_blendable(blend, sequences, embeddings, queries, roles)
    if icr is None and sids_per_item is None and largest_bucket is None and sequences is None:
        icr = 0.95
    require_seed(seed)
    files, notes = joint_roles(embeddings, queries, roles, repeats), ColumnNotes()
    target = Target(icr, sids_per_item, largest_bucket)
    candidates = [read for text in sizes or [] if (read := read_sizes(text)) is not None]
    if output is not None:
        require_file(output, *files.values(), endings=(".html", ".svg", ".json"), force=force)
    tokenizer_of(recipe, named | {"sizes": candidates[0] if candidates else (16,) * levels})  # errors come first
    with Terminal() as progress:
        source = open_joint(files, repeats, id_column, column, bad_rows, output or Path("advice"), progress, notes)
        its = items_of(source)
        visits = visits_from(sequences, its.ids, visited, notes, id_name_of(its)) if sequences else None
        advice = sweep(
            source, target, lambda sizes: tokenizer_of(recipe, named | {"sizes": sizes}), candidates or None,
            levels, sample, count, seed, device, progress, sequences=visits,
        )  # fmt: skip
        blending = advise_blending(all_rows(its), visits, progress=progress) if blend and visits else None
    dropped = "drop" if bad_rows is BadRows.drop else None
    columns = {"--id-column": id_column, "--column": column, "--bad-rows": dropped}
    more = {"--queries": queries, "--roles": roles, "--repeats": repeats}
    more |= {"--recipe": recipe if recipe != "prq-kmeans" else None, "--seed": str(seed) if seed else None}
    first = None  # the command that blends
    if blending and blending.weight and sequences:
        how = ("--weight", f"{blending.weight:g}", "--window", str(blending.window), *visited.flags())
        words = ("blend", *embeddings, "--sequences", sequences, "-o", BLENDED, *how)
        first = command_line(*words, options=visited.options() | columns)
    commands = _commands(advice, first, embeddings, files["items"], more, columns, option)
    _show(advice, blending, files["items"], commands, output, as_json, notes)


def _require_blendable(blend: bool, sequences: Any, embeddings: list[str], *others: str | None) -> None:
    """--blend takes sequences, and the embeddings of items alone."""
    if not blend:
        return
    if sequences is None:
        raise SpecError("--blend is about what people take together; give --sequences too")
    if len(embeddings) > 1 or any(other is not None for other in others):
        raise SpecError("--blend is for items alone, in one file; leave out the queries, or --blend")


def _commands(
    advice: "Advice",
    blend: str | None,
    embeddings: list[str],
    items: str,
    more: dict[str, str | None],
    columns: dict[str, str | None],
    settings: list[str] | None,
) -> dict[str, str]:
    """The commands that fit the chosen sizes and, where that was judged too, encode; blend: the one before them."""
    from .printing import command_line

    if advice.chosen is None:
        return {"command": ""}
    if blend is not None:
        embeddings, items, columns = [BLENDED], BLENDED, {}
    chosen = "-".join(map(str, advice.chosen.sizes))
    words = ("fit", *embeddings, "-o", "tok/", "--sizes", chosen)
    commands = {"blend_command": blend} if blend is not None else {}
    commands["command"] = command_line(*words, options=more | columns, settings=settings)
    if advice.users:
        spread = ["--spread"] if advice.spread else []
        words = ("encode", "tok/", items, "-o", "sids.parquet", *spread)
        commands["encode_command"] = command_line(*words, options=columns)
    return commands


def _show(
    advice: "Advice",
    blending: "Blending | None",
    embeddings: str,
    commands: dict[str, str],
    output: Path | None,
    as_json: bool,
    notes: ColumnNotes,
) -> None:
    """Write the trade-off, if asked for, and print it."""
    from .print_advice import print_advice
    from .print_blending import print_blending

    facts = advice.as_dict() | commands
    facts |= {"blending": blending.as_dict()} if blending else {}

    if output is not None:
        _write(output, advice, embeddings, [command for command in commands.values() if command], facts)
    if as_json:
        print(json.dumps(facts | notes.field()))
        return
    notes.print()
    if blending:
        print_blending(blending.as_dict())
    print_advice(advice, [command for command in commands.values() if command])
    if output is not None:
        print(f"wrote {output}")


def _write(output: Path, advice: "Advice", name: str, commands: list[str], facts: dict[str, Any]) -> None:
    from ..advice.page import advice_page, tradeoff
    from ..files.atomic import replace_file
    from ..files.ours import MADE_BY
    from ..report.draw.svg import figure_svg
    from ..report.made import Made
    from .printing import this_command

    texts = {
        ".html": lambda: advice_page(advice, name, "\n".join(commands), Made(this_command(), [("embeddings", name)])),
        ".svg": lambda: figure_svg(tradeoff(advice)),
        ".json": lambda: json.dumps({"by": MADE_BY} | facts, indent=1) + "\n",
    }
    with replace_file(output) as temporary:
        temporary.write_text(texts[output.suffix.lower()](), encoding="utf-8")
