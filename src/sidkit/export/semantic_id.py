"""semantic-id's folder of an RQKMeans: metadata.json and codebooks.npz."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from .codebooks import residual_codebooks
from .target import ExportJob, ExportTarget

__all__ = ["TARGET"]


def write(job: ExportJob, folder: Path) -> None:
    fitted = job.tokenizer
    books = residual_codebooks(fitted, "semantic-id", "Export to onnx, which holds the whole encoding")
    metadata = {
        "type": "RQKMeans",
        "n_levels": len(books),
        "n_clusters": [len(book) for book in books],
        "D": fitted.d,
        "metric": "l2",
        "implementation": "kmeans",
        "max_iter": 100,
        "tol": 1e-4,
        "random_state": fitted.seed,
        "n_init": None,
    }
    (folder / "metadata.json").write_text(json.dumps(metadata, indent=2) + "\n", encoding="utf-8")
    arrays = {f"codebook_{level}": np.ascontiguousarray(book, np.float32) for level, book in enumerate(books)}
    np.savez(folder / "codebooks.npz", **arrays)  # type: ignore[arg-type]
    if fitted.dtype != "float32":
        job.note(f"codebooks are {fitted.dtype}, and semantic-id reads float32: rows between two centroids may differ")


TARGET = ExportTarget(
    "semantic-id", "semantic-id", "metadata.json, codebooks.npz: the codebooks of plain RQ-KMeans (--tokenizer)", write
)
