"""Options and arguments that several commands share."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ..files.address import Location as Location
else:
    Location = Path  # Typer takes no unions; `location` gives a Path, or a Remote for an address


class BadRows(StrEnum):
    error = "error"
    drop = "drop"


def location(text: str) -> "Location":
    """A path, or an address such as s3://shop/sids.parquet."""
    from ..files.address import locate

    return locate(text)


# What is read

Embeddings = Annotated[
    str,
    typer.Argument(
        help="Parquet (a file, a folder, a glob pattern), .csv, .jsonl, .npy, .npz, .safetensors or .pt",
        show_default=False,
    ),
]
Sids = Annotated[
    Location,
    typer.Argument(
        help="What `sidkit encode` wrote: a file, a folder, a glob pattern or an address",
        show_default=False,
        parser=location,
    ),
]
SequencesFile = Annotated[
    Location,
    typer.Argument(
        help="Parquet or CSV file with a list of items per user, or a row per event",
        show_default=False,
        parser=location,
    ),
]
Items = Annotated[
    Location | None,
    typer.Option("--items", help="Parquet or CSV file with the items' texts", parser=location, metavar="PATH"),
]
SequencesOption = Annotated[
    Location | None,
    typer.Option(
        "--sequences",
        help="Parquet or CSV file with a list of items per user, or a row per event",
        parser=location,
        metavar="PATH",
    ),
]
SpreadToo = Annotated[
    bool | None,
    typer.Option(
        "--spread/--no-spread",
        help="Measure SIDs also with items spread, as `encode --spread` does it [default: with --sequences]",
    ),
]
TextColumn = Annotated[str, typer.Option("--text", help="Column of texts in --items")]
IdColumn = Annotated[str | None, typer.Option("--id-column", help="Column of item ids [default: detected]")]
Column = Annotated[str | None, typer.Option("--column", help="Column of vectors [default: detected]")]
SequenceColumn = Annotated[
    str | None, typer.Option("--sequence-column", help="Column of lists of items in the sequences [default: detected]")
]
ItemColumn = Annotated[
    str | None, typer.Option("--item-column", help="Column of items in sequences of events [default: detected]")
]
UserColumn = Annotated[
    str | None, typer.Option("--user-column", help="Column of users in sequences of events [default: detected]")
]
TimeColumn = Annotated[
    str | None, typer.Option("--time-column", help="Column of times in sequences of events [default: detected]")
]
FileOrder = Annotated[bool, typer.Option("--file-order", help="Events are in order; do not look for their times")]
Within = Annotated[
    Path | None, typer.Option("--within", help="Recommend only these items: a text file, one id per line")
]
TokenizerOption = Annotated[
    Path | None,
    typer.Option("--tokenizer", help="The tokenizer of these SIDs; one that did not make them is refused"),
]
Insist = Annotated[bool, typer.Option("--force", help="Accept a tokenizer that did not make the SIDs")]
InsistOnBoth = Annotated[
    bool,
    typer.Option("--force", help="Accept a tokenizer that did not make the SIDs; replace what sidkit did not write"),
]
BadRowsOption = Annotated[
    BadRows,
    typer.Option("--bad-rows", help="Rows with NaN, infinity or only zeros: stop, or leave them out and list them"),
]

# What is written

Output = Annotated[Path, typer.Option("--output", "-o", help="Folder to write", show_default=False)]
TableOutput = Annotated[
    Location,
    typer.Option(
        "--output",
        "-o",
        help="File to write: .parquet, .csv, .tsv or .jsonl",
        show_default=False,
        parser=location,
        metavar="PATH",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace what sidkit did not write")]
Figures = Annotated[Path | None, typer.Option("--figures", help="Folder to write every figure to")]
Formats = Annotated[str, typer.Option("--formats", help="File formats of the figures, separated by commas")]
MapBy = Annotated[
    str, typer.Option("--map", help="How centroids are mapped: tsne, pca, or auto: t-SNE if scikit-learn is installed")
]
TemplateOption = Annotated[
    str,
    typer.Option(
        "--template",
        help="letters, lc-rec, openonerec, recboard, rectokens, plain, or a token such as '<{letter}_{code}>'",
    ),
]
Form = Annotated[str, typer.Option("--format", help="table, json, markdown or latex")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON")]

# How it is computed

Device = Annotated[
    str, typer.Option("--device", help="cpu, cuda, or auto: a GPU if there is one and the work is worth it")
]
Recipe = Annotated[str, typer.Option("--recipe", "-r", help="Which tokenizer; `sidkit show` lists them")]
RecipeOptions = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="An option of the recipe; may be repeated")
]
