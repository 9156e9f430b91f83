"""Whether the first values of a column are ids, users or times. Each function returns the reason, or None."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from .ids import is_id_type, is_text, match, without_dictionary

__all__ = [
    "are_telling",
    "could_be_id",
    "could_be_time",
    "could_be_user",
    "is_clock",
    "is_id_like",
    "is_number_or_clock",
    "is_sortable",
    "share_known",
    "sortable",
]

NEARLY_ALL = 0.99  # of the values are different in a column of ids; a file with a repeated id is still understood
LONGEST_ID = 64  # characters, on average
BLANKS = 0.05  # of the values of a column of ids have blanks inside, at most
WITH_DIGITS = 0.9  # of the texts of a column of ids contain a digit
SPARSE = 8  # times as many numbers as ids, at least, up to the largest id
YEARS = (631_152_000, 4_102_444_800)  # 1990 and 2100, in seconds since 1970
UNITS = {"seconds": 1, "milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}


def is_clock(kind: Any) -> bool:
    """Whether a pyarrow type is a timestamp or a date."""
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def is_number_or_clock(kind: Any) -> bool:
    return is_clock(kind) or bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def is_sortable(kind: Any) -> bool:
    """Whether a column of this type can be a time: a clock's, a number, or a text that may contain either."""
    return is_number_or_clock(kind) or is_text(kind)


def is_id_like(values: Any) -> bool:
    """Whether values are those of a column of ids: integers, or short strings without blanks, nearly all different."""
    values = without_dictionary(values.drop_null())
    if not is_id_type(values.type) or not len(values):
        return False
    if pc.count_distinct(values).as_py() < NEARLY_ALL * len(values):
        return False
    if not is_text(values.type):
        return True
    texts = values.cast(pa.large_string())
    blanks = pc.mean(pc.match_substring_regex(texts, r"\S\s+\S").cast(pa.int8())).as_py()
    length = pc.mean(pc.utf8_length(texts)).as_py()
    return bool(blanks <= BLANKS and length <= LONGEST_ID)


def could_be_id(name: str, values: Any) -> str | None:
    """Values that are all different, of a column whose name ends in "id"; of any column, texts with digits in them."""
    if not is_id_like(values):
        return None
    if name.lower().endswith("id"):
        return "every value is different"
    texts = without_dictionary(values.drop_null())
    if not is_text(texts.type):
        return None
    digits = pc.mean(pc.match_substring_regex(texts.cast(pa.large_string()), "[0-9]").cast(pa.int8())).as_py()
    return "different texts with digits" if digits >= WITH_DIGITS else None


def could_be_user(name: str, values: Any) -> str | None:
    """Ids that repeat, as those of people with several events do."""
    if not is_id_type(values.type) or values.null_count:
        return None
    distinct = pc.count_distinct(values).as_py()
    if not 1 < distinct < NEARLY_ALL * len(values):
        return None
    return "ids that repeat" if distinct * 1000 >= len(values) else None


def could_be_time(name: str, values: Any) -> str | None:
    """Timestamps, or integers of the size of a time since 1970."""
    if is_clock(values.type):
        return "timestamps"
    if values.null_count or not len(values):
        return None
    if is_text(values.type):
        try:
            clock = sortable(values).dtype.kind == "M"
        except ValueError:
            return None
        return "dates" if clock else None
    low, high = pc.min_max(values).as_py().values()
    if low == high:
        return None
    unit = next((name for name, size in UNITS.items() if YEARS[0] * size <= low <= high <= YEARS[1] * size), None)
    return f"{unit} since 1970" if unit else None


def are_telling(ids: Any) -> bool:
    """Whether values that are among the ids must be ids; not where the ids are the numbers from 0 on."""
    ids = without_dictionary(ids)
    return is_text(ids.type) or bool(len(ids) and pc.max(ids).as_py() > SPARSE * len(ids))


def share_known(values: Any, ids: Any) -> float:
    """The share of values that are among the ids."""
    values = values.drop_null()
    return float((match(values, ids) >= 0).mean()) if len(values) else 0.0


def sortable(times: Any) -> NDArray[Any]:
    """Times as numbers or as NumPy's times. Texts are read as numbers, or as ISO 8601; others are a ValueError."""
    if is_text(times.type):
        for kind in (pa.int64(), pa.float64(), pa.timestamp("us"), pa.timestamp("us", "UTC")):
            try:
                times = times.cast(pa.large_string()).cast(kind)
                break
            except pa.ArrowInvalid:
                continue
        else:
            raise ValueError("neither numbers nor ISO 8601")
    values: NDArray[Any] = np.asarray(pa.chunked_array([times]).to_numpy() if isinstance(times, pa.Array) else times)
    if values.dtype.kind == "f" and np.isnan(values).any():
        raise ValueError("some are not a number")
    return values
