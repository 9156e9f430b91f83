"""Whether co-occurrence will pay is said from steps that come before those held out."""

import json
import shlex

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from command import sidkit
from sidkit.advice.blending import Gain, advise_blending, chosen_weight, gain_of
from sidkit.data.embeddings import open_embeddings
from sidkit.data.sequences import Sequences
from sidkit.errors import InputError

ITEMS, GROUPS = 400, 40


def visits(rng, users=500, strangers=False):
    """Users take ten things of a group of ten, or anything at all."""
    groups = rng.integers(0, GROUPS, users)
    return [rng.permutation(10) + 10 * group if not strangers else rng.choice(ITEMS, 10, False) for group in groups]


@pytest.fixture
def vectors(rng):
    """Embeddings that know nothing of the groups."""
    return rng.normal(size=(ITEMS, 12)).astype(np.float32)


def test_groups_that_embeddings_do_not_know_pay(rng, vectors):
    advice = advise_blending(vectors, Sequences.of(visits(rng)), dimensions=32)
    assert (advice.window, advice.users) == (5, 500)
    assert advice.weight == 1.0
    assert advice.gains[-1].gain > 1.0  # more than twice as good


def test_visits_without_a_pattern_do_not_pay(rng, vectors):
    advice = advise_blending(vectors, Sequences.of(visits(rng, strangers=True)), dimensions=32)
    assert advice.weight == 0.0


def test_nothing_that_is_held_out_is_looked_at(rng, vectors):
    lists = [list(one) for one in visits(rng)]
    others = [[*one[:-2], 0, 1] for one in lists]
    first, second = (advise_blending(vectors, Sequences.of(each), dimensions=32) for each in (lists, others))
    assert first.gains == second.gains


def test_lists_are_counted_whole(rng, vectors):
    lists = [[*sorted(one[:8]), *one[8:]] for one in visits(rng)]
    advice = advise_blending(vectors, Sequences.of(lists), dimensions=32)
    assert advice.order["arranged"]
    assert advice.window == 0


def test_an_uncertain_gain_is_not_taken():
    gains = [Gain(0.25, 0.04, 0.01), Gain(0.5, 0.10, 0.06), Gain(1.0, -0.3, 0.1)]
    assert chosen_weight(gains) == 0.25
    assert chosen_weight(gains[1:]) == 0.0
    assert chosen_weight([*gains, Gain(2.0, 0.2, 0.02)]) == 2.0


def test_the_error_of_a_gain_is_that_of_paired_users():
    gain = gain_of(1.0, np.array([0.5, 0.0, 1.0, 0.5]), np.array([0.0, 0.0, 1.0, 1.0]))
    assert gain.gain == pytest.approx(0.0)
    assert gain.error == pytest.approx(np.std([0.5, 0.0, 0.0, -0.5]) / 2 / 0.5)


def test_few_sequences_are_refused(rng, vectors):
    with pytest.raises(InputError, match=r"40 sequences have four items or more.*give one with"):
        advise_blending(vectors, Sequences.of(visits(rng, users=40)))


class TestCommand:
    @pytest.fixture
    def shop(self, vectors, tmp_path):
        column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 12)
        pq.write_table(pa.table({"item_id": np.arange(ITEMS), "embedding": column}), tmp_path / "items.parquet")
        for name, strangers in (("groups", False), ("strangers", True)):
            lists = [one.tolist() for one in visits(np.random.default_rng(0), strangers=strangers)]
            pq.write_table(pa.table({"items": lists}), tmp_path / f"{name}.parquet")
        return tmp_path

    def test_the_chosen_weight_is_blended_in(self, shop):
        words = ("blend", "items.parquet", "--sequences", "groups.parquet", "--dimensions", 32, "--auto")
        facts = json.loads(sidkit(*words, "-o", "a.parquet", "--json", cwd=shop))
        assert (facts["weight"], facts["advice"]["weight"], facts["window"]) == (1.0, 1.0, 5)
        sidkit(*words[:-1], "-o", "b.parquet", "--weight", 1, cwd=shop)
        one, other = (open_embeddings(shop / name).take(np.arange(ITEMS)) for name in ("a.parquet", "b.parquet"))
        np.testing.assert_array_equal(one, other)

    def test_what_does_not_pay_leaves_the_embeddings_as_they_were(self, shop, vectors):
        words = ("blend", "items.parquet", "--sequences", "strangers.parquet", "--dimensions", 32, "--auto")
        output = sidkit(*words, "-o", "a.parquet", cwd=shop)
        assert "not expected to pay" in output
        rows = open_embeddings(shop / "a.parquet").take(np.arange(ITEMS))
        np.testing.assert_allclose(rows[:, :12], vectors / np.linalg.norm(vectors, axis=1, keepdims=True), rtol=1e-6)
        assert not rows[:, 12:].any()

    def test_advise_says_what_pays_and_its_commands_run(self, shop):
        words = ("advise", "items.parquet", "--sequences", "groups.parquet", "--sizes", "32-16", "--blend")
        facts = json.loads(sidkit(*words, "--json", cwd=shop))
        assert facts["blending"]["weight"] == 1.0
        blending, fitting, encoding = (facts[name] for name in ("blend_command", "command", "encode_command"))
        assert "--weight 1 --window 5" in blending
        for command in (blending, fitting, encoding):
            sidkit(*shlex.split(command)[1:], cwd=shop)
        assert pq.read_metadata(shop / "sids.parquet").num_rows == ITEMS
        blended = json.loads(sidkit("judge", "sids.parquet", "--sequences", "groups.parquet", "--json", cwd=shop))
        sidkit("fit", "items.parquet", "-o", "plain/", "--sizes", "32-16", cwd=shop)
        sidkit("encode", "plain/", "items.parquet", "-o", "plain.parquet", "--spread", cwd=shop)
        plain = json.loads(sidkit("judge", "plain.parquet", "--sequences", "groups.parquet", "--json", cwd=shop))
        counted = [one["counting"]["by_first_token"]["ndcg@20"] for one in (plain, blended)]
        assert counted[1] > 2 * counted[0]

    def test_advise_blends_nothing_that_does_not_pay(self, shop):
        words = ("advise", "items.parquet", "--sequences", "strangers.parquet", "--sizes", "32-16", "--blend")
        output = sidkit(*words, cwd=shop)
        assert "Co-occurrence is not expected to pay" in output
        assert "A separate SID for every item (encode --spread) is" in output
        assert "sidkit fit items.parquet -o tok/" in output
        assert "sidkit blend" not in output

    def test_advise_refuses_to_blend_without_sequences_or_with_queries(self, shop):
        assert "give --sequences too" in sidkit("advise", "items.parquet", "--blend", cwd=shop, check=1)
        words = ("advise", "items.parquet", "--sequences", "groups.parquet", "--blend", "--queries", "items.parquet")
        assert "--blend is for items alone" in sidkit(*words, cwd=shop, check=1)

    def test_a_weight_and_auto_are_refused_together(self, shop):
        words = ("blend", "items.parquet", "--sequences", "groups.parquet", "-o", "a.parquet", "--auto")
        assert "--auto chooses the weight" in sidkit(*words, "--weight", "0.5", cwd=shop, check=1)
