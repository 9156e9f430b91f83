"""Old import paths that were documented once, and where their names are now.

`from sidkit.blend import blend` keeps working: a finder makes a module whose names are looked up in the new homes, one
after the other. Python asks the finder only for modules that are no files.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["MOVED", "RENAMED", "install"]

MOVED: dict[str, tuple[str, ...]] = {
    "blend": ("embed.co_occurrence",),
    "cluster": ("stages.cluster",),
    "embeddings": ("data.embeddings",),
    "encoder": ("embed",),
    "given": ("tokenizer.given",),
    "level": ("stages.level",),
    "prepare": ("stages.prepare",),
    "product": ("stages.product", "stages.opq"),
    "recipes": ("tokenizer.recipes",),
    "report.behaviour": ("measure.behaviour",),
    "report.carryover": ("measure.carryover",),
    "report.categories": ("measure.categories",),
    "report.counting": ("measure.counting",),
    "report.metrics": ("sids.quality",),
    "report.neighbours": ("measure.neighbours",),
    "retriever.logits": ("decoding.transformers",),
    "scalar": ("stages.scalar",),
    "sequences": ("data.sequences",),
    "spec": ("tokenizer.spec",),
    "store": ("tokenizer.store", "tokenizer.tokenizer"),
    "template": ("sids.template",),
    "trie": ("sids.trie",),
    "vae": ("stages.vae", "tokenizer.vae_recipes"),
}
RENAMED = {"vae.fitted_rqvae": ("tokenizer.given", "Given", "rq_vae")}  # a name of an old module -> module, attributes


class _Finder(MetaPathFinder, Loader):
    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name.removeprefix("sidkit.") in MOVED and name.startswith("sidkit.") else None

    def exec_module(self, module: ModuleType) -> None:
        old = module.__name__.removeprefix("sidkit.")

        def look_up(name: str) -> Any:
            if f"{old}.{name}" in RENAMED:
                home, *attributes = RENAMED[f"{old}.{name}"]
                value: Any = import_module(f"sidkit.{home}")
                for attribute in attributes:
                    value = getattr(value, attribute)
                return value
            for home in MOVED[old]:
                if hasattr(new := import_module(f"sidkit.{home}"), name):
                    return getattr(new, name)
            homes = ", ".join(f"sidkit.{home}" for home in MOVED[old])
            raise AttributeError(f"{module.__name__} has moved to {homes}, which has no {name!r}")

        module.__getattr__ = look_up  # type: ignore[method-assign]


def install() -> None:
    """Let Python find the old paths, after all files."""
    sys.meta_path.append(_Finder())
