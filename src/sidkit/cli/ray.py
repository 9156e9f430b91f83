"""--ray on fit and encode: the same work, done by the workers of a cluster."""

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from ..errors import SpecError, count_of
from .options import BadRows

if TYPE_CHECKING:
    from ..files.address import Location
    from ..fleet.encode import Encoded
    from ..fleet.rows import RayRows
    from ..progress import Progress
    from .columns import ColumnNotes

HERE = "here"  # --ray without an address
ADDRESS = re.compile(r"auto|local|here|ray://.+|[^/]+:\d+")

Ray = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="[ADDRESS]",
        help="Run on a Ray cluster: auto, host:6379, ray://host:10001; alone: $RAY_ADDRESS, or Ray on this machine",
        show_default=False,
    ),
]
Workers = Annotated[
    int | None, typer.Option("--workers", help="Processes of --ray [default: one per CPU or GPU]", show_default=False)
]
Cpus = Annotated[int, typer.Option("--cpus", help="CPUs, and threads, per worker of --ray")]


DivideBatches = Annotated[
    bool,
    typer.Option(
        "--divide-batches",
        help="With --ray, rq-vae and r3-vae: workers compute the gradients of their rows. Same quality, other bits",
    ),
]


class WithRay(TyperCommand):
    """A command whose --ray may come without an address."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        full = []
        for word, after in zip(args, [*args[1:], ""], strict=False):
            full.append(word)
            if word == "--ray" and not ADDRESS.fullmatch(after):
                full.append(HERE)
        return super().parse_args(ctx, full)


def require_ray(ray: str | None, workers: int | None, cpus: int) -> None:
    """An error for options that have no effect without --ray."""
    if ray is None and (workers is not None or cpus != 1):
        raise SpecError(f"{'--cpus' if workers is None else '--workers'} is for the workers of --ray; give that too")


def rows_on_ray(
    embeddings: str,
    ray: str,
    workers: int | None,
    cpus: int,
    id_column: str | None,
    column: str | None,
    device: str,
    bad_rows: BadRows,
    progress: "Progress",
    check: bool = True,
    divide_batches: bool = False,
) -> "RayRows":
    """The rows on the cluster that the options name."""
    from ..fleet.open import on_ray

    if embeddings == "-":
        raise SpecError("--ray reads files that every worker can see; JSON lines come to this process alone")
    return on_ray(
        embeddings,
        address=None if ray == HERE else ray,
        workers=workers,
        cpus=cpus,
        device="cpu" if device == "auto" else device,
        id_column=id_column,
        column=column,
        bad_rows=bad_rows.value,
        check=check,
        progress=progress,
        divide_batches=divide_batches,
    )


def list_left_out(rows: "RayRows", output: Path) -> None:
    """List the bad rows that were left out, in a file beside the output."""
    if not rows.left_out:
        return
    from ..data.bad_rows import list_bad_rows

    complete: Any = rows.source
    listing = list_bad_rows(output, complete.source, {row: why for row, (_, why) in rows.left_out.items()})
    print(f"left out {count_of(len(rows.left_out), 'bad row')}, listed in {listing}", file=sys.stderr)


def print_encoded(
    done: "Encoded", output: "Location", ran: dict[str, Any], as_json: bool, notes: "ColumnNotes | None" = None
) -> None:
    """What was written, and by how many workers."""
    if as_json:
        result = {"output": str(output), "items": done.rows, "files": len(done.files), "kept_files": done.kept}
        print(json.dumps(result | {"ran": ran} | (notes.field() if notes else {})))
        return
    if notes:
        notes.print()
    from ..rows.run_report import describe_run
    from .printing import command_line

    note = f" ({done.kept} were there already)" if done.kept else ""
    following = command_line("report", output)
    print(describe_run(ran))
    print(f"wrote {count_of(done.rows, 'semantic ID')} to {count_of(len(done.files), 'file')}{note}; next: {following}")
