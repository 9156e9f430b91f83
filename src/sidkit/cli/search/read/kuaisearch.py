"""sidkit search read kuaisearch: a shop from the files of KuaiSearch."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ....errors import InputError
from ...options import BadRows, Force, Json, Output
from ..options import Bad, Pairs, Seed, Unknown, reader_options, run_reader

if TYPE_CHECKING:
    from ....progress import Progress


def kuaisearch(
    folder: Annotated[Path, typer.Argument(help="Folder with items, recall, rank, users and relevance as JSON lines")],
    output: Output,
    lite: Annotated[
        bool, typer.Option("--lite", help="Read the files of the smaller release, items_lite and so on")
    ] = False,
    prices: Annotated[
        bool, typer.Option("--prices/--no-prices", help="Read the prices, from the rank files, the largest ones")
    ] = True,
    test_share: Annotated[
        float, typer.Option("--test-share", help="Share of the searches that are the test: the latest")
    ] = 0.1,
    test_from: Annotated[
        int | None,
        typer.Option("--test-from", help="Time index from which searches are the test [default: by the share]"),
    ] = None,
    pairs: Pairs = 30_000,
    seed: Seed = 0,
    unknown: Unknown = BadRows.error,
    bad_rows: Bad = BadRows.error,
    resume: Annotated[bool, typer.Option("--resume", help="Resume a read that was stopped")] = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """sidkit search read kuaisearch kuaisearch/ -o shop/

    Read a shop from KuaiSearch as it is released, full or lite. Files are read in parts that stay in SHOP.unfinished
    until the shop is written; --resume continues from there. This command writes files in the same form:

    sidkit search simulate -o kuaisearch/ --items 2000 --layout kuaisearch
    """
    from ....search.read.kuaisearch import KuaiSearchFiles, read_kuaisearch

    options = reader_options(test_share, test_from, pairs, seed, unknown, bad_rows)
    given = KuaiSearchFiles(folder, lite, prices)

    def read(scratch: Path, progress: "Progress") -> dict[str, Any]:
        try:
            return read_kuaisearch(given, output, options, scratch, progress)
        except InputError as error:
            raise InputError(f"{error.typed}. What was read is kept; --resume does not read it again") from error

    run_reader(read, output, options, as_json, folder, resume=resume, force=force)
