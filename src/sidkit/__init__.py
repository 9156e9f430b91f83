"""sidkit: semantic IDs from embeddings.

import sidkit
fitted = sidkit.prq_kmeans(sizes=(256, 256, 256)).fit(X, seed=0)
codes = fitted.encode(X)
sidkit.quality(codes, fitted.sizes)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .moved import MOVED, install

if TYPE_CHECKING:
    from .data.embeddings import open_embeddings as open_embeddings
    from .errors import SidkitError as SidkitError
    from .fleet.open import on_ray as on_ray
    from .measure.carryover import carryover as carryover
    from .sids.quality import quality as quality
    from .sids.table import SidTable as SidTable
    from .tokenizer.given import Given as Given
    from .tokenizer.recipes import opq_kmeans as opq_kmeans
    from .tokenizer.recipes import pq_kmeans as pq_kmeans
    from .tokenizer.recipes import prq_kmeans as prq_kmeans
    from .tokenizer.recipes import prq_opq as prq_opq
    from .tokenizer.recipes import r3_vae as r3_vae
    from .tokenizer.recipes import res_kmeans_fsq as res_kmeans_fsq
    from .tokenizer.recipes import retain as retain
    from .tokenizer.recipes import rq_gmm as rq_gmm
    from .tokenizer.recipes import rq_kmeans as rq_kmeans
    from .tokenizer.recipes import rq_opq as rq_opq
    from .tokenizer.recipes import rq_vae as rq_vae
    from .tokenizer.recipes import without_global as without_global
    from .tokenizer.recipes import without_projection as without_projection
    from .tokenizer.recipes import without_soft as without_soft
    from .tokenizer.tokenizer import FittedTokenizer as FittedTokenizer
    from .tokenizer.tokenizer import Tokenizer as Tokenizer
    from .tokenizer.tokenizer import load as load

__version__ = "0.1.0"

_HOMES = {  # every public name is imported when first used, so that `import sidkit` costs next to nothing
    "FittedTokenizer": "tokenizer.tokenizer",
    "Given": "tokenizer.given",
    "SidTable": "sids.table",
    "SidkitError": "errors",
    "Tokenizer": "tokenizer.tokenizer",
    "carryover": "measure.carryover",
    "load": "tokenizer.tokenizer",
    "on_ray": "fleet.open",
    "open_embeddings": "data.embeddings",
    "prq_kmeans": "tokenizer.recipes",
    "quality": "sids.quality",
    "retain": "tokenizer.recipes",
    "r3_vae": "tokenizer.recipes",
    "rq_vae": "tokenizer.recipes",
    "res_kmeans_fsq": "tokenizer.recipes",
    "prq_opq": "tokenizer.recipes",
    "rq_opq": "tokenizer.recipes",
    "opq_kmeans": "tokenizer.recipes",
    "pq_kmeans": "tokenizer.recipes",
    "rq_gmm": "tokenizer.recipes",
    "rq_kmeans": "tokenizer.recipes",
    "without_global": "tokenizer.recipes",
    "without_projection": "tokenizer.recipes",
    "without_soft": "tokenizer.recipes",
}

__all__ = sorted([*_HOMES, "__version__"])


install()


def __getattr__(name: str) -> Any:
    if name in MOVED:
        return import_module(f".{name}", __name__)
    if name not in _HOMES:
        raise AttributeError(f"module 'sidkit' has no attribute {name!r}")
    value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
