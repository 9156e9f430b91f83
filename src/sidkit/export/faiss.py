"""faiss indexes: the items' codes with the codebooks that decode them, or the codebooks alone.

    IndexResidualQuantizer     plain RQ-KMeans: centroids are subtracted, sizes are powers of two
    IndexPQ                    PQ and OPQ with equal sizes, which are powers of two
    IndexPreTransform          before either: rows of length one, the mean projected out, the rotation of OPQ

What faiss calls PRQ is a product of residual quantizers; PRQ-KMeans has no counterpart in faiss.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, need
from ..geometry import unit
from ..stages.cluster.kmeans import Centroids
from ..stages.level import FittedLevel
from ..stages.prepare import FittedNormalize, FittedRemoveMean
from ..stages.product import FittedProduct
from .codebooks import why_not_residual
from .faiss_import import read_faiss
from .streams import batches, write_item_ids
from .target import ExportJob, ExportOption, ExportTarget

if TYPE_CHECKING:
    from ..tokenizer.tokenizer import FittedTokenizer

__all__ = ["TARGET"]

LEVELS = ExportOption("levels", bool, False, "write one flat index per codebook instead, to search codewords with")


def write(job: ExportJob, folder: Path) -> None:
    faiss, fitted = need("faiss", "faiss", "writing faiss indexes"), job.tokenizer
    if job.options["levels"]:
        _write_levels(faiss, fitted, folder)
        job.note("codebooks alone: faiss finds the nearest codewords of a residual, and residuals are sidkit's to make")
        return
    before, stages = _transforms(faiss, fitted)
    if len(stages) == 1 and isinstance(stages[0], FittedProduct):
        index, turn = _product(faiss, fitted, stages[0])
        before += turn
    else:
        index = _residual(faiss, fitted, stages)
    if job.sids is not None:
        bits = [int(size).bit_length() - 1 for size in fitted.sizes]
        for rows in batches(job.sids, job.progress):
            index.add_sa_codes(_packed(rows.codes, bits))
        write_item_ids(folder, job.sids)
    if before:
        index = faiss.IndexPreTransform(index)
        for transform in reversed(before):
            index.prepend_transform(transform)
    faiss.write_index(index, str(folder / "index.faiss"))
    if fitted.dtype != "float32":
        job.note(f"codebooks are {fitted.dtype}, and faiss computes in float32: rows between two centroids may differ")


def _refused(fitted: FittedTokenizer, reason: str) -> InputError:
    return InputError(
        f"{fitted.spec.name or 'this tokenizer'} has no counterpart in faiss: {reason}. Export to onnx, which holds "
        "the whole encoding, or its codebooks alone with --set levels=true"
    )


def _transforms(faiss: Any, fitted: FittedTokenizer) -> tuple[list[Any], tuple[Any, ...]]:
    """What faiss does to a row before it is quantized, and the stages that are left."""
    before, stages = [], list(fitted.stages)
    while stages and isinstance(stages[0], FittedNormalize | FittedRemoveMean):
        stage = stages.pop(0)
        if isinstance(stage, FittedRemoveMean):
            mean = np.asarray(stage.mean, np.float64)
            square = float(mean @ mean)
            project = np.eye(fitted.d) - (np.outer(mean, mean) / square if square else 0.0)
            before.append(_linear(faiss, project, np.zeros(fitted.d)))
        before.append(faiss.NormalizationTransform(fitted.d, 2.0))
    return before, tuple(stages)


def _linear(faiss: Any, matrix: NDArray[Any], shift: NDArray[Any]) -> Any:
    """y = matrix x + shift."""
    transform = faiss.LinearTransform(matrix.shape[1], matrix.shape[0], True)
    faiss.copy_array_to_vector(np.ascontiguousarray(matrix, np.float32).ravel(), transform.A)
    faiss.copy_array_to_vector(np.ascontiguousarray(shift, np.float32), transform.b)
    transform.is_trained = True
    return transform


def _bits(fitted: FittedTokenizer) -> list[int]:
    bits = [int(size).bit_length() - 1 for size in fitted.sizes]
    if any(2**bit != size for bit, size in zip(bits, fitted.sizes, strict=True)):
        sizes = "-".join(map(str, fitted.sizes))
        raise InputError(f"faiss packs codes in bits, so sizes must be powers of two; these are {sizes}")
    return bits


def _residual(faiss: Any, fitted: FittedTokenizer, stages: tuple[Any, ...]) -> Any:
    strange = next((type(stage).__name__ for stage in stages if not isinstance(stage, FittedLevel)), None)
    reason = f"{strange.removeprefix('Fitted')} is no level of centroids" if strange else why_not_residual(stages)
    if reason:
        raise _refused(fitted, reason)
    bits = faiss.UInt64Vector()
    for bit in _bits(fitted):
        bits.push_back(bit)
    index = faiss.IndexResidualQuantizer(fitted.d, bits)
    books = np.concatenate([np.asarray(stage.codebooks[0], np.float32) for stage in stages])
    faiss.copy_array_to_vector(books.ravel(), index.rq.codebooks)
    index.rq.max_beam_size = 1  # faiss's default of 5 gives other codes
    index.rq.is_trained = index.is_trained = True
    index.rq.compute_codebook_tables()
    return index


def _product(faiss: Any, fitted: FittedTokenizer, stage: FittedProduct) -> tuple[Any, list[Any]]:
    """The index, and the rotation before it."""
    bits = set(_bits(fitted))
    if len(bits) != 1 or fitted.d % len(stage.books):
        sizes = "-".join(map(str, fitted.sizes))
        raise _refused(fitted, f"its product quantizer has equal blocks and sizes; these are {sizes} of {fitted.d}")
    index = faiss.IndexPQ(fitted.d, len(stage.books), bits.pop())
    books = np.concatenate([np.asarray(book, np.float32).ravel() for book in stage.books])
    faiss.copy_array_to_vector(books, index.pq.centroids)
    index.is_trained = True
    if stage.rotation is None or stage.mean is None:
        return index, []
    turn = np.asarray(stage.rotation, np.float64)
    return index, [_linear(faiss, turn, -turn @ np.asarray(stage.mean, np.float64))]


def _packed(codes: NDArray[np.int32], bits: list[int]) -> NDArray[np.uint8]:
    """Codes as faiss stores them: bit strings, level 0 in the low bits, little-endian, rows in whole bytes."""
    digits = [(codes[:, level, None] >> np.arange(bit)) & 1 for level, bit in enumerate(bits)]
    return np.packbits(np.concatenate(digits, axis=1).astype(np.uint8), axis=1, bitorder="little")


def _write_levels(faiss: Any, fitted: FittedTokenizer, folder: Path) -> None:
    """A flat index per level, by inner product for cosine levels, whose centroids then have length one."""
    levels = [stage for stage in fitted.stages if isinstance(stage, FittedLevel)]
    if len(levels) != len(fitted.sizes) or not all(isinstance(level.clusters, Centroids) for level in levels):
        raise _refused(fitted, "not every token has one codebook of centroids")
    for number, level in enumerate(levels, 1):
        assert isinstance(level.clusters, Centroids)
        book, cosine = np.asarray(level.clusters.centroids, np.float32), level.clusters.metric == "cosine"
        index = (faiss.IndexFlatIP if cosine else faiss.IndexFlatL2)(fitted.d)
        index.add(np.ascontiguousarray(unit(book) if cosine else book))
        faiss.write_index(index, str(folder / f"level_{number}.faiss"))


TARGET = ExportTarget(
    "faiss",
    "faiss",
    "index.faiss: the codebooks and, with SIDs, the items' codes; item_ids.parquet",
    write,
    (LEVELS,),
    read_faiss,
    "an IndexResidualQuantizer or IndexPQ with codes",
)
