"""Test data whose answer is known in advance."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def planted(rng, clusters=8, each=40, d=16, noise=0.05):
    """Rows around `clusters` random directions, and which one each row belongs to."""
    centres = rng.normal(size=(clusters, d))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    label = np.repeat(np.arange(clusters), each)
    return centres[label] + noise * rng.normal(size=(clusters * each, d)), label


def written(path, x, name="item_id", ids=None, **columns):
    """Write rows to a Parquet file, with ids from 0 on unless they are given, and more columns; its path."""
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.asarray(x, np.float32).ravel()), x.shape[1])
    ids = list(range(len(x))) if ids is None else ids
    pq.write_table(pa.table({name: ids, **columns, "embedding": vectors}), path)
    return path
