"""Shards add up to the bits of one machine."""

import numpy as np
import pytest

from sidkit.fleet.shards import Shard, add_shards, plan
from sidkit.rows.seam import add_in_tree


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 6, 7, 10, 48])
@pytest.mark.parametrize("chunks", [1, 2, 7, 61, 123, 1000])
def test_shards_add_up_to_the_bits_of_one_machine(chunks, workers):
    parts = np.random.default_rng(chunks).normal(size=(chunks, 50)) * 10.0 ** np.arange(50)
    total = add_in_tree(((part,) for part in parts), chunks)[0]
    by_worker = plan(chunks, workers)
    shards = [shard for shards in by_worker for shard in shards]
    assert [row for shard in shards for row in range(*shard)] == list(range(chunks))
    sums = {s: add_in_tree(((part,) for part in parts[s.first : s.last]), s.last - s.first)[0] for s in shards}
    assert np.array_equal(add_shards(Shard(0, chunks), sums, np.add), total)
    if chunks >= 10 * workers:
        most = max(sum(shard.last - shard.first for shard in shards) for shards in by_worker)
        assert most * workers <= 1.25 * chunks
    if workers in (1, 2, 4) and chunks >= workers:
        assert [len(shards) for shards in by_worker] == [1] * workers
