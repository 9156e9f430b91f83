"""A tokenizer's spec as plain JSON values and back, checked when it is read.

    {"kind": "Level", "cluster": {"kind": "KMeans", "size": 256, ...}, "rule": {"kind": "Residual", ...}}

A kind is the name of a frozen dataclass of plain fields. KINDS lists those of sidkit; other packages add theirs through
the entry point group `sidkit.stages`. Reading a spec never imports anything that a file names by path.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from ..errors import SpecError, did_you_mean

__all__ = ["KINDS", "essence", "from_plain", "kind_named", "to_plain"]

KINDS: dict[str, str] = {
    "Normalize": "sidkit.stages.prepare",
    "RemoveMean": "sidkit.stages.prepare",
    "Level": "sidkit.stages.level",
    "Residual": "sidkit.stages.level",
    "KMeans": "sidkit.stages.cluster.kmeans",
    "GMM": "sidkit.stages.cluster.gmm",
    "PerParent": "sidkit.stages.cluster.per_parent",
    "Balanced": "sidkit.stages.cluster.balanced",
    "ResidualBeam": "sidkit.stages.beam",
    "PQ": "sidkit.stages.product",
    "OPQ": "sidkit.stages.opq",
    "FSQ": "sidkit.stages.scalar",
    "RQVAE": "sidkit.stages.vae.rqvae",
    "R3VAE": "sidkit.stages.vae.r3vae",
    "Training": "sidkit.stages.vae.settings",
}

ENTRY_POINTS = "sidkit.stages"


def to_plain(spec: Any) -> Any:
    """Dataclasses, tuples and numbers as dicts, lists and numbers."""
    if is_dataclass(spec):
        return {"kind": type(spec).__name__} | {f.name: to_plain(getattr(spec, f.name)) for f in fields(spec)}
    if isinstance(spec, tuple | list):
        return [to_plain(item) for item in spec]
    return spec.item() if isinstance(spec, np.generic) else spec


def essence(spec: Any) -> Any:
    """`to_plain` without the fields that have their defaults: unchanged when a later version adds such a field."""
    if is_dataclass(spec):
        named = {f.name: getattr(spec, f.name) for f in fields(spec) if getattr(spec, f.name) != f.default}
        return {"kind": type(spec).__name__} | {name: essence(value) for name, value in named.items()}
    return [essence(item) for item in spec] if isinstance(spec, tuple | list) else to_plain(spec)


def from_plain(plain: Any, where: str = "spec") -> Any:
    """The inverse of `to_plain`; unknown kinds, unknown keys and wrong types are errors that name the part."""
    if isinstance(plain, Mapping):
        return _build(plain, where)
    if isinstance(plain, list):
        return tuple(from_plain(item, f"{where}[{i}]") for i, item in enumerate(plain))
    if plain is None or isinstance(plain, bool | int | float | str):
        return plain
    raise SpecError(f"{where}: cannot read a value of type {type(plain).__name__}")


def kind_named(name: str, where: str = "spec") -> type[Any]:
    """The dataclass behind a kind."""
    if name in KINDS:
        return getattr(import_module(KINDS[name]), name)  # type: ignore[no-any-return]
    for point in _plugins():
        if point.name == name:
            try:
                kind = point.load()
            except ImportError as error:
                package = point.dist.name if point.dist is not None else point.value
                raise SpecError(
                    f"{where}: the plug-in {package!r}, which has {name!r}, cannot load: {error}"
                ) from error
            if not (isinstance(kind, type) and is_dataclass(kind)):
                raise SpecError(f"entry point {name!r} of {ENTRY_POINTS} is not a dataclass")
            return kind
    known = [*KINDS, *(point.name for point in _plugins())]
    hint = did_you_mean(name, known) or (
        f"; if it comes from a plug-in, install the package that registers {name!r} as an entry point of {ENTRY_POINTS}"
    )
    raise SpecError(f"{where}: unknown kind {name!r}{hint}")


@cache
def _plugins() -> tuple[Any, ...]:
    return tuple(entry_points(group=ENTRY_POINTS))


def _build(plain: Mapping[str, Any], where: str) -> Any:
    name = plain.get("kind")
    if not isinstance(name, str):
        raise SpecError(f"{where}: an object needs a 'kind', such as {', '.join(list(KINDS)[:3])}")
    kind = kind_named(name, where)
    hints = get_type_hints(kind)
    known = {f.name for f in fields(kind) if f.init}
    values = {}
    for key, value in plain.items():
        if key == "kind":
            continue
        if key not in known:
            raise SpecError(f"{where}: {name} has no field {key!r}{did_you_mean(key, known)}")
        values[key] = from_plain(value, f"{where}.{key}")
        if not _fits(values[key], hints[key]):
            raise SpecError(f"{where}.{key}: {value!r} does not fit {_type_name(hints[key])}")
    try:
        return kind(**values)
    except TypeError as error:
        missing = sorted(known - set(values))
        raise SpecError(f"{where}: {name} is incomplete (not given: {', '.join(missing)})") from error


def _fits(value: Any, hint: Any) -> bool:
    origin, inside = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, UnionType):
        return any(_fits(value, option) for option in inside)
    if origin is Literal:
        return value in inside
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if len(inside) == 2 and inside[1] is Ellipsis:
            return all(_fits(item, inside[0]) for item in value)
        return len(value) == len(inside) and all(_fits(v, h) for v, h in zip(value, inside, strict=True))
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint in (int, bool, str, NoneType):
        return type(value) is hint
    return is_dataclass(value) and all(hasattr(value, name) for name in _members(hint))  # a part with its own kind


def _members(hint: Any) -> set[str]:
    """The public names of a protocol, which a part must have."""
    bases = [base for base in getattr(hint, "__mro__", ()) if getattr(base, "_is_protocol", False)]
    return {name for base in bases for name in vars(base) if not name.startswith("_")}


def _type_name(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")
