"""docs/api.md, generated from docstrings: python -m sidkit.cli.api > docs/api.md

Signatures and docstrings are those of the code. A name joins the page by joining `PARTS`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from itertools import groupby
from typing import Any

from ..tokenizer.recipes import RECIPES

__all__ = ["PARTS", "api_reference"]

OPENING = """# The Python reference

Every public name, with its docstring. `python -m sidkit.cli.api > docs/api.md` generates this page, and a test checks
that it is up to date. [Python and notebooks](python.md) is a tour with examples.
"""
RECIPE_NAMES = tuple(make.__name__ for make in RECIPES.values())
PARTS: dict[str, tuple[str, tuple[str, ...]]] = {  # heading -> module and names
    "Recipes": ("sidkit", RECIPE_NAMES),
    "Tokenizers": ("sidkit", ("Tokenizer", "FittedTokenizer", "load", "Given", "on_ray")),
    "Tables and figures": ("sidkit", ("SidTable", "quality", "carryover", "SidkitError")),
    "Data": ("sidkit", ("open_embeddings",)),
    "Sequences": ("sidkit.data.sequences", ("Sequences", "read_sequences")),
    "Reports": ("sidkit.report.evidence", ("gather", "Evidence")),
    "Report pages": ("sidkit.report.page", ("report_page",)),
    "Judging": ("sidkit.measure.judge", ("judge",)),
    "Behaviour": ("sidkit.measure.behaviour", ("prefix_agreement",)),
    "Neighbours": ("sidkit.measure.neighbours", ("neighbour_agreement",)),
    "Counting": ("sidkit.measure.counting", ("counted", "counted_by_token")),
    "Encoders of texts": ("sidkit.embed", ("choose", "load", "Encoder")),
    "Co-occurrence": ("sidkit.embed.co_occurrence", ("co_occurrence", "blend")),
    "scikit-learn": ("sidkit.sklearn", ("SemanticIds",)),
    "Recommending": (
        "sidkit.retriever",
        ("train", "train_seeds", "Plan", "Shape", "Retriever", "Recommendation", "SidSequences"),
    ),
    "Prefix tries": ("sidkit.sids.trie", ("Trie",)),
    "Constrained decoding": ("sidkit.decoding.transformers", ("SidLogitsProcessor",)),
    "Tokens in texts": ("sidkit.decoding.tokens", ("SidTokens",)),
    "Shops for search": ("sidkit.search.shop", ("Shop",)),
    "Simulated shops": ("sidkit.search.simulate", ("ShopPlan", "simulate_shop")),
    "Exports": ("sidkit.export.job", ("export", "check_export")),
    "What is exported, and where to": ("sidkit.export.target", ("ExportJob", "ExportTarget", "ExportOption")),
    "Published SIDs": ("sidkit.publish.registry", ("open_registry", "Registry")),
}


def api_reference() -> str:
    """The page: a list of the names, then each with its signature and docstring."""
    parts, lines = [], []
    for heading, (module, names) in PARTS.items():
        home = import_module(module)
        links = ", ".join(f"[`{name}`](#{_anchor(module, name)})" for name in names)
        lines.append(f"- {heading} (`{module}`): {links}")
        parts.append(f"## {heading}\n")
        parts += [_entry(module, name, getattr(home, name)) for name in names]
    return "\n".join([OPENING, *lines, "", *parts])


def _anchor(module: str, name: str) -> str:
    return f"{module}.{name}".replace(".", "").lower()


def _entry(module: str, name: str, value: Any) -> str:
    """A function, or a class with its public methods."""
    text = f"### {module}.{name}\n\n```python\n{_signature(name, value)}\n```\n\n{_document(value)}"
    members = [] if not inspect.isclass(value) else [_member(name, *one) for one in _members(value)]
    return "\n".join([text, *members])


def _members(kind: type) -> Iterator[tuple[str, Any]]:
    """What a class defines itself, or inherits from another class of sidkit: public, and with a docstring."""
    seen: set[str] = set()
    for home in kind.__mro__:
        if not home.__module__.startswith("sidkit"):
            continue
        for name, value in vars(home).items():
            inner = getattr(value, "__func__", value)
            inner = getattr(inner, "func", inner)  # a cached property
            documented = inspect.getdoc(inner.fget if isinstance(inner, property) else inner)
            callable_ = inspect.isfunction(inner) or isinstance(value, property) or hasattr(value, "func")
            if not name.startswith("_") and name not in seen and callable_ and documented:
                seen.add(name)
                yield name, value


def _member(owner: str, name: str, value: Any) -> str:
    inner = getattr(value, "__func__", value)
    if isinstance(inner, property) or hasattr(inner, "func"):
        function = inner.fget if isinstance(inner, property) else inner.func
        return f"**`{owner}.{name}`**\n\n{_document(function)}"
    return f"```python\n{owner}.{_signature(name, inner)}\n```\n\n{_document(inner)}"


def _signature(name: str, value: Any) -> str:
    """name(a, b=1), without self, an argument per line where they are many; types as they are written."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return name
    own = [one for one in signature.parameters.values() if one.name not in ("self", "cls")]
    star = next((i for i, one in enumerate(own) if one.kind is one.KEYWORD_ONLY), None)
    words = [_parameter(one) for one in own]
    if star is not None and not any(one.kind is one.VAR_POSITIONAL for one in own):
        words.insert(star, "*")
    gives = signature.return_annotation
    end = "" if gives is inspect.Signature.empty or inspect.isclass(value) else f" -> {_type(gives)}"
    line = f"{name}({', '.join(words)}){end}"
    return line if len(line) <= 100 else f"{name}(\n    " + ",\n    ".join(words) + f",\n){end}"


def _parameter(one: inspect.Parameter) -> str:
    """An argument with its type and default. Addresses of objects in memory would differ on every run."""
    start = "*" if one.kind is one.VAR_POSITIONAL else "**" if one.kind is one.VAR_KEYWORD else ""
    kind = "" if one.annotation is one.empty else f": {_type(one.annotation)}"
    if one.default is one.empty:
        return f"{start}{one.name}{kind}"
    default = re.sub(r"<factory>|<.* at 0x[0-9a-f]+>", "...", repr(one.default))
    return f"{start}{one.name}{kind} = {default}" if kind else f"{start}{one.name}={default}"


def _type(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _document(value: Any) -> str:
    """The docstring: paragraphs as text; formulas and lists, which have runs of blanks, as they are written."""
    paragraphs = (inspect.getdoc(value) or "").split("\n\n")
    parts: list[str] = []
    for kept, some in groupby(paragraphs, lambda text: bool(re.search(r"^ |\S  +\S", text, re.M))):
        same = list(some)
        parts += ["```text\n" + "\n\n".join(same) + "\n```"] if kept else [_prose(text) for text in same]
    return "\n\n".join(parts) + "\n"


def _prose(text: str) -> str:
    """One paragraph for Markdown, with its signs escaped outside of backticks."""
    parts = re.split("(`[^`]*`)", " ".join(text.split()))
    return "".join(part if part.startswith("`") else re.sub(r"([<*_])", r"\\\1", part) for part in parts)


if __name__ == "__main__":
    print(api_reference(), end="")
