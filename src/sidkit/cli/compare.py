"""compare and case: tokenizers side by side, in figures and on items."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import SpecError
from .options import (
    BadRows,
    BadRowsOption,
    Column,
    Device,
    Embeddings,
    Form,
    IdColumn,
    Items,
    Json,
    TextColumn,
    open_source,
    read_options,
    read_seeds,
    read_sizes,
    require_file,
    require_folder,
    texts_for,
    with_known_options,
    write_page,
)


def compare(
    embeddings: Embeddings,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="A page to write, name.html, or a folder of runs; those are reused")
    ],
    recipes: Annotated[
        str, typer.Option("--recipes", "-r", help="Recipes, or folders of fitted tokenizers, by commas")
    ] = "prq-kmeans,rq-kmeans",
    seeds: Annotated[str, typer.Option("--seeds", help="Seeds, by commas, or how many from 0 as x5")] = "x3",
    sizes: Annotated[str | None, typer.Option("--sizes", help="Codewords per level, for all")] = None,
    option: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="An option for the recipes that know it")
    ] = None,
    runs: Annotated[
        Path | None, typer.Option("--runs", help="Folder of the runs of a page [default: name-runs beside it]")
    ] = None,
    items: Items = None,
    text: TextColumn = "title",
    figures: Annotated[Path | None, typer.Option("--figures", help="Folder to write every figure to")] = None,
    formats: Annotated[str, typer.Option("--formats", help="How to write them, by commas")] = "svg,png,pdf",
    map_by: Annotated[str, typer.Option("--map", help="tsne, pca, or auto: t-SNE with scikit-learn")] = "auto",
    form: Form = "table",
    id_column: IdColumn = None,
    column: Column = None,
    bad_rows: BadRowsOption = BadRows.error,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """sidkit compare items.parquet -o compare.html -r prq-kmeans,rq-kmeans --sizes 64-32-16 --seeds x2

    Fit several tokenizers with several seeds and put their codebook quality side by side, in the terminal or, with -o
    name.html, on a page that also shows what one separates and another merges.
    """
    from ..report.centroids import METHODS
    from ..report.compare import FORMS, compare
    from ..report.draw.plots import check_formats, write_figures
    from .printing import print_comparison
    from .terminal import Terminal

    if form not in FORMS:
        raise SpecError(f"--format must be one of {', '.join(FORMS)}, not {form!r}")
    given = ({"sizes": read_sizes(sizes)} if sizes else {}) | read_options(option)
    tokenizers = {name.rstrip("/"): _recipe_or_folder(name, given) for name in recipes.split(",")}
    as_page = output.suffix.lower() in (".html", ".htm")
    folder = runs or (output.with_name(f"{output.stem}-runs") if as_page else output)
    if figures is not None:
        check_formats(formats.split(","))
    if map_by not in METHODS:
        raise SpecError(f"--map must be one of {', '.join(METHODS)}, not {map_by!r}")
    if as_page:
        require_file(output)
    for path in filter(None, (folder, figures)):
        require_folder(path)
    as_json = as_json or form == "json"
    pairs: list[dict[str, Any]] = []
    with Terminal() as progress:
        source = open_source(embeddings, id_column, column, bad_rows, folder, progress)
        found = compare(source, tokenizers, read_seeds(seeds), folder, progress, device)
        if as_page or figures or as_json:
            from ..report.compare_figures import comparison_figures
            from ..report.compare_page import compare_page
            from ..report.contenders import contenders_of, pairs_of

            ids = source.ids
            sides = contenders_of(found, source, ids, progress, device)
            if as_page or as_json:
                pairs = pairs_of(sides, _texts(items, text, embeddings, ids))
            if as_page or figures:
                progress.start("figures", 0)
                drawn = comparison_figures(found, sides, map_by)
            if as_page:
                write_page(output, compare_page(found, sides, drawn, f"Tokenizers on {Path(embeddings).stem}", pairs))
            if figures is not None:
                write_figures(drawn, figures, formats.split(","))
    if as_json:
        print(found.json(pairs))
    elif form == "table":
        print_comparison(found)
    else:
        print(found.markdown() if form == "markdown" else found.latex())
    if as_page and form == "table" and not as_json:
        print(f"wrote {output}; its runs are in {folder}")


def _recipe_or_folder(name: str, options: dict[str, Any]) -> Any:
    return Path(name) if (Path(name) / "config.json").exists() else with_known_options(name, options)


def _texts(items: Path | None, text: str, embeddings: str, ids: Any) -> list[str] | None:
    """The items' texts: from the file asked for, or from the embeddings' own file where it has them."""
    if items is not None:
        return texts_for(items, text, ids)
    from pyarrow.parquet import read_schema

    path = Path(embeddings)
    known = path.suffix == ".parquet" and path.is_file() and text in read_schema(path).names
    return texts_for(path, text, ids) if known else None
