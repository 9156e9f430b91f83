"""python -m sidkit.export.faiss_child INDEX OUT: the codes of a faiss index as plain arrays, in a separate process."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["main"]

SPARE = 4 << 30  # bytes of memory beyond four times the file


def main(path: str, result: str) -> str:
    """Write codes (n, bytes), bits (levels,) and ids (n,); a reason if that cannot be done."""
    import faiss

    _limit_memory(4 * Path(path).stat().st_size + SPARE)
    try:
        owner = faiss.read_index(path)  # which frees what the views of it below refer to
        index: Any = faiss.downcast_index(owner)
    except (RuntimeError, MemoryError) as error:
        return str(error).splitlines()[-1]
    ids = None
    while type(index).__name__ in ("IndexIDMap", "IndexIDMap2", "IndexPreTransform"):
        if hasattr(index, "id_map"):
            ids = faiss.vector_to_array(index.id_map)
        index = faiss.downcast_index(index.index)
    kind = type(index).__name__
    if kind == "IndexResidualQuantizer":
        bits = [int(index.rq.nbits.at(level)) for level in range(index.rq.M)]
    elif kind == "IndexPQ":
        bits = [int(index.pq.nbits)] * int(index.pq.M)
    else:
        return f"a {kind} holds no codes of levels; an IndexResidualQuantizer or an IndexPQ is read"
    width = (sum(bits) + 7) // 8
    codes = faiss.vector_to_array(index.codes)
    if not 0 < max(bits, default=0) < 32 or len(codes) != index.ntotal * width or int(index.code_size) != width:
        return f"its {len(codes)} bytes of codes do not fit {index.ntotal} rows of {bits} bits"
    ids = np.arange(index.ntotal) if ids is None else ids
    if len(ids) != index.ntotal:
        return f"it has {len(ids)} ids for {index.ntotal} rows"
    np.savez(result, codes=codes.reshape(-1, width), bits=np.array(bits), ids=ids)
    return ""


def _limit_memory(most: int) -> None:
    """No more memory than this from now on, beside what is taken already; where the system can limit it."""
    try:
        import resource
    except ImportError:
        return
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if Path("/proc/self/statm").exists() else 0
    used = pages * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = used + most if hard == resource.RLIM_INFINITY else min(used + most, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


if __name__ == "__main__":
    reason = main(sys.argv[1], sys.argv[2])
    if reason:
        print(reason, file=sys.stderr)
        sys.exit(1)
