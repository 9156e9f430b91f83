"""Arguments in the wrong order: recognised by what is at the paths, before a command says that it cannot read them."""

from __future__ import annotations

from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import SidkitError, SpecError

if TYPE_CHECKING:
    from ..files.address import Location

__all__ = ["require_order"]

LONGEST = 255  # bytes of a name
# What the file of a folder tells of it.
FOLDERS = {"retriever.json": "a recommender", "seeds.json": "a recommender", "search.json": "a search model"}
FOLDERS |= {"shop.json": "a shop", "config.json": "a tokenizer"}
NOUNS = {
    "tokenizer": ("a tokenizer",),
    "sids": ("semantic IDs",),
    "embeddings": ("embeddings", "a table"),
    "sequences": ("a table", "embeddings"),
    "retriever": ("a recommender",),
    "model": ("a search model",),
    "shop": ("a shop",),
    "text": ("no file",),
}


def require_order(command: str, **arguments: str | PathLike[str] | None) -> None:
    """An error if the two arguments are what the other one should be.

        require_order("encode", tokenizer=tokenizer, embeddings=embeddings)

    Nothing is said of arguments that are wrong in another way: the command's own error tells more.
    """
    given = {name: value for name, value in arguments.items() if value is not None}
    if len(given) < 2:
        return
    (first, a), (second, b) = given.items()
    seen_a, seen_b = _seen(a), _seen(b)
    if seen_a in NOUNS[second] and seen_b in NOUNS[first] and seen_a not in NOUNS[first]:
        what = [f"{path} is {seen}" for path, seen in ((a, seen_a), (b, seen_b)) if seen != "no file"]
        raise SpecError(f"{' and '.join(what)}: did you swap them? sidkit {command} {b} {a}")


def _seen(path: str | PathLike[str]) -> str:
    """What is at a path, in words; '' where that is not clear."""
    from ..data.formats.arrays import READERS
    from ..data.listing import files_of, is_table
    from ..files.address import is_address

    text = fspath(path)
    if is_address(text) or text == "-":
        return ""
    folder = Path(text)
    if len(folder.name) > LONGEST or "\0" in text:  # a text that the system takes for no path
        return "no file"
    if folder.is_dir():
        for name, noun in FOLDERS.items():
            if (folder / name).is_file():
                ours = name != "config.json" or b"sidkit-tokenizer" in (folder / name).read_bytes()[:4096]
                return noun if ours else ""
    try:
        first = files_of(text, nested=True)[0]
        if first.suffix.lower() in READERS:
            return "embeddings"
        return _table(first) if is_table(first) else ""
    except SidkitError:
        return "" if folder.exists() else "no file"


def _table(file: Location) -> str:
    from ..data.columns import VECTORS, named_columns
    from ..data.formats.parquet_file import parquet_columns

    types = parquet_columns(file).types
    if {"item_id", "codes"} <= set(types):
        return "semantic IDs"
    return "embeddings" if any(VECTORS.fits(types[name]) for name in named_columns(VECTORS.names, types)) else "a table"
