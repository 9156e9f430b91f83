"""Old import paths that were documented once, and where what they held lives now.

`from sidkit.blend import blend` keeps working: a finder makes an alias module whose names are looked up in the new
homes, one after the other. Only what is not found as a file comes here.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["MOVED", "install"]

MOVED: dict[str, tuple[str, ...]] = {
    "blend": ("embed.co_occurrence",),
    "cluster": ("stages.cluster",),
    "embeddings": ("data.embeddings",),
    "encoder": ("embed",),
    "given": ("tokenizer.given",),
    "level": ("stages.level",),
    "prepare": ("stages.prepare",),
    "product": ("stages.product",),
    "recipes": ("tokenizer.recipes",),
    "report.behaviour": ("measure.behaviour",),
    "report.carryover": ("measure.carryover",),
    "report.categories": ("measure.categories",),
    "report.counting": ("measure.counting",),
    "report.metrics": ("sids.quality",),
    "report.neighbours": ("measure.neighbours",),
    "scalar": ("stages.scalar",),
    "sequences": ("data.sequences",),
    "spec": ("tokenizer.spec",),
    "store": ("tokenizer.store", "tokenizer.tokenizer"),
    "template": ("sids.template",),
    "trie": ("sids.trie",),
    "vae": ("stages.vae", "tokenizer.vae_recipes", "tokenizer.given_vae"),
}


class _Finder(MetaPathFinder, Loader):
    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name.removeprefix("sidkit.") in MOVED and name.startswith("sidkit.") else None

    def exec_module(self, module: ModuleType) -> None:
        homes = [f"sidkit.{home}" for home in MOVED[module.__name__.removeprefix("sidkit.")]]

        def find(name: str) -> Any:
            for home in homes:
                if hasattr(found := import_module(home), name):
                    return getattr(found, name)
            raise AttributeError(f"{module.__name__} has moved to {', '.join(homes)}, which has no {name!r}")

        module.__getattr__ = find  # type: ignore[method-assign]


def install() -> None:
    """Let the old paths be found, after all files."""
    sys.meta_path.append(_Finder())
