"""Codebooks that other readers take: those that they use as sidkit does, and the reason where they do not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from ..errors import InputError
from ..stages.cluster.kmeans import Centroids
from ..stages.level import FittedLevel
from ..stages.prepare import FittedNormalize, FittedRemoveMean

if TYPE_CHECKING:
    from ..tokenizer.tokenizer import FittedTokenizer

__all__ = ["residual_codebooks", "why_not_residual"]


def residual_codebooks(fitted: FittedTokenizer, reader: str, instead: str) -> list[NDArray[Any]]:
    """The codebooks of plain residual k-means, (K, d) each, for a reader that takes the nearest and subtracts it.

    Every other tokenizer is refused: the reader would load its codebooks without complaint and give other codes.
    instead: what the user can do.
    """
    for stage in fitted.stages:
        reason = "" if isinstance(stage, FittedLevel) else _preparation(stage)
        if reason:
            raise _refused(fitted, reader, reason, instead)
    reason = why_not_residual(fitted.stages)
    if reason:
        raise _refused(fitted, reader, reason, instead)
    return fitted.codebooks


def why_not_residual(stages: tuple[Any, ...]) -> str:
    """Why levels are not decided by the least distance and the centroid subtracted; '' if they are."""
    levels = [stage for stage in stages if isinstance(stage, FittedLevel)]
    for number, level in enumerate(levels, 1):
        clusters, rule, last = level.clusters, level.spec.rule, number == len(levels)
        if not isinstance(clusters, Centroids) or clusters.bonus is not None:
            return f"level {number} is decided by {type(level.spec.cluster).__name__}, not by distance alone"
        if clusters.metric != "euclidean":
            return f"level {number} is decided by the cosine"
        if last:
            continue  # what it passes on, nobody reads
        if rule.keep != 1.0:
            how = "projects the centroid out" if rule.keep == 0.0 else f"keeps {rule.keep:g} of its carryover"
            return f"level {number} {how} (keep = {rule.keep:g}), where the reader subtracts it"
        if rule.normalize:
            return f"level {number} scales residuals to length one"
    return ""


def _preparation(stage: Any) -> str:
    if isinstance(stage, FittedNormalize):
        return "rows are scaled to length one first"
    if isinstance(stage, FittedRemoveMean):
        return "the mean is projected out first"
    return f"it has a stage of another kind ({type(stage).__name__.removeprefix('Fitted')})"


def _refused(fitted: FittedTokenizer, reader: str, reason: str, instead: str) -> InputError:
    name = fitted.spec.name or "this tokenizer"
    return InputError(
        f"the codebooks of {name} cannot travel to {reader}, which takes the nearest centroid and subtracts it: "
        f"{reason}, so the codes would differ. {instead}"
    )
