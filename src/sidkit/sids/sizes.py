"""Sizes as people write them: (256, 256, 256), "256-256-256", "256,256,256" or 256."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any, TypeAlias

from ..errors import SpecError

__all__ = ["Sizes", "as_sizes"]

Sizes: TypeAlias = int | str | Sequence[int]


def as_sizes(sizes: Any) -> tuple[int, ...]:
    """The number of codes of each token, also from "1024-512-128" or "1024,512,128"; one number is one token."""
    if isinstance(sizes, str):
        try:
            return tuple(int(part) for part in sizes.replace("-", ",").split(","))
        except ValueError:
            raise _unreadable(sizes) from None
    values = [sizes] if isinstance(sizes, Integral) else sizes
    try:
        parts = list(values)
    except TypeError:
        raise _unreadable(sizes) from None
    if not parts or not all(isinstance(part, Integral) and not isinstance(part, bool) for part in parts):
        raise _unreadable(sizes)
    return tuple(int(part) for part in parts)


def _unreadable(sizes: Any) -> SpecError:
    return SpecError(
        f"cannot read sizes {sizes!r}; write them as 1024,512,128 or 1024-512-128, in Python also as (1024, 512, 128)"
    )
