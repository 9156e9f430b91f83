"""SIDs that someone else made, from the files that hold them."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ..data.formats.pt import read_pt
from ..data.formats.vectors import is_list
from ..data.ids import match, one_array, require_utf8
from ..data.listing import readable
from ..errors import InputError
from ..sids.crowded import slots_of
from ..sids.prefixes import prefix_numbers
from ..sids.table import SidTable
from ..sids.template import TEMPLATES, Template
from .json_pairs import json_pairs

__all__ = ["PACKED", "Foreign", "matrix_of", "read_index", "read_openonerec", "read_tensor"]

AT_ONCE = 1 << 16  # keys
PACKED = 8192  # the base in which OpenOneRec packs codes
LARGEST = 1 << 24  # codes of a level: what is counted for every code would fill the memory
TOKEN = re.compile(r"(|.*[^0-9])([0-9]{1,9})([^0-9]*)", re.S)

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Foreign:
    """How a foreign file is to be read.

    levels   take this many tokens of every item [default: all, which must be equally many]
    sizes    codewords per level [default: the largest code of each level, plus one]
    first    the number of the first code: 1 where codes count from 1
    notes    filled with what the user should know
    """

    levels: int | None = None
    sizes: tuple[int, ...] | None = None
    first: int = 0
    notes: list[str] = field(default_factory=list)

    def table(self, ids: Any, codes: Integers, template: Template | str = "letters") -> SidTable:
        """The table of these codes (n, levels), cut and counted as asked."""
        codes = np.asarray(codes)[:, : self.levels] - self.first
        if not codes.size:
            raise InputError("the file holds no SIDs")
        if codes.min() < 0:
            raise InputError(f"there is a code {codes.min() + self.first}; codes should count from {self.first}")
        if self.first == 0 and (codes.min(axis=0) > 0).all():
            self.notes.append("no level has a code 0: if codes count from 1, import with --first 1")
        sizes = self.sizes
        if sizes is None:
            sizes = tuple(int(size) + 1 for size in codes.max(axis=0))
            self.notes.append(
                f"the file does not tell codebook sizes; {'-'.join(map(str, sizes))} hold its largest codes (--sizes)"
            )
        if max(sizes) > LARGEST:
            raise InputError(f"a level would have {max(sizes):,} codes; at most {LARGEST:,} are read")
        if len(sizes) != codes.shape[1]:
            raise InputError(f"{len(sizes)} sizes do not fit SIDs of {codes.shape[1]} levels")
        return SidTable(ids, codes, sizes, template)


def read_index(path: Path, how: Foreign) -> SidTable:
    """index.json of LC-Rec, id2sid.json, or sid_vocab.json of RecBoard: {"0": ["<a_12>", "<b_3>"], …}."""
    keys: list[str] = []
    parts: list[Any] = []  # earlier keys, in arrays: a tenth of the memory of a list
    numbers = array("q")
    around: list[tuple[str, str]] = []  # per level, what stands before and after the code
    for key, tokens in json_pairs(path):
        if not isinstance(tokens, list) or not tokens:
            raise InputError(f"{path}: item {key!r} has {str(tokens)[:60]!r}, not a list of tokens")
        tokens = tokens[: how.levels]
        if how.levels is not None and len(tokens) < how.levels:
            raise InputError(f"{path}: item {key!r} has {len(tokens)} tokens, and --levels asks for {how.levels}")
        if around and len(tokens) != len(around):
            raise InputError(
                f"{path}: item {key!r} has {len(tokens)} tokens, others {len(around)}; where the last one tells items "
                f"with one SID apart, import with --levels {min(len(tokens), len(around))}"
            )
        numbers.extend(_codes_of(tokens, around, path, key))
        keys.append(_utf8(key, path))
        if len(keys) == AT_ONCE:
            parts.append(pa.array(keys, pa.large_string()))
            keys.clear()
    texts = pa.concat_arrays([*parts, pa.array(keys, pa.large_string())])
    codes = np.frombuffer(numbers, np.int64).reshape(len(texts), len(around))
    return how.table(_row_ids(texts), codes, _template(around))


def _utf8(text: str, path: Path) -> str:
    """The text, unless half a character is in it: JSON can write what no other file can hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(f"{path}: the item {ascii(text)[:60]} is not UTF-8") from None
    return text


def _codes_of(tokens: Sequence[Any], around: list[tuple[str, str]], path: Path, key: str) -> Iterator[int]:
    for level, token in enumerate(tokens):
        found = TOKEN.fullmatch(token) if isinstance(token, str) else None
        if found is None:
            raise InputError(f"{path}: item {key!r} has the token {token!r}, which holds no code")
        if level == len(around):
            around.append((found[1], found[3]))
        elif around[level] != (found[1], found[3]):
            usual = f"{around[level][0]}…{around[level][1]}"
            raise InputError(f"{path}: item {key!r} has {token!r} at level {level + 1}, where others have {usual}")
        yield int(found[2])


def _template(around: Sequence[tuple[str, str]]) -> Template:
    """The known template that writes these tokens, else letters."""
    for form in TEMPLATES.values():
        words = [form.words(level, 1)[0] for level in range(len(around))]
        if words == [f"{before}0{after}" for before, after in around]:
            return form
    return TEMPLATES["letters"]


