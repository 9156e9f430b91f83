"""The files at a path, and one error for every kind of unreadable file."""

from __future__ import annotations

import os
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from glob import glob, has_magic
from pathlib import Path, PurePath, PurePosixPath
from pickle import UnpicklingError
from tokenize import TokenError

import pyarrow as pa

from ..errors import InputError
from ..files.address import Location, is_address, locate
from ..files.text_notes import is_text_table

__all__ = ["ACCEPTED", "files_of", "is_parquet", "is_table", "readable"]

ACCEPTED = "Parquet (a file, a folder or a glob pattern), .csv, .tsv, .jsonl, .npy, .npz, .safetensors and .pt"

PARQUET = (".parquet", ".pq", ".parq")

# What numpy, pyarrow, zipfile, json and torch were seen to raise on broken files.
UNREADABLE = (
    OSError,
    ValueError,
    TypeError,
    LookupError,
    EOFError,
    SyntaxError,
    OverflowError,
    MemoryError,
    RuntimeError,
    TokenError,
    struct.error,
    zlib.error,
    zipfile.BadZipFile,
    UnpicklingError,
    pa.ArrowException,
)


@contextmanager
def readable(path: Location) -> Iterator[None]:
    """Turn any exception of a broken file into an InputError that names the file."""
    try:
        yield
    except UNREADABLE as error:
        reason = _not_parquet(path) or str(error).strip().split("\n")[0][:200] or type(error).__name__
        raise InputError(f"cannot read {path}: {reason}") from error


def _not_parquet(path: Location) -> str:
    """What a file is that has the name of a Parquet file and is another; '' for any other file."""
    try:
        if path.suffix.lower() not in PARQUET or not path.is_file():
            return ""
        with path.open("rb") as file:
            start = file.read(4096)
        line = start.decode("utf-8", errors="strict").splitlines()[0]
    except (OSError, ValueError, IndexError, InputError):  # no text, or empty
        return ""
    if start[:4] == b"PAR1" or not line.isprintable():
        return ""
    signs = {"\t": ".tsv", ",": ".csv", ";": ".csv"}
    form = ".jsonl" if line.startswith("{") else next((form for sign, form in signs.items() if sign in line), "")
    if not form:
        return f"it is text, not Parquet; its first line is {line[:60]!r}"
    noun = {".jsonl": "JSON lines", ".tsv": "TSV", ".csv": "CSV"}[form]
    return f"it is {noun}, not Parquet (its first line is {line[:60]!r}); rename it to {path.stem}{form}, which is read"


def files_of(path: str | os.PathLike[str], nested: bool = False) -> tuple[Location, ...]:
    """The files at a path: the file itself, the Parquet files of a folder, or what a pattern matches.

    nested: a folder's files include those of the folders in it.
    """
    text = os.fspath(path)
    if is_address(text):
        return _at_address(text, nested)
    with readable(Path(text)):
        if text and Path(text).is_file():
            return (Path(text),)
        if text and Path(text).is_dir():
            return _in_folder(Path(text), nested)
        if text and Path(text).exists():
            raise InputError(f"{text} is neither a file nor a folder")
        if has_magic(text):
            return _matching(text)
    raise InputError(f"no such file or folder: {text!r}" if not text else f"no such file or folder: {text}")


def is_table(path: Location) -> bool:
    """Whether a file is a table by its name: Parquet, or text that is read as Parquet is; or starts as Parquet does."""
    return is_text_table(path) or is_parquet(path)


def is_parquet(path: Location) -> bool:
    """Whether a file has the name of a Parquet file, or starts as one does."""
    if path.suffix.lower() in PARQUET:
        return True
    with readable(path), path.open("rb") as file:
        return file.read(4) == b"PAR1"


def _at_address(text: str, nested: bool) -> tuple[Location, ...]:
    """The same on another file system. A `?` starts its options there, and is no pattern."""
    location = locate(text)
    with readable(location):
        if isinstance(location, Path):
            return files_of(location, nested)
        parts = location.path.parts
        magic = next((i for i, part in enumerate(parts) if has_magic(part)), None)
        if magic is not None:
            folder, pattern = replace(location, path=PurePosixPath(*parts[:magic])), "/".join(parts[magic:])
            return _visible_files(folder.glob(pattern), text)
        if location.is_file():
            return (location,)
        if location.is_dir():
            return _in_folder(location, nested)
    raise InputError(f"no such file or folder: {location}")


def _in_folder(folder: Location, nested: bool) -> tuple[Location, ...]:
    visible = sorted(entry for entry in _entries(folder, nested) if _visible(entry, folder))
    inside = [entry for entry in visible if entry.is_file()]
    paths = tuple(filter(is_parquet, inside)) or tuple(
        entry for entry in inside if is_text_table(entry) and not entry.name.endswith(".json")
    )
    if paths:
        return paths
    shown = ", ".join(entry.name + "/" * entry.is_dir() for entry in visible[:5]) or "nothing"
    more = ", ..." if len(visible) > 5 else ""
    hint = f"; give a pattern such as '{folder}/**/*.parquet'" if any(e.is_dir() for e in visible) else ""
    raise InputError(f"no Parquet files in folder {folder} (it holds {shown}{more}){hint}")


def _entries(folder: Location, nested: bool) -> Iterable[Location]:
    if isinstance(folder, Path):
        return folder.rglob("*") if nested else folder.iterdir()
    return folder.iterdir(recursive=nested)


def _matching(pattern: str) -> tuple[Location, ...]:
    return _visible_files((Path(match) for match in glob(pattern, recursive=True)), pattern)


def _visible_files(matches: Iterable[Location], pattern: str) -> tuple[Location, ...]:
    files = tuple(path for path in sorted(matches) if path.is_file() and _visible(path, path.parent))
    if not files:
        raise InputError(f"no file matches {pattern}")
    return files


def _visible(path: Location, folder: Location) -> bool:
    """Whether no name below the folder starts as hidden files and those of writers at work do."""
    below: PurePath = path.relative_to(folder)  # type: ignore[arg-type]
    return not any(name.startswith((".", "_")) for name in below.parts)
