"""sidkit data amazon: items and sequences from Amazon's reviews and metadata."""

from pathlib import Path
from typing import Annotated

import typer

from ..options import BadRows, Force, Json, Output
from .shared import BadLineOption, Core, run_data


def amazon(
    reviews: Annotated[Path, typer.Argument(help="Reviews, such as reviews_Toys_and_Games_5.json.gz")],
    metadata: Annotated[Path, typer.Argument(help="Metadata, such as meta_Toys_and_Games.json.gz")],
    output: Output,
    core: Core = 5,
    bad_rows: BadLineOption = BadRows.error,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """sidkit data amazon reviews.json.gz meta.json.gz -o toys/

    Make items.parquet and sequences.parquet from the Amazon reviews of 2014. Users and items with fewer than five
    reviews are left out, the reviews of a user are put in time order, and the text of an item has its title, price,
    sales rank, brand and categories.
    """
    from ...data.public.amazon import read_amazon

    run_data(
        lambda bad, progress: read_amazon(reviews, metadata, output, core, bad, progress),
        output, bad_rows, force, as_json, reviews, metadata,
    )  # fmt: skip
