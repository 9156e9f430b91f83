"""sidkit data lastfm: items and sequences from Last.fm of HetRec 2011."""

from pathlib import Path
from typing import Annotated

import typer

from ..options import BadRows, Force, Json, Output
from .shared import BadLineOption, Core, run_data


def lastfm(
    folder: Annotated[Path, typer.Argument(help="Folder of hetrec2011-lastfm-2k, with artists.dat and tags.dat")],
    output: Output,
    core: Core = 5,
    tags: Annotated[int, typer.Option("--tags", help="Most frequent tags in the text of an artist", min=0)] = 10,
    bad_rows: BadLineOption = BadRows.error,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """sidkit data lastfm hetrec2011-lastfm-2k/ -o lastfm/

    Make items.parquet and sequences.parquet from Last.fm of HetRec 2011. An event is the first time that a user tagged
    an artist; users and artists with fewer than five are left out. The text of an artist is its name and its most
    frequent tags.
    """
    from ...data.public.lastfm import read_lastfm

    run_data(
        lambda bad, progress: read_lastfm(folder, output, core, tags, bad, progress),
        output, bad_rows, force, as_json, folder,
    )  # fmt: skip
