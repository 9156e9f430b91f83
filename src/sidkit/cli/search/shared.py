"""Arguments and helpers that the commands of `sidkit search` share."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ...errors import InputError

ShopFolder = Annotated[Path, typer.Argument(help="Folder of a shop: its items, log and queries", show_default=False)]
Model = Annotated[Path, typer.Argument(help="Folder written by `sidkit search train`", show_default=False)]


def ranking_options(per_sid: int, cut: int, score: str, smoothing: float, availability: bool) -> Any:
    """How the items of SIDs become a list."""
    from ...search.model.ranking import Ranking

    return Ranking(availability, score, smoothing, per_sid, cut)  # type: ignore[arg-type]


def shop_table(shop: Path, name: str, needed: tuple[str, ...], further: tuple[str, ...] = ()) -> Any:
    """A table of a shop as an Arrow table: the columns that are needed, and of the further ones those it has."""
    import pyarrow.parquet as pq

    from ...data.listing import readable

    path = shop / f"{name}.parquet"
    with readable(path):
        present = pq.read_schema(path).names
    missing = [column for column in needed if column not in present]
    if missing:
        raise InputError(f"no column {missing[0]!r} in {path} (columns: {', '.join(present)})")
    with readable(path):
        return pq.read_table(path, columns=[*needed, *(column for column in further if column in present)])
