"""Several files of embeddings fitted together: their roles and repeats."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import SpecError
from .columns import ColumnNotes, id_column_in
from .inputs import open_source
from .options import BadRows

if TYPE_CHECKING:
    from ..progress import Progress
    from ..rows.sources import Source

ITEMS, QUERIES = "items", "queries"

JointEmbeddings = Annotated[
    list[str],
    typer.Argument(
        help="Parquet (a file, a folder, a glob pattern), .npy, .npz, .safetensors or .pt; a second one holds queries",
        show_default=False,
    ),
]
Queries = Annotated[
    str | None, typer.Option("--queries", help="Embeddings of queries, fitted with the items: as a second file")
]
Roles = Annotated[
    str | None, typer.Option("--roles", help="Role of every file, as items,queries; figures count items alone")
]
Repeats = Annotated[
    str | None,
    typer.Option("--repeats", help="Column of the queries' file: how often each row counts; 0 leaves it out"),
]


def joint_roles(paths: list[str], queries: str | None, roles: str | None, repeats: str | None) -> dict[str, str]:
    """Role -> path, in the order they are fitted."""
    if queries is not None and (len(paths) > 1 or roles is not None):
        raise SpecError("--queries is the short form for two files; with --roles, name all files before the options")
    files = [*paths, *([queries] if queries is not None else [])]
    names = [ITEMS, QUERIES][: len(files)] if roles is None else [role.strip() for role in roles.split(",")]
    if len(names) != len(files):
        hint = "name a role for each, as --roles items,queries,..." if roles is None else f"--roles has {len(names)}"
        raise SpecError(f"there are {len(files)} files of embeddings; {hint}")
    if len(set(names)) < len(names) or not all(names):
        raise SpecError(f"every file needs a different role, such as items and queries; got {', '.join(names)}")
    if ITEMS not in names:
        raise SpecError(f"one of the roles must be {ITEMS}, which the figures are of; got {', '.join(names)}")
    if repeats is not None and len(files) == 1:
        raise SpecError("--repeats counts rows of queries; give their file with --queries")
    return dict(zip(names, files, strict=True))


def describe_roles(roles: Mapping[str, int]) -> str:
    """The rows of a joint fit in words. roles: role -> number of its rows."""
    counts = " and ".join(f"{count:,} {role}" for role, count in roles.items())
    return f"fitted on {counts}; these figures count items alone"


def open_joint(
    files: dict[str, str],
    repeats: str | None,
    id_column: str | None,
    column: str | None,
    bad_rows: BadRows,
    output: Path,
    progress: Progress,
    notes: ColumnNotes,
    others: tuple[str | PathLike[str] | None, ...] = (),
) -> Source:
    """The rows of all files as one source; of a single file, that file's. Their columns are added to the notes.

    others: further files that --id-column may be meant for.
    """
    from ..data.joint import Joint, counts_of, repeated
    from ..data.source import chosen_columns

    members = []
    for role, path in files.items():
        target = output if role == ITEMS else output.with_name(f"{output.stem}-{role}")
        rest = [other for other in (*files.values(), *others) if other != path]
        source: Source = open_source(path, id_column_in(id_column, path, *rest), column, bad_rows, target, progress)
        notes.add(role, path, chosen_columns(source))
        if repeats is not None and role != ITEMS:
            source = repeated(source, counts_of(source, repeats))
        members.append((role, source))
    return members[0][1] if len(members) == 1 else Joint(members)
