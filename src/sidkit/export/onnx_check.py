"""Whether a graph gives the codes of the library, and where it does not, whether float32 could have known."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..data.inputs import as_source
from ..errors import need
from ..progress import Progress, Silent

if TYPE_CHECKING:
    from ..tokenizer.tokenizer import FittedTokenizer

__all__ = ["agreement", "near_tie"]

CHUNK = 1 << 16  # rows that the library encodes at once
BATCH = 1 << 12  # rows that the graph does; a level with a codebook per parent takes much memory a row
NEAR = 1e-5  # a lead over the second best, relative to the scores' range, that rounding may turn around


def agreement(fitted: FittedTokenizer, path: str | Path, X: Any, progress: Progress | None = None) -> dict[str, Any]:
    """Rows, rows whose codes differ, and how many of these differ first at a near-tie."""
    runtime = need("onnxruntime", "onnx", "checking a graph")
    progress = progress or Silent()
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    source = as_source(X)
    rows = differ = ties = 0
    first: list[int] = []
    progress.start("check", source.shape[0])
    for chunk in source.chunks(CHUNK):
        x = np.ascontiguousarray(chunk, fitted.dtype)
        ours = fitted.encode(x, device="cpu")
        parts = [session.run(["codes"], {"x": x[at : at + BATCH]})[0] for at in range(0, len(x), BATCH)]
        theirs = np.concatenate(parts)
        wrong = np.flatnonzero((ours != theirs).any(axis=1))
        for row in wrong:
            ties += near_tie(fitted, x[row], ours[row], theirs[row])
            first.append(rows + int(row))
        rows, differ = rows + len(x), differ + len(wrong)
        progress.advance(len(x))
    return {"rows": rows, "differ": differ, "near_ties": ties, "first_rows": first[:20]}


def near_tie(fitted: FittedTokenizer, x: NDArray[Any], ours: NDArray[Any], theirs: NDArray[Any]) -> bool:
    """Whether two codings of a row part at a stage to which a change of x within rounding gives either code.

    Judged by the library itself: the row is nudged by float32's rounding, and its codes are looked at again.
    """
    rng = np.random.default_rng(0)
    size = np.abs(x).max() * NEAR
    nudged = x[None, :] + rng.uniform(-size, size, (64, len(x)))
    codes = fitted.encode(np.ascontiguousarray(nudged, fitted.dtype), device="cpu")
    level = int(np.argmax(ours != theirs))
    return bool((codes[:, : level + 1] == theirs[: level + 1]).all(axis=1).any())
