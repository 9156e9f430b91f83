"""sidkit compare: tokenizers side by side, over several seeds."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .columns import ColumnNotes, id_column_in
from .inputs import columns_of, texts_for
from .joint import JointEmbeddings, Queries, Repeats, Roles, describe_roles, joint_roles, open_joint
from .options import (
    BadRows,
    BadRowsOption,
    Column,
    Device,
    Figures,
    Force,
    Form,
    Formats,
    IdColumn,
    Items,
    Json,
    MapBy,
    TextColumn,
)
from .outputs import PAGES, require_file, require_folder, write_page
from .parsing import read_options, read_seeds, read_sizes, require_choice, with_known_options

if TYPE_CHECKING:
    from ..files.address import Location
    from ..report.comparison import Comparison


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
    items: Items = None,
    text: TextColumn = "title",
    figures: Figures = None,
    formats: Formats = "svg,png,pdf",
    map_by: MapBy = "auto",
    form: Form = "table",
    queries: Queries = None,
    roles: Roles = None,
    repeats: Repeats = None,
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
    """
    from ..data.joint import items_of
    from ..report.centroids import METHODS
    from ..report.compare import FORMS, compare
    from ..report.draw.plots import check_formats, write_figures
    from .terminal import Terminal

    require_choice("--format", form, FORMS)
    files = joint_roles(embeddings, queries, roles, repeats)
    given = ({"sizes": read_sizes(sizes)} if sizes else {}) | read_options(option)
    tokenizers = {name.rstrip("/"): _recipe_or_folder(name, given) for name in recipes.split(",")}
    as_page = output.suffix.lower() in PAGES
    folder = runs or (output.with_name(f"{output.stem}-runs") if as_page else output)
    if figures is not None:
        check_formats(formats.split(","))
    require_choice("--map", map_by, METHODS)
    if as_page:
        require_file(output, endings=PAGES, force=force)
    for path in filter(None, (folder, figures)):
        require_folder(path, quiet=True)
    as_json = as_json or form == "json"
    pairs: list[dict[str, Any]] = []
    notes = ColumnNotes()
    with Terminal() as progress:
        source = open_joint(files, repeats, id_column, column, bad_rows, folder, progress, notes, (items,))
        comparison = compare(source, tokenizers, read_seeds(seeds), folder, progress, device)
        if as_page or figures or as_json:
            from ..report.compare_figures import comparison_figures
            from ..report.compare_page import compare_page
            from ..report.contenders import contenders_of, pairs_of

            its_items = items_of(source)
            sides = contenders_of(comparison, its_items, its_items.ids, progress, device)
            if as_page or as_json:
                pairs = pairs_of(sides, _texts(items, text, files["items"], its_items, id_column, notes))
            if as_page or figures:
                progress.start("figures", 0)
                drawn = comparison_figures(comparison, sides, map_by)
            if as_page:
                title = f"Tokenizers on {Path(files['items']).stem}"
                write_page(output, compare_page(comparison, sides, drawn, title, pairs))
            if figures is not None:
                write_figures(drawn, figures, formats.split(","))
    if as_json:
        print(comparison.json(pairs, notes.field()))
        return
    notes.print()
    _print(comparison, form)
    if as_page and form == "table":
        print(f"wrote {output}; its runs are in {folder}")


def _print(comparison: "Comparison", form: str) -> None:
    from .printing import print_comparison

    if form != "table":
        print(comparison.markdown() if form == "markdown" else comparison.latex())
        return
    print_comparison(comparison)
    if comparison.roles:
        print(describe_roles(comparison.roles))


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
