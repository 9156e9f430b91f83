"""What commands write: checked before the work, and what a stopped run leaves.

    require_file(output, embeddings, endings=TABLES, force=force)      for -o FILE
    require_folder(output, check_target, force)                       for -o FOLDER

Both refuse what cannot be written, what is read from, what another process is writing, and what sidkit did not write;
with --force that is replaced.
What was replaced is said on standard error when the command has ended well (`print_replaced`, called by `app.main`).
`files.table_formats` writes a table in the format of its ending.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from os import W_OK, PathLike, access
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import SpecError, StoreError
from ..files.lock import lock_output

if TYPE_CHECKING:
    from ..files.address import Location

__all__ = ["PAGES", "TABLES", "print_replaced", "require_file", "require_folder", "require_writable", "write_page"]

TABLES = (".parquet", ".csv", ".tsv", ".jsonl")
PAGES = (".html", ".htm")
PDF = "; any browser prints such a page as a PDF, and --figures FOLDER --formats pdf writes its figures as PDF"

_replaced: list[str] = []  # lines for the end of this command


def require_writable(path: Location, *inputs: str | PathLike[str] | None) -> None:
    """Fail before the work, not after it, if the output cannot be written or is one of the inputs."""
    if not isinstance(path, Path):  # another file system reports its own errors
        return
    if not path.name:
        raise StoreError("name a file or folder to write")
    if path.exists():
        from ..data.listing import files_of

        for one in (one for one in inputs if one is not None and str(one) != "-"):
            if any(isinstance(file, Path) and file.resolve() == path.resolve() for file in files_of(one)):
                raise StoreError(f"{path} is read from; write to another file")
    parent = path.absolute().parent
    while not parent.exists():
        parent = parent.parent
    if not parent.is_dir() or not access(parent, W_OK):
        raise StoreError(f"cannot write {path}: no permission to write in {parent}")
    lock_output(path)


def require_file(
    path: Location, *inputs: str | PathLike[str] | None, endings: Sequence[str] = (), force: bool = False
) -> None:
    """Before the work: an error unless a file can be written here.

    inputs: files that must not be replaced; endings: those that its name may have; force: whether to replace a file
    that sidkit did not write.
    """
    if isinstance(path, Path) and path.is_dir():
        raise StoreError(f"{path} is a folder; name a file to write")
    require_writable(path, *inputs)
    if endings and path.suffix.lower() not in endings:
        ending = f"the ending {path.suffix!r} is not known" if path.suffix else "its name has no ending"
        hint = PDF if path.suffix.lower() == ".pdf" and ".html" in endings else ""
        raise SpecError(f"cannot write {path}: {ending}; name it with {_listed(endings)}{hint}")
    _require_replaceable(path, force)


def _require_replaceable(path: Location, force: bool) -> None:
    from ..files.ours import is_ours

    try:
        if not path.exists():
            return
        ours = is_ours(path)
    except OSError:
        if isinstance(path, Path):
            raise StoreError(f"cannot read {path}, which would be replaced") from None
        return  # another file system reports its own errors
    if not ours and not force:
        raise StoreError(f"{path} was not written by sidkit, or was changed since; name another file, or give --force")
    _replaced.append(f"replaced {path}, which sidkit {'wrote' if ours else 'did not write (--force)'}")


def require_folder(
    path: Path, check: Callable[[Path], None] | None = None, force: bool = False, quiet: bool = False
) -> None:
    """Before the work: an error unless a folder can be written here.

    check: raises a ForeignFolderError for a folder that sidkit did not write; with force it is written to, and its
    other files stay. quiet: say nothing of a folder that sidkit wrote.
    """
    from ..files.ours import ForeignFolderError, claim

    if path.is_file():
        raise StoreError(f"{path} is a file; name a folder to write")
    require_writable(path)
    try:
        if check is not None:
            check(path)
    except ForeignFolderError as error:
        if not force:
            raise StoreError(f"{error}, or give --force to write into this one") from None
        claim(path)
        _replaced.append(f"wrote into {path}, which has other files (--force); those of the same names are replaced")
        return
    if not quiet and path.is_dir() and any(path.iterdir()):
        _replaced.append(f"replaced {path}, which sidkit wrote")


def _listed(endings: Sequence[str]) -> str:
    return ", ".join(endings[:-1]) + f" or {endings[-1]}" if len(endings) > 1 else endings[0]


def print_replaced(say: bool = True) -> None:
    """Say on standard error what this command replaced, or forget it."""
    if _replaced and say:
        from .terminal import plain

        for line in _replaced:
            print(plain(line), file=sys.stderr)
    _replaced.clear()


def write_page(path: Path, html: str) -> None:
    from ..files.atomic import replace_file

    with replace_file(path) as temporary:
        temporary.write_text(html, encoding="utf-8")
