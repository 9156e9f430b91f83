"""What commands share: the options that recur, and how their texts are read."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InputError, SpecError, StoreError

if TYPE_CHECKING:
    from ..data.source import Embeddings as ItemEmbeddings
    from ..progress import Progress
    from ..tokenizer.tokenizer import Tokenizer


class BadRows(StrEnum):
    error = "error"
    drop = "drop"


Embeddings = Annotated[
    str, typer.Argument(help="Parquet file, folder or glob of them, .npy, .npz or .safetensors", show_default=False)
]
Output = Annotated[Path, typer.Option("--output", "-o", help="Folder to write", show_default=False)]
IdColumn = Annotated[str | None, typer.Option("--id-column", help="Parquet column of ids [default: found]")]
Column = Annotated[str | None, typer.Option("--column", help="Parquet column of vectors [default: found]")]
SequenceColumn = Annotated[
    str | None, typer.Option("--sequence-column", help="Column of items in the sequences [default: found]")
]
BadRowsOption = Annotated[
    BadRows, typer.Option("--bad-rows", help="Rows with NaN, infinity or only zeros: stop, or leave out and list")
]
Device = Annotated[str, typer.Option("--device", help="cpu, cuda, or auto: a GPU where there is one and it pays")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines")]
TemplateOption = Annotated[
    str, typer.Option("--template", help="letters, lc-rec, openonerec, plain, or a token such as '<{letter}_{code}>'")
]

Items = Annotated[Path | None, typer.Option("--items", help="Parquet file with the items' texts")]
TextColumn = Annotated[str, typer.Option("--text", help="Its column of texts")]
Form = Annotated[str, typer.Option("--format", help="table, json, markdown or latex")]
Sids = Annotated[Path, typer.Argument(help="Parquet file written by `sidkit encode`", show_default=False)]
SequencesFile = Annotated[
    Path, typer.Argument(help="Parquet: a list of items per user, or a row per event", show_default=False)
]


def place(text: str) -> Any:
    """A path, or an address such as s3://shop/sids.parquet."""
    from ..files.address import locate

    return locate(text)


def read_sizes(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.replace("-", ",").split(","))
    except ValueError:
        raise SpecError(f"cannot read sizes {text!r}; write them as 1024,512,128 or 1024-512-128") from None


def read_options(pairs: list[str] | None) -> dict[str, Any]:
    options = {}
    for pair in pairs or []:
        name, sign, value = pair.partition("=")
        if not sign:
            raise SpecError(f"--set {pair!r} must have the form name=value")
        try:
            options[name.replace("-", "_")] = json.loads(value)
        except ValueError:
            options[name.replace("-", "_")] = value
    if isinstance(options.get("sizes"), str | int):
        options["sizes"] = read_sizes(str(options["sizes"]))
    return options


def with_known_options(name: str, options: dict[str, Any]) -> Tokenizer:
    """A recipe with those of the options that it has; sizes are for all."""
    from inspect import signature

    from ..tokenizer.recipes import RECIPES

    known = signature(RECIPES[name]).parameters if name in RECIPES else options
    return _made(name, {key: value for key, value in options.items() if key in known or key == "sizes"})


def _made(name: str, options: dict[str, Any]) -> Tokenizer:
    """A recipe whose options have the right types, which nothing has looked at yet."""
    from ..tokenizer.recipes import recipe
    from ..tokenizer.spec import from_plain, to_plain

    given = ", ".join(f"{key}={value!r}" for key, value in options.items())
    try:
        made = recipe(name, **options)
    except TypeError as error:
        raise SpecError(f"cannot make {name} with {given}: {error}") from None
    try:
        from_plain(to_plain(made.stages))
    except SpecError as error:
        raise SpecError(f"cannot make {name} with {given}: {error}") from None
    return made


def read_seeds(text: str) -> list[int]:
    try:
        seeds = list(range(int(text[1:]))) if text.startswith("x") else [int(part) for part in text.split(",")]
    except ValueError:
        seeds = []
    if not seeds or min(seeds) < 0:
        raise SpecError(f"cannot read seeds {text!r}; write them as 0,1,2 or x3")
    if len(set(seeds)) < len(seeds):
        raise SpecError(f"seeds {text!r} name one twice, which would be counted as two runs")
    return seeds


def require_seed(seed: int) -> None:
    if seed < 0:
        raise SpecError(f"--seed must be at least 0, not {seed}")


def tokenizer_of(recipe: str, options: dict[str, Any], spec: str | None) -> Tokenizer:
    if spec is None:
        return _made(recipe, options)
    from ..tokenizer.spec import from_plain
    from ..tokenizer.tokenizer import Tokenizer

    if options:
        raise SpecError(f"--spec already says everything; leave out {', '.join(sorted(options))}")
    try:
        text = sys.stdin.read() if spec == "-" else Path(spec).read_text(encoding="utf-8")
        return Tokenizer(from_plain(json.loads(text)))
    except (OSError, ValueError) as error:
        raise SpecError(f"cannot read the spec {spec}: {error}") from error


def open_source(
    path: str, id_column: str | None, column: str | None, bad_rows: BadRows, output: Path, progress: Progress
) -> ItemEmbeddings:
    """The embeddings, without their bad rows if so asked; those are listed beside the output."""
    from ..data.embeddings import good_rows, open_embeddings
    from ..data.json_lines import read_json_lines

    source = read_json_lines(sys.stdin) if path == "-" else open_embeddings(path, id_column, column)
    if bad_rows is BadRows.error:
        return source
    from ..data.bad_rows import list_bad_rows

    progress.start("check", source.shape[0])
    beside = output.absolute().parent if isinstance(output, Path) and str(output) != "-" else None
    good = good_rows(source, beside, progress)
    if not good.shape[0]:
        first = good.bad[min(good.bad)]
        raise InputError(f"no rows are left: all {len(good.bad):,} of {path} are bad, the first because it {first}")
    if good.bad:
        listing = list_bad_rows(output, source, good.bad)
        print(f"left out {len(good.bad):,} bad rows, listed in {listing}", file=sys.stderr)
    return good


def texts_for(path: Path, column: str, ids: Any) -> list[str]:
    from ..data.items import texts_of

    return texts_of(path, column, ids)


def write_page(path: Path, html: str) -> None:
    from ..files.atomic import replace_file

    with replace_file(path) as temporary:
        temporary.write_text(html, encoding="utf-8")


def require_writable(path: Path, *inputs: str | Path | None) -> None:
    """Fail before the work, not after it, if the output cannot be written or would take an input's place."""
    from os import W_OK, access

    if not isinstance(path, Path):  # another file system's matter
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


def require_file(path: Path, *inputs: str | Path | None) -> None:
    """`require_writable`, for what is written as one file."""
    if isinstance(path, Path) and path.is_dir():
        raise StoreError(f"{path} is a folder; name a file to write")
    require_writable(path, *inputs)


def require_folder(path: Path) -> None:
    """`require_writable`, for what is written as a folder."""
    if path.is_file():
        raise StoreError(f"{path} is a file; name a folder to write")
    require_writable(path)


def require_parquet(output: Path) -> None:
    from ..data.formats.arrays import READERS

    if str(output) == "-" or output.suffix.lower() in READERS:
        raise SpecError(f"the output is a Parquet file; name it so, not {output}")
