"""Encoding window by window; the codes of each are saved on disk, so that a killed run resumes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..data.inputs import as_rows, as_source
from ..engine.device import choose_device
from ..files.checkpoint import Checkpoint
from ..progress import Progress
from ..rows.checks import Checked
from ..rows.run_report import ran_on
from ..rows.seam import Rows
from ..rows.sources import Window
from .fingerprint import DIGEST_ROWS, content_digest, embeddings_digest, fingerprint_of, spaced_rows
from .spec import to_plain

if TYPE_CHECKING:
    from .tokenizer import FittedTokenizer

__all__ = ["encode_in_windows", "identity_of"]

WINDOW = 1 << 20  # rows that a killed run loses at most


def encode_in_windows(
    fitted: FittedTokenizer,
    X: Any,
    device: str,
    report: Progress,
    folder: str | Path,
    ran: dict[str, Any] | None = None,
    digests: dict[str, str] | None = None,
) -> tuple[Rows, NDArray[np.int32]]:
    """All rows and their tokens; the tokens of windows that are in the folder are not computed again.

    ran is filled with the device that computed the others, if it is given and there were any; digests with that of the
    embeddings.
    """
    source = Checked(as_source(X), np.dtype(fitted.dtype))
    rows = as_rows(source, "cpu", report, d=fitted.d, check="done")
    device = choose_device(device, source, sum(fitted.sizes) if fitted.dtype == "float32" else 0.0)
    sample = spaced_rows(rows, DIGEST_ROWS)
    checkpoint = Checkpoint(folder, identity_of(fitted, fingerprint_of(sample, rows.shape) + content_digest(source)))
    if digests is not None:
        digests["embeddings"] = embeddings_digest(sample, rows.shape)
    out = np.empty((source.shape[0], len(fitted.sizes)), np.int32)
    rows.prepare(float(sum(fitted.sizes)) * rows.shape[0] * rows.shape[1])
    report.start("encode", len(out))
    for start in range(0, len(out), WINDOW):
        window = Window(source, start, min(start + WINDOW, len(out)))
        saved = checkpoint.load(f"rows-{start}")
        if saved is None:
            encoded = as_rows(window, device, report, np.dtype(fitted.dtype), fitted.d, check="done").map(fitted.chain)
            codes = encoded.codes()
            if ran is not None:
                ran.update(ran_on(encoded, encoding=True))
            checkpoint.save(f"rows-{start}", {"codes": codes}, {})
        else:
            with checkpoint.using(f"rows-{start}"):
                codes = _stored_codes(saved[0]["codes"], window.shape[0], fitted.sizes)
            report.advance(len(codes))
        out[start : window.stop] = codes
    return rows, out


def _stored_codes(codes: NDArray[Any], n: int, sizes: Sequence[int]) -> NDArray[np.int32]:
    if codes.dtype != np.int32 or codes.shape != (n, len(sizes)):
        raise ValueError(f"codes are {codes.dtype} {codes.shape}, not int32 {(n, len(sizes))}")
    if ((codes < 0) | (codes >= np.array(sizes))).any():
        raise ValueError(f"codes lie outside {'-'.join(map(str, sizes))}")
    return codes


def identity_of(fitted: FittedTokenizer, data: str) -> str:
    """What must be unchanged for an encoding of this data to resume."""
    weights = hashlib.sha256()
    for stage in fitted.stages:
        for name, array in sorted(stage.arrays.items()):
            weights.update(name.encode() + np.ascontiguousarray(array).tobytes())
    return json.dumps([to_plain(fitted.spec.stages), fitted.dtype, weights.hexdigest(), data, WINDOW])
