"""sidkit publish withdraw: items leave the catalogue, and their IDs stay taken."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from ...errors import SpecError, count_of
from ..options import IdColumn, Json
from .shared import Note, RegistryArgument


def withdraw(
    registry: RegistryArgument,
    items: Annotated[list[str] | None, typer.Argument(help="Ids of items", show_default=False)] = None,
    file: Annotated[
        Path | None, typer.Option("--items", help="Text file with an id per line, or Parquet file with a column of ids")
    ] = None,
    generation: Annotated[
        int | None, typer.Option("--generation", "-g", help="All items that this generation published: a rollback")
    ] = None,
    id_column: IdColumn = None,
    note: Note = "",
    as_json: Json = False,
) -> None:
    """sidkit publish withdraw registry.db P000017 --note recalled

    Withdraw items, or all that a generation published. The withdrawal is a new generation; earlier ones can be read as
    they were. The IDs stay taken: no other item gets them, and an item that is appended again has its own back.
    """
    from ...publish.registry import open_registry
    from ...publish.withdraw import withdraw_generation, withdraw_items

    if sum(one is not None for one in (items or None, file, generation)) != 1:
        raise SpecError("say what to withdraw: ids of items, a file of them (--items), or a --generation")
    with open_registry(registry) as opened:
        if generation is not None:
            made = withdraw_generation(opened, generation, note)
        else:
            made = withdraw_items(opened, items or _ids_in(Path(str(file)), id_column), note)
    if as_json:
        facts = made.facts() if made else {"generation": None, "withdrawn": 0}
        print(json.dumps({"registry": opened.name} | facts, ensure_ascii=False))
    elif made is None:
        print("all of these had been withdrawn before; nothing changed")
    else:
        left = f"{count_of(made.items, 'item')} left"
        print(f"generation {made.generation}: {count_of(made.withdrawn, 'item')} withdrawn, {left}")


def _ids_in(file: Path, id_column: str | None) -> list[Any]:
    """The ids in a Parquet file, or in the lines of a text file."""
    from ...data.items import find_ids
    from ...data.listing import is_parquet, readable
    from ..inputs import ids_of_lines

    if not file.is_file() or not is_parquet(file):
        return ids_of_lines(file)
    from pyarrow.parquet import read_table

    column = str(find_ids(file, id_column).column)
    with readable(file):
        ids: list[Any] = read_table(file, columns=[column]).column(column).to_pylist()
    return ids
