"""Checks of what commands write, made before the work."""

from __future__ import annotations

from os import W_OK, PathLike, access
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import SpecError, StoreError

if TYPE_CHECKING:
    from ..files.address import Location

__all__ = ["require_file", "require_folder", "require_parquet", "require_writable", "write_page"]


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


def require_file(path: Location, *inputs: str | PathLike[str] | None) -> None:
    """`require_writable`, for what is written as one file."""
    if isinstance(path, Path) and path.is_dir():
        raise StoreError(f"{path} is a folder; name a file to write")
    require_writable(path, *inputs)


def require_folder(path: Path) -> None:
    """`require_writable`, for what is written as a folder."""
    if path.is_file():
        raise StoreError(f"{path} is a file; name a folder to write")
    require_writable(path)


def require_parquet(path: Location) -> None:
    """An error if the name of the output is that of another format."""
    from ..data.formats.arrays import READERS

    if str(path) == "-" or path.suffix.lower() in READERS:
        raise SpecError(f"the output is a Parquet file; name it so, not {path}")


def write_page(path: Path, html: str) -> None:
    from ..files.atomic import replace_file

    with replace_file(path) as temporary:
        temporary.write_text(html, encoding="utf-8")
