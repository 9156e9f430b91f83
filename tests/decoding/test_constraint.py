"""Which tokens may follow: states worked out by hand, parts of a catalogue, and a plain walk over the SIDs."""

import numpy as np
import pytest

from sidkit import SidTable
from sidkit.decoding.tokens import SidTokens
from sidkit.errors import InputError, SpecError
from sidkit.sids.trie import Trie

torch = pytest.importorskip("torch")

from sidkit.decoding.constraint import SidConstraint  # noqa: E402

TABLE = SidTable(list("abcd"), [[0, 1], [0, 0], [1, 1], [1, 1]], (3, 2))
# Tokens 10, 11, 12 are codes of the first level, 20, 21 of the second; 30 opens a SID, 31 ends it.
LEVELS = [[10, 11, 12], [20, 21]]
V = 40


def allowed(constraint, *tokens):
    """The tokens that may follow, for the same row twice, beside a row of another state."""
    rows = torch.tensor([[1] * 5 + list(tokens)] * 2 + [[1] * (5 + len(tokens))])
    scores = torch.rand(3, V)
    out = constraint(rows, scores)
    assert torch.equal(out[0] > -torch.inf, out[1] > -torch.inf)
    kept = (out[0] > -torch.inf).nonzero()[:, 0]
    assert torch.equal(out[0][kept], scores[0][kept])  # scores of valid tokens are untouched
    return kept.tolist()


TEXT = [token for token in range(V) if token not in (10, 11, 12, 20, 21)]


class TestStates:
    def test_a_marker_opens_a_sid_and_another_closes_it(self):
        constraint = SidConstraint(Trie.of(TABLE), SidTokens.of((3, 2), LEVELS, begin=30, end=31))
        assert allowed(constraint) == TEXT
        assert allowed(constraint, 30) == [10, 11]  # no item has code 2
        assert allowed(constraint, 30, 10) == [20, 21]
        assert allowed(constraint, 30, 11) == [21]
        assert allowed(constraint, 30, 11, 21) == [31]
        assert allowed(constraint, 30, 11, 21, 31) == TEXT
        assert allowed(constraint, 30, 11, 21, 31, 5, 30) == [10, 11]  # a second SID

    def test_without_markers_a_first_token_opens_a_sid(self):
        constraint = SidConstraint(Trie.of(TABLE), SidTokens.of((3, 2), LEVELS))
        text = sorted([*TEXT, 10, 11])
        assert allowed(constraint) == text
        assert allowed(constraint, 11) == [21]
        assert allowed(constraint, 11, 21) == text
        assert allowed(constraint, 11, 21, 10) == [20, 21]  # SIDs one after the other

    def test_without_markers_an_end_token_must_follow_if_there_is_one(self):
        constraint = SidConstraint(Trie.of(TABLE), SidTokens.of((3, 2), LEVELS, end=31))
        assert allowed(constraint, 11, 21) == [31]

    def test_a_sid_that_does_not_exist_can_only_end(self):
        ends = SidConstraint(Trie.of(TABLE), SidTokens.of((3, 2), LEVELS, begin=30, end=31))
        assert allowed(ends, 30, 12) == [31]
        free = SidConstraint(Trie.of(TABLE), SidTokens.of((3, 2), LEVELS))
        assert allowed(free, 12) == TEXT

    def test_rows_of_all_states_in_one_batch(self):
        constraint = SidConstraint(Trie.of(TABLE), SidTokens.of((3, 2), LEVELS, begin=30, end=31))
        rows = torch.tensor([[1, 1, 30], [1, 30, 11], [30, 10, 20], [1, 1, 1]])
        kept = constraint(rows, torch.zeros(4, V)) == 0
        assert [one.nonzero()[:, 0].tolist() for one in kept] == [[10, 11], [21], [31], TEXT]

    def test_rows_shorter_than_a_sid(self):
        constraint = SidConstraint(Trie.of(TABLE), SidTokens.of((3, 2), LEVELS, begin=30, end=31))
        kept = constraint(torch.tensor([[30]]), torch.zeros(1, V)) == 0
        assert kept[0].nonzero()[:, 0].tolist() == [10, 11]
        assert (constraint(torch.zeros(1, 0, dtype=torch.long), torch.zeros(1, V))[0] == 0).sum() == len(TEXT)

    def test_what_a_short_row_lacks_is_not_the_last_token_of_the_vocabulary(self):
        levels = [[8, 9], [4, 5], [6, 7]]  # the last token, 9, is a code of the first level
        table = SidTable(list("ab"), [[0, 0, 0], [1, 0, 0]], (2, 2, 2))
        constraint = SidConstraint(Trie.of(table), SidTokens.of((2, 2, 2), levels, end=3))
        kept = constraint.masked_tail(torch.zeros(1, 10), torch.tensor([[-1, -1, 4]])) == 0
        assert kept[0].nonzero()[:, 0].tolist() == [3]


