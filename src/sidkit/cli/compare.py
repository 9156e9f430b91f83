"""sidkit compare: tokenizers side by side, over several seeds."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .columns import ColumnNotes, id_column_in, visits_from
from .inputs import columns_of, texts_for
from .joint import JointEmbeddings, Queries, Repeats, Roles, describe_roles, joint_roles, open_joint
from .options import (
    BadRows,
    BadRowsOption,
    Column,
    Device,
    Figures,
    FileOrder,
    Force,
    Form,
    Formats,
    IdColumn,
    ItemColumn,
    Items,
    Json,
    MapBy,
    SequenceColumn,
    SequencesOption,
    SpreadToo,
    TextColumn,
    TimeColumn,
    UserColumn,
)
from .outputs import PAGES, require_file, require_folder, write_page
from .parsing import read_options, read_seeds, read_sizes, require_choice, with_known_options

if TYPE_CHECKING:
    from ..files.address import Location
    from ..report.comparison import Comparison
    from ..report.contenders import Contender
    from ..report.made import Made
    from .terminal import Terminal


def compare(
    embeddings: JointEmbeddings,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Page to write, name.html, or folder of runs, which are reused")
    ],
    recipes: Annotated[
        str, typer.Option("--recipes", "-r", help="Recipes, or folders of fitted tokenizers, separated by commas")
    ] = "prq-kmeans,rq-kmeans",
    seeds: Annotated[str, typer.Option("--seeds", help="Seeds, separated by commas, or x5 for 0 to 4")] = "x3",
    sizes: Annotated[str | None, typer.Option("--sizes", help="Codewords per level, for all recipes")] = None,
    option: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="An option for the recipes that have it")
    ] = None,
    runs: Annotated[
        Path | None, typer.Option("--runs", help="Folder of the runs of a page [default: name-runs beside it]")
    ] = None,
    sequences: SequencesOption = None,
    spread: SpreadToo = None,
    items: Items = None,
    text: TextColumn = "title",
    figures: Figures = None,
    formats: Formats = "svg,png,pdf",
    map_by: MapBy = "auto",
    form: Form = "table",
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
    """sidkit compare items.parquet -o compare.html -r prq-kmeans,rq-kmeans --sizes 64-32-16 --seeds x2

    Fit several tokenizers with several seeds and show their codebook quality side by side, in the terminal or, with -o
    name.html, on a page that also shows which items one separates and another merges. Queries can be fitted with the
    items, as in `sidkit fit`; the figures count items alone.

    sidkit compare items.parquet -o compare.html --sequences sequences.parquet --sizes 64-32-16 --seeds x2

    With --sequences tokenizers are ranked by counted NDCG@20: how well items are recommended by counting which SIDs
    follow which first token. Of all figures without training it predicted best how well a trained recommender does.
    Each tokenizer is then measured also with its items spread, as `sidkit encode --spread` does it.
    """
    from ..data.joint import items_of
    from ..data.sequence_columns import SequenceColumns
    from ..data.source import id_name_of
    from ..measure.counting import require_counted
    from ..report.centroids import METHODS
    from ..report.compare import FORMS, compare
    from ..report.compare_figures import comparison_figures
    from ..report.compare_page import compare_page
    from ..report.counted import judged
    from ..report.draw.plots import write_figures
    from .terminal import Terminal

    require_choice("--format", form, FORMS)
    require_choice("--map", map_by, METHODS)
    named = SequenceColumns(sequence_column, item_column, user_column, time_column, file_order)
    files = joint_roles(embeddings, queries, roles, repeats)
    given = ({"sizes": read_sizes(sizes)} if sizes else {}) | read_options(option)
    tokenizers = {name.rstrip("/"): _recipe_or_folder(name, given) for name in recipes.split(",")}
    as_page = output.suffix.lower() in PAGES
    folder = runs or (output.with_name(f"{output.stem}-runs") if as_page else output)
    _require_outputs(output if as_page else None, folder, figures, formats, force)
    as_json, notes = as_json or form == "json", ColumnNotes()
    with Terminal() as progress:
        source = open_joint(files, repeats, id_column, column, bad_rows, folder, progress, notes, (items,))
        its_items = items_of(source)
        visits = visits_from(sequences, its_items.ids, named, notes, id_name_of(its_items)) if sequences else None
        if visits is not None:
            require_counted(visits)
        comparison = compare(source, tokenizers, read_seeds(seeds), folder, progress, device)
        if visits is not None or spread:
            comparison = judged(comparison, its_items, visits, spread is not False, progress, device)
        if as_page or figures or as_json:
            texts = _texts(items, text, files["items"], its_items, id_column, notes) if as_page or as_json else None
            pairs, sides = _sides(comparison, its_items, texts, progress, device)
        if as_page or figures:
            progress.start("figures", 0)
            drawn = comparison_figures(comparison, sides, map_by)
        if as_page:
            write_page(output, compare_page(comparison, sides, drawn, _title(files), pairs, _made(files, comparison)))
        if figures is not None:
            write_figures(drawn, figures, formats.split(","))
    if as_json:
        print(comparison.json(pairs, notes.field()))
        return
    notes.print()
    wrote = f"wrote {output}; its runs are in {folder}" if as_page else ""
    _print(comparison, form, wrote, _next(comparison, files["items"], id_column, column))


def _title(files: Mapping[str, str]) -> str:
    return f"Tokenizers on {Path(files['items']).stem}"


def _made(files: Mapping[str, str], comparison: "Comparison") -> "Made":
    from ..report.made import Made
    from .printing import this_command

    return Made(this_command(), [("embeddings", f"{', '.join(files.values())}, fingerprint {comparison.data[:16]}")])


def _require_outputs(page: Path | None, folder: Path, figures: Path | None, formats: str, force: bool) -> None:
    """Fail before the work if what is asked for cannot be written."""
    from ..report.draw.plots import check_formats

    if figures is not None:
        check_formats(formats.split(","))
    if page is not None:
        require_file(page, endings=PAGES, force=force)
    for path in filter(None, (folder, figures)):
        require_folder(path, quiet=True)


def _sides(
    comparison: "Comparison", items: Any, texts: list[str] | None, progress: "Terminal", device: str
) -> tuple[list[dict[str, Any]], "list[Contender]"]:
    """What each tokenizer separates of what another merges, and all of them with their SIDs."""
    from ..report.contenders import contenders_of, pairs_of

    sides = contenders_of(comparison, items, items.ids, progress, device)
    return pairs_of([one for one in sides if one.label not in comparison.spread], texts), sides


def _next(comparison: "Comparison", items: str, id_column: str | None, column: str | None) -> str:
    """The command that encodes the items with the best tokenizer."""
    from .printing import command_line

    best = next(iter(comparison.figures))
    spread = ["--spread"] if best in comparison.spread else []
    options = {"--id-column": id_column, "--column": column}
    return command_line("encode", comparison.folders[best][0], items, "-o", "sids.parquet", *spread, options=options)


def _print(comparison: "Comparison", form: str, wrote: str, following: str) -> None:
    from .printing import print_comparison

    if form != "table":
        print(comparison.markdown() if form == "markdown" else comparison.latex())
        return
    print_comparison(comparison)
    if comparison.roles:
        print(describe_roles(comparison.roles))
    if wrote:
        print(wrote)
    if comparison.is_counted:
        print(f"next: {following}")


def _recipe_or_folder(name: str, options: dict[str, Any]) -> Any:
    return Path(name) if (Path(name) / "config.json").exists() else with_known_options(name, options)


def _texts(
    items: "Location | None", text: str, embeddings: str, source: Any, id_column: str | None, notes: ColumnNotes
) -> list[str] | None:
    """The items' texts: from --items, or from the embeddings' file where it has that column."""
    from ..data.source import id_name_of

    if items is not None:
        of_items = id_column_in(id_column, items, embeddings)
        return texts_for(items, text, source.ids, of_items, notes, id_name_of(source), "texts")
    has_texts = embeddings != "-" and text in columns_of(embeddings)
    return texts_for(embeddings, text, source.ids, id_column) if has_texts else None