def _row_ids(texts: Any) -> Any:
    """Keys as integers if all are decimal ("12", "item_12"), else as they are."""
    bare = pc.replace_substring_regex(texts, "^item_", "")
    if pc.all(pc.match_substring_regex(bare, r"^(0|[1-9][0-9]{0,17})$")).as_py():
        return bare.cast(pa.int64())
    return texts


def read_tensor(path: Path, how: Foreign) -> SidTable:
    """GRID's tensor (levels, items). A last row that numbers items with one SID is recognised and left out."""
    with readable(path):
        stored = read_pt(path)
    if len(stored) != 1 or "" not in stored:
        raise InputError(f"{path} holds {', '.join(stored) or 'nothing'}, not one tensor")
    tensor = np.asarray(stored[""].load())
    if tensor.ndim != 2 or tensor.dtype.kind not in "iu" or not tensor.size:
        raise InputError(f"{path} holds {tensor.dtype} {tensor.shape}, not integers (levels, items)")
    codes = tensor.T.astype(np.int64)
    if how.levels is None and codes.shape[1] > 1 and _tells_apart(codes):
        how.notes.append("the last row of the tensor numbers items that share a SID; it is left out")
        codes = codes[:, :-1]
    return how.table(np.arange(len(codes)), codes)


def _tells_apart(codes: Integers) -> bool:
    """Whether the last column is 0 for rows that are unique before it and 1 … m for m equal ones (or 0 … m - 1)."""
    if codes.min() < 0:
        return False
    number = prefix_numbers(codes[:, :-1], [int(size) + 1 for size in codes[:, :-1].max(axis=0)])[-1]
    _, which, counts = np.unique(number, return_inverse=True, return_counts=True)
    last, shared = codes[:, -1], counts[which.ravel()] > 1
    slots = slots_of(number, np.argsort(last, kind="stable"))
    return bool((last == slots + shared).all() or (last == slots).all())


def read_openonerec(path: Path, how: Foreign) -> SidTable:
    """Parquet with pid and codes (or sid), or sid2pid.json with packed keys."""
    if path.suffix == ".json":
        return _read_packed(path, how)
    with readable(path), pq.ParquetFile(path) as file:
        names = file.schema_arrow.names
        column = next((name for name in ("codes", "sid") if name in names), None)
        if column is None or "pid" not in names:
            raise InputError(f"{path} has the columns {', '.join(names)}; pid, and codes or sid, are needed")
        table = file.read(columns=["pid", column])
    require_utf8(table.column("pid"), "pid", path)
    return how.table(one_array(table.column("pid")), matrix_of(table.column(column), path), "openonerec")


def _read_packed(path: Path, how: Foreign) -> SidTable:
    ids: list[Any] = []
    packed = array("q")
    for key, items in json_pairs(path):
        if not key.isdecimal() or int(key) >= PACKED**3 or not isinstance(items, list):
            raise InputError(
                f"{path}: {key[:40]!r} is not a SID of three codes packed in base {PACKED}, with its items"
            )
        for item in items:
            one = item.get("pid", item.get("iid")) if isinstance(item, dict) else None
            if not isinstance(one, int | str) or isinstance(one, bool):
                raise InputError(f"{path}: SID {key} has an entry without a pid or iid: {str(item)[:60]}")
            ids.append(_utf8(one, path) if isinstance(one, str) else one)
            packed.append(int(key))
    whole = np.frombuffer(packed, np.int64)
    codes = np.stack([whole // PACKED**2, whole // PACKED % PACKED, whole % PACKED], axis=1)
    try:
        items = pa.array(ids)
    except (pa.ArrowException, OverflowError):
        raise InputError(f"{path}: ids must be texts, or whole numbers of 64 bits, and not both") from None
    return how.table(items, codes, "openonerec")


def matrix_of(column: Any, path: Path) -> Integers:
    """A column of equally long lists of integers as an array (n, levels)."""
    flat = one_array(column)
    if not is_list(flat.type) or not pa.types.is_integer(flat.type.value_type):
        raise InputError(f"{path}: codes are {flat.type}, not lists of integers")
    lengths = pc.unique(pc.list_value_length(flat)).to_pylist()
    if flat.null_count or len(lengths) > 1 or flat.flatten().null_count:
        raise InputError(f"{path}: rows of codes have different lengths ({lengths[:4]}), or some are missing")
    values = flat.flatten().to_numpy(zero_copy_only=False)
    return np.asarray(values, np.int64).reshape(len(flat), lengths[0] if lengths else 0)


def named_ids(table: SidTable, path: Path) -> SidTable:
    """The same SIDs under the ids of an item_ids.parquet (row, item_id), in its order of rows."""
    try:
        names = pq.read_table(path, columns=["row", "item_id"])
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        raise InputError(f"{path} must have the columns row and item_id: {error}") from error
    require_utf8(names.column("item_id"), "item_id", path)
    rows = match(table.ids, one_array(names.column("row")))
    if (rows < 0).any():
        lost = table.ids[int(np.argmax(rows < 0))].as_py()
        raise InputError(f"{path} has no row {lost!r}, which the SIDs have")
    ids = one_array(names.column("item_id")).take(pa.array(rows))
    return SidTable(ids, table.codes, table.sizes, table.template, table.origin)
