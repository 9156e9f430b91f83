"""sidkit: semantic IDs from embeddings.

import sidkit
fitted = sidkit.prq_kmeans(sizes=(256, 256, 256)).fit(X, seed=0)
codes = fitted.encode(X)
sidkit.quality(codes, fitted.sizes)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .embeddings import open_embeddings as open_embeddings
    from .errors import SidkitError as SidkitError
    from .given import Given as Given
    from .recipes import opq_kmeans as opq_kmeans
    from .recipes import pq_kmeans as pq_kmeans
    from .recipes import prq_kmeans as prq_kmeans
    from .recipes import prq_opq as prq_opq
    from .recipes import r3_vae as r3_vae
    from .recipes import res_kmeans_fsq as res_kmeans_fsq
    from .recipes import retain as retain
    from .recipes import rq_gmm as rq_gmm
    from .recipes import rq_kmeans as rq_kmeans
    from .recipes import rq_opq as rq_opq
    from .recipes import rq_vae as rq_vae
    from .recipes import without_global as without_global
    from .recipes import without_projection as without_projection
    from .recipes import without_soft as without_soft
    from .report.carryover import carryover as carryover
    from .report.metrics import quality as quality
    from .rows_ray import on_ray as on_ray
    from .sids import SidTable as SidTable
    from .store import load as load
    from .tokenizer import FittedTokenizer as FittedTokenizer
    from .tokenizer import Tokenizer as Tokenizer

__version__ = "0.1.0"

_HOMES = {  # every public name is imported when first used, so that `import sidkit` costs next to nothing
    "FittedTokenizer": "tokenizer",
    "Given": "given",
    "SidTable": "sids",
    "SidkitError": "errors",
    "Tokenizer": "tokenizer",
    "carryover": "report.carryover",
    "load": "store",
    "on_ray": "rows_ray",
    "open_embeddings": "embeddings",
    "prq_kmeans": "recipes",
    "quality": "report.metrics",
    "retain": "recipes",
    "r3_vae": "recipes",
    "rq_vae": "recipes",
    "res_kmeans_fsq": "recipes",
    "prq_opq": "recipes",
    "rq_opq": "recipes",
    "opq_kmeans": "recipes",
    "pq_kmeans": "recipes",
    "rq_gmm": "recipes",
    "rq_kmeans": "recipes",
    "without_global": "recipes",
    "without_projection": "recipes",
    "without_soft": "recipes",
}

__all__ = sorted([*_HOMES, "__version__"])


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'sidkit' has no attribute {name!r}")
    value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
