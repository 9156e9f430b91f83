"""sidkit publish export: a generation as Parquet files, for readers without a database."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from ...errors import SpecError, count_of
from ..options import Json, Location, location
from .shared import GenerationOption, RegistryArgument

if TYPE_CHECKING:
    from ...publish.folder import Exported


def export(
    registry: RegistryArgument,
    output: Annotated[
        Location,
        typer.Option(
            "--output",
            "-o",
            help="Folder, or address such as s3://bucket/published, with a folder for every generation",
            show_default=False,
            parser=location,
            metavar="PATH",
        ),
    ],
    generation: GenerationOption = None,
    room: Annotated[
        int | None,
        typer.Option("--room", help="Write the slot as one more token, of this many values (policy counter)"),
    ] = None,
    as_json: Json = False,
) -> None:
    """sidkit publish export registry.db -o published/

    Write a generation as Parquet files (item_id, codes, sid, slot), in the order of SIDs. The manifest is written last:
    a folder that has one is complete. Every command that reads SIDs reads such a folder, and it can be deleted and
    exported again, with the same content.
    """
    from ...publish.folder import export_generation
    from ...publish.registry import open_registry
    from ..outputs import require_writable
    from ..printing import command_line
    from ..terminal import Terminal

    require_writable(output)
    if room is not None and room < 2:
        raise SpecError(f"a counter needs at least 2 values, not {room}")
    with open_registry(registry) as opened, Terminal() as progress:
        done: Exported = export_generation(opened, output, generation, room, progress)
    if as_json:
        facts = {"output": str(done.folder), "items": done.items, "files": done.files, "kept": done.kept}
        print(json.dumps(facts))
        return
    words = f"{count_of(done.items, 'item')} in {count_of(done.files, 'file')}"
    written = f"{done.folder} was there already, with {words}" if done.kept else f"wrote {words} to {done.folder}"
    print(f"{written}; next: {command_line('report', done.folder)}")
