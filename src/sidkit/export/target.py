"""What a target format is, and what an export is made from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..data.sequences import Sequences
from ..errors import SpecError, did_you_mean
from ..progress import Progress, Silent
from ..sids.table import SidTable
from ..sids.template import Template, template_named

if TYPE_CHECKING:
    from ..tokenizer.tokenizer import FittedTokenizer
    from .imports import Foreign

__all__ = ["RECORD", "ExportJob", "ExportOption", "ExportTarget"]

RECORD = "sidkit-export.json"  # beside the files of every target: what they are and what they were made from

KINDS = {int: "a whole number", str: "a text", bool: "true or false"}


@dataclass(frozen=True)
class ExportOption:
    """An option of one target, given as --set NAME=VALUE."""

    name: str
    kind: type[Any]  # int, str or bool
    default: Any  # None: not given
    meaning: str
    least: int | None = None  # of a whole number

    def read(self, value: Any) -> Any:
        """A value of the right type, or an error."""
        if self.kind is str and isinstance(value, int | float) and not isinstance(value, bool):
            value = str(value)
        if type(value) is not self.kind:
            raise SpecError(f"--set {self.name} must be {KINDS[self.kind]}, not {value!r}")
        if self.least is not None and value < self.least:
            raise SpecError(f"--set {self.name} must be at least {self.least}, not {value}")
        return value


@dataclass(frozen=True)
class ExportTarget:
    """A format that others read.

    reader   the programs that read it
    holds    the files that are written, in words
    write    fills an empty folder; raises before the first file if something cannot travel
    read     the SIDs in a file of this format, where a file holds everything; `reads` says which file
    folder   whether what it reads is a folder
    appends  whether an export into the folder of an earlier one adds to it, instead of replacing it
    """

    name: str
    reader: str
    holds: str
    write: Callable[[ExportJob, Path], None]
    options: tuple[ExportOption, ...] = ()
    read: Callable[[Path, Foreign], Any] | None = None
    reads: str = ""
    folder: bool = False
    appends: bool = False

    def settings(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """All options, with defaults where none is given."""
        known = {option.name: option for option in self.options}
        for name in given:
            if name not in known:
                listed = f"it has: {', '.join(known)}" if known else "it has none"
                raise SpecError(f"{self.name} has no option {name!r}{did_you_mean(name, known)} ({listed})")
        return {name: option.read(given[name]) if name in given else option.default for name, option in known.items()}


@dataclass(frozen=True, eq=False)
class ExportJob:
    """What is exported.

    sids            the items and their codes
    fitted          the tokenizer that made them
    titles          a pyarrow array with a text for every item, and descriptions likewise
    visits          sequences of items, as rows of the table
    counts          (items,) how popular each item is
    options         of the target, as --set gives them; `export` completes them with the defaults
    names           the files that these came from, by role, for the record
    output          the folder that is written in the end
    notes           filled with what the user should know
    """

    sids: SidTable | None = None
    fitted: FittedTokenizer | None = None
    titles: Any = None
    descriptions: Any = None
    visits: Sequences | None = None
    counts: NDArray[np.int64] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    progress: Progress = field(default_factory=Silent)
    output: Path | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def table(self) -> SidTable:
        """The SIDs, which most targets need."""
        if self.sids is None:
            raise SpecError(
                "this target is made from the SIDs of items; give them, as in: sidkit export sids.parquet …"
            )
        return self.sids

    @property
    def tokenizer(self) -> FittedTokenizer:
        """The tokenizer, which some targets need."""
        if self.fitted is None:
            raise SpecError("this target is made from the tokenizer of the SIDs; give it with --tokenizer tok/")
        return self.fitted

    @property
    def sizes(self) -> tuple[int, ...]:
        """Codewords per level, of the SIDs or of the tokenizer."""
        return self.tokenizer.sizes if self.sids is None else self.sids.sizes

    @property
    def template(self) -> Template:
        """How tokens are written: the option `template`, else as the SIDs are."""
        name = self.options.get("template")
        if name is not None:
            return template_named(name)
        return template_named("letters") if self.sids is None else self.sids.template

    def popularity(self) -> NDArray[np.int64] | None:
        """(items,) the counts that were given, or those of the sequences."""
        if self.counts is not None or self.visits is None:
            return self.counts
        rows = self.visits.rows
        return np.bincount(rows[rows >= 0], minlength=len(self.table)).astype(np.int64)

    def note(self, text: str) -> None:
        """Something the user should know: it is printed and recorded."""
        self.notes.append(text)
