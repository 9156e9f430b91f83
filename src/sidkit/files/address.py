"""Files by name: paths of this machine, and addresses on file systems that Arrow reaches (s3://, gs://, hdfs://).

    locate("items/")                     a pathlib.Path
    locate("s3://shop/items?region=eu-west-1")   a Remote, with the methods of a Path that reading and writing need

Options of the file system follow the address as Arrow defines them: `?endpoint_override=127.0.0.1:9000&scheme=http` for
an S3-compatible server. Credentials are those that the cloud's own tools use.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

from ..errors import InputError, StoreError
from .atomic import replace_file
from .text_notes import is_text_table

__all__ = ["Location", "Remote", "for_arrow", "is_address", "locate", "replacing"]

APPEAR_COMPLETE = ("s3", "gcs", "abfs")  # file systems on which a file appears when it is complete, without a rename


@dataclass(frozen=True)
class Remote:
    """A file or folder on another file system."""

    root: str  # s3://
    path: PurePosixPath  # bucket/folder/file
    options: str = ""  # ?region=eu-west-1

    def __str__(self) -> str:
        """The address without user, password and options, for messages."""
        return re.sub("//[^/]*@", "//", f"{self.root}{self.path}")

    def __fspath__(self) -> str:
        """The complete address with its options, as `locate` reads it."""
        return f"{self.root}{self.path}{self.options}"

    def __truediv__(self, name: str) -> Remote:
        return Remote(self.root, self.path / name, self.options)

    def __lt__(self, other: Remote) -> bool:
        return self.path < other.path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def stem(self) -> str:
        return self.path.stem

    @property
    def suffix(self) -> str:
        return self.path.suffix

    @property
    def parent(self) -> Remote:
        return Remote(self.root, self.path.parent, self.options)

    def relative_to(self, other: Remote) -> PurePosixPath:
        return self.path.relative_to(other.path)

    @property
    def system(self) -> Any:
        """The Arrow file system."""
        return _system(self.root, self.path.parts[0], self.options)[0]

    @property
    def inner(self) -> str:
        """The path on that file system."""
        return f"{_system(self.root, self.path.parts[0], self.options)[1]}/{'/'.join(self.path.parts[1:])}".rstrip("/")

    def open(self, mode: str = "rb") -> Any:
        """A file to read, at any position."""
        return self.system.open_input_file(self.inner)

    def stat(self) -> os.stat_result:
        """Size and time of the last change."""
        info = self._info()
        return os.stat_result((0, 0, 0, 0, 0, 0, info.size or 0, 0, (info.mtime_ns or 0) // 10**9, 0))

    def is_file(self) -> bool:
        return bool(self._info().is_file)

    def is_dir(self) -> bool:
        return str(self._info().type.name) == "Directory"

    def exists(self) -> bool:
        return str(self._info().type.name) != "NotFound"

    def iterdir(self, recursive: bool = False) -> Iterator[Remote]:
        """The files in this folder, and with recursive in those below it."""
        from pyarrow.fs import FileSelector

        for info in self.system.get_file_info(FileSelector(self.inner, recursive=recursive)):
            yield self / info.path[len(self.inner) :].lstrip("/")

    def glob(self, pattern: str) -> Iterator[Remote]:
        """The files below this folder that match: `*`, `?` and `[ab]` within a name, `**` across folders."""
        for entry in self.iterdir(recursive=True):
            if _matches(entry.relative_to(self).parts, pattern.split("/")):
                yield entry

    def _info(self) -> Any:
        return self.system.get_file_info(self.inner)


Location: TypeAlias = Path | Remote


def _matches(names: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether the names of a path match the parts of a pattern; `**` is any number of names, at the end one or more."""
    if not names or not pattern:
        return not names and not pattern
    if pattern[0] != "**":
        return fnmatchcase(names[0], pattern[0]) and _matches(names[1:], pattern[1:])
    return len(pattern) == 1 or _matches(names, pattern[1:]) or _matches(names[1:], pattern)


def is_address(text: str | os.PathLike[str]) -> bool:
    """Whether a text names a file system, such as s3://bucket/file."""
    return re.match(r"[a-z][a-z0-9+.-]+://", os.fspath(text)) is not None


def locate(text: str | os.PathLike[str] | Remote) -> Location:
    """A user's text as a path of this machine, or as an address on another file system."""
    if isinstance(text, Remote) or not is_address(text):
        return text if isinstance(text, Remote) else Path(text)
    plain, question, options = os.fspath(text).partition("?")
    root, slashes, path = plain.partition("://")
    if root == "file":
        return Path("/" + path.lstrip("/"))
    if not path.strip("/"):
        raise InputError(f"{plain} names no file or folder")
    return Remote(root + slashes, PurePosixPath(path), question + options)


def for_arrow(path: Location) -> Any:
    """The argument for Arrow's readers of Parquet: the path, the opened file, or a table in text as Parquet."""
    if is_text_table(path):
        from .text_tables import parquet_of

        return parquet_of(path)
    return path if isinstance(path, Path) else path.open()


@contextmanager
def replacing(path: Location) -> Iterator[Path]:
    """A file of this machine to write to; on success it replaces `path`, on any file system, in one step."""
    if isinstance(path, Path):
        with replace_file(path) as temporary:
            yield temporary
        return
    with TemporaryDirectory() as folder:
        temporary = Path(folder) / path.name
        yield temporary
        try:
            _upload(temporary, path)
        except OSError as error:
            raise StoreError(f"cannot write {path}: {str(error).splitlines()[0][:200]}") from error


def _upload(source: Path, target: Remote) -> None:
    from pyarrow.fs import LocalFileSystem, copy_files

    if target.system.type_name in APPEAR_COMPLETE:
        copy_files(str(source), target.inner, LocalFileSystem(), target.system, use_threads=False)
        return
    aside = target.parent / f".{target.name}.sidkit-{secrets.token_hex(8)}"
    target.system.create_dir(target.parent.inner, recursive=True)
    copy_files(str(source), aside.inner, LocalFileSystem(), target.system, use_threads=False)
    target.system.move(aside.inner, target.inner)


@lru_cache
def _system(root: str, first: str, options: str) -> tuple[Any, str]:
    """The Arrow file system of an address, and its name for the first part (a bucket, a host or nothing)."""
    from pyarrow import ArrowException
    from pyarrow.fs import FileSystem

    try:
        system, path = FileSystem.from_uri(f"{root}{first}/{options}")
    except (OSError, ValueError, NotImplementedError, ArrowException) as error:
        reason = str(error).splitlines()[0][:200]
        raise InputError(f"cannot reach {root}{first.rpartition('@')[2]}: {reason}") from error
    return system, path.rstrip("/")