@pytest.fixture(params=["halving", "key"])
def search(request, monkeypatch):
    """Children found as on a CPU and as on a GPU."""
    from sidkit.decoding.device_trie import DeviceTrie

    monkeypatch.setattr(DeviceTrie, "step", getattr(DeviceTrie, f"_by_{request.param}"))


@pytest.mark.usefixtures("search")
class TestAgainstAWalk:
    @pytest.mark.parametrize("part", [None, "mask", "rows"])
    def test_every_prefix_of_a_catalogue(self, rng, part):
        sizes = (7, 5, 4, 6)
        codes = np.stack([rng.integers(0, size, 200) for size in sizes], 1)
        table, first = SidTable(np.arange(200), codes, sizes), 3
        stock = rng.random(200) < 0.2
        chosen = np.ones(200, bool) if part is None else stock
        within = {None: None, "mask": stock, "rows": np.flatnonzero(stock)}[part]
        trie = Trie.of(table)
        alive = None if within is None else trie.alive(within)
        tokens = SidTokens.level_major(sizes, first)
        constraint = SidConstraint(trie, tokens, start=0, alive=alive)
        for depth in range(4):
            sids = np.unique(codes[chosen][:, : depth + 1], axis=0)
            prefixes = np.unique(sids[:, :depth], axis=0)[:50]
            rows = tokens.tokens(np.pad(prefixes, ((0, 0), (0, 4 - depth))))[:, :depth]
            out = constraint(torch.as_tensor(rows).reshape(len(prefixes), depth), torch.zeros(len(prefixes), 30))
            for prefix, scores in zip(prefixes, out, strict=True):
                after = sids[(sids[:, :depth] == prefix).all(1), depth]
                offset = first + sum(sizes[:depth])
                assert (scores == 0).nonzero()[:, 0].tolist() == (after + offset).tolist()

    def test_nothing_in_stock_is_an_error(self):
        with pytest.raises(InputError, match="no items are left"):
            Trie.of(TABLE).alive(np.zeros(4, bool))


class TestTokens:
    def test_a_token_stands_for_one_thing(self):
        with pytest.raises(SpecError, match="token 21 stands for two codes"):
            SidTokens.of((3, 2), LEVELS, begin=21)

    def test_negative_tokens_are_refused(self):
        with pytest.raises(SpecError, match="at least 0, not -3"):
            SidTokens.level_major((3, 2), -3)

    def test_position_and_marker_exclude_each_other(self):
        with pytest.raises(SpecError, match="not both"):
            SidConstraint(Trie.of(TABLE), SidTokens.of((3, 2), LEVELS, begin=30), start=2)

    def test_sids_in_a_row_of_tokens(self):
        tokens = SidTokens.of((3, 2), LEVELS)
        assert tokens.sids_in([1, 10, 21, 5, 10, 11, 20, 12]) == [(0, 1), (1, 0)]
        assert tokens.sids_in([]) == []
