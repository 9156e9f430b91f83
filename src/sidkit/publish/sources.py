"""What can be appended: files of SIDs, read batch by batch, or embeddings, which are encoded first."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..progress import Progress, Silent
from ..sids.policies import Occupied, Policy, Resolved
from ..sids.shards import open_shards
from ..tokenizer.spread import copied_if_slow, require_spreadable, resolve_rows
from .incoming import ToAppend
from .new_items import require_resolver

if TYPE_CHECKING:
    from ..data.source import Embeddings
    from ..tokenizer.tokenizer import FittedTokenizer
    from .registry import Registry

__all__ = ["from_embeddings", "from_sids"]

BATCH = 1 << 17  # rows


def from_sids(
    registry: Registry,
    path: str | PathLike[str],
    policy: Policy,
    digest: str | None = None,
    progress: Progress | None = None,
) -> ToAppend:
    """The SIDs in files. They must be noted as made by the tokenizer of this digest, or say nothing of the kind."""
    require_resolver(policy, None)
    shards, latest = open_shards(path, registry.sizes), registry.generation()
    made_by, wanted = shards.origin.tokenizer_digest, digest or latest.digest
    if made_by and made_by != wanted:
        raise InputError(
            f"{path} was made by the tokenizer {shards.origin.tokenizer} ({made_by}), but {registry.name} is for "
            f"{latest.tokenizer} ({latest.digest}); if the two are aligned, append with --tokenizer and --adopt"
        )
    (progress or Silent()).start("append", shards.rows)
    return ToAppend(shards.batches(BATCH), policy)


def from_embeddings(
    fitted: FittedTokenizer,
    source: Embeddings,
    policy: Policy,
    weights: NDArray[np.float64] | None = None,
    device: str = "auto",
    progress: Progress | None = None,
) -> ToAppend:
    """The SIDs of embeddings. weights: the popularity of every row, for the policy 'popular'."""
    report, rows = progress or Silent(), source
    if policy.needs_costs:
        require_spreadable(fitted)
        rows = copied_if_slow(source, fitted.d, None, report)
    codes = fitted.encode(rows, device=device, progress=report)
    report.start("append", len(codes))

    def batches() -> Iterator[tuple[Any, NDArray[np.int32]]]:
        for start in range(0, len(codes), BATCH):
            yield source.ids[start : start + BATCH], codes[start : start + BATCH]

    def resolver(new: NDArray[np.int32], numbers: NDArray[np.int64], taken: Occupied) -> Resolved:
        chosen = None if weights is None else weights[numbers]
        return resolve_rows(fitted, rows, new, policy, taken, chosen, numbers, report)

    return ToAppend(batches(), policy, resolver if policy.needs_costs else None)
