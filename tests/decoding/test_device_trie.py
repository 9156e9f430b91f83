"""Tries on a device: the two ways of finding a child agree with a dictionary, for one run and for several."""

import numpy as np
import pytest

from sidkit.sids.trie import Trie
from sidkit.sids.vocabulary import Vocabulary

torch = pytest.importorskip("torch")

from sidkit.decoding.device_trie import DeviceTrie  # noqa: E402

SIZES = (5, 7, 6)


@pytest.mark.parametrize("runs", [1, 3])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_children_by_halving_and_by_key_are_those_of_the_sids(rng, runs, dtype):
    all_codes = [np.stack([rng.integers(0, size, 40) for size in SIZES], 1) for _ in range(runs)]
    trie = DeviceTrie([Trie.of_codes(codes, SIZES) for codes in all_codes], Vocabulary(SIZES), "cpu", dtype)
    nodes = {(run,): run for run in range(runs)}  # by run and prefix
    for level, size in enumerate(SIZES):
        below = sorted({(run, *row[: level + 1]) for run, codes in enumerate(all_codes) for row in codes.tolist()})
        numbered = {prefix: at for at, prefix in enumerate(below)}
        asked = [(prefix, code) for prefix in nodes for code in range(-2, size + 2)]
        node = torch.tensor([[nodes[prefix] for prefix, _ in asked], [-1] * len(asked)])
        code = torch.tensor([[code for _, code in asked]] * 2)
        expected = torch.tensor([[numbered.get((*prefix, code), -1) for prefix, code in asked], [-1] * len(asked)])
        assert torch.equal(trie._by_halving(node, code, level).long(), expected)
        assert torch.equal(trie._by_key(node, code, level), expected)
        nodes = numbered
