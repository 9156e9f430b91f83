"""Values that options write as text: sizes, seeds, a recipe and its options."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import SpecError

if TYPE_CHECKING:
    from ..tokenizer.tokenizer import Tokenizer

__all__ = [
    "read_options",
    "read_seeds",
    "read_sizes",
    "require_choice",
    "require_seed",
    "tokenizer_of",
    "with_known_options",
]


def read_sizes(text: str | None) -> tuple[int, ...] | None:
    """1024-512-128 or 1024,512,128 as numbers."""
    from ..sids.sizes import as_sizes

    return None if text is None else as_sizes(text)


def read_options(pairs: list[str] | None) -> dict[str, Any]:
    """The NAME=VALUE pairs of --set. A value that is JSON is taken as such, else as text."""
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


def read_seeds(text: str) -> list[int]:
    """0,1,2 as numbers, or x3 for the first three from 0."""
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


def require_choice(option: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise SpecError(f"{option} must be one of {', '.join(choices)}, not {value!r}")


def tokenizer_of(recipe: str, options: dict[str, Any], spec: str | None = None) -> Tokenizer:
    """The tokenizer of a recipe with these options, or of a file with a spec (- for standard input)."""
    if spec is None:
        return _made(recipe, options)
    from ..tokenizer.spec import from_plain
    from ..tokenizer.tokenizer import Tokenizer

    if options:
        raise SpecError(f"--spec already says everything; leave out {', '.join(sorted(options))}")
    try:
        text = sys.stdin.read() if spec == "-" else Path(spec).read_text(encoding="utf-8")
        return Tokenizer(from_plain(json.loads(text)))
    except (OSError, ValueError, RecursionError) as error:
        raise SpecError(f"cannot read the spec {spec}: {error}") from error


def with_known_options(name: str, options: dict[str, Any]) -> Tokenizer:
    """A recipe with those of the options that it has. Every recipe takes sizes."""
    from inspect import signature

    from ..tokenizer.recipes import RECIPES

    known = signature(RECIPES[name]).parameters if name in RECIPES else options
    return _made(name, {key: value for key, value in options.items() if key in known or key == "sizes"})


def _made(name: str, options: dict[str, Any]) -> Tokenizer:
    """A recipe with options of the right types: they come from a command line, unchecked."""
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
        raise SpecError(f"cannot make {name} with {given}: {error.typed}") from None
    return made
