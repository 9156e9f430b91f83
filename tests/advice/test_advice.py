"""Advice on sizes: counts of fewer items exactly, of more items by law, and predictions against full fits."""

import json
import shlex
from functools import cache
from itertools import combinations

import numpy as np
import pytest
from typer.testing import CliRunner

import sidkit as library
from command import sidkit
from planted import planted
from sidkit.advice.candidates import Advice, Candidate, Target, choose
from sidkit.advice.filling import alone, distinct, filling
from sidkit.advice.page import advice_page, tradeoff
from sidkit.advice.sweep import advise
from sidkit.cli import app
from sidkit.errors import InputError, SpecError


def test_three_items_by_hand():
    """Two items share a SID. Of the three pairs one holds both (nobody alone), two hold one of them (both alone)."""
    counts = np.array([2, 1])
    assert alone(counts, 2) == pytest.approx(4 / 6)
    assert alone(counts, 3) == pytest.approx(1 / 3)
    assert distinct(counts, 2) == pytest.approx(5 / 3)
    assert distinct(counts, 3) == pytest.approx(2)


def test_fewer_items_equal_the_mean_over_every_draw():
    sids = [0, 0, 0, 1, 1, 2, 3]
    counts = np.bincount(sids)
    for m in range(1, 8):
        draws = [np.bincount(part) for part in combinations(sids, m)]
        assert alone(counts, m) == pytest.approx(np.mean([(k == 1).sum() / m for k in draws]))
        assert distinct(counts, m) == pytest.approx(np.mean([(k > 0).sum() for k in draws]))
        assert distinct(counts, m) == pytest.approx(sum(alone(counts, j) for j in range(1, m + 1)))


def test_all_items_are_counted_not_predicted():
    one, other = filling(np.array([3, 1, 1]), 5)
    assert one == other == (2 / 3, 3 / 5, 3)


@pytest.mark.parametrize("uneven", [1.0, 2.0])
def test_the_laws_stand_on_both_sides_of_what_comes(rng, uneven):
    weight = rng.lognormal(0, uneven, 200_000)
    sids = rng.choice(len(weight), 60_000, p=weight / weight.sum())
    truth = filling(np.unique(sids, return_counts=True)[1], 60_000)[0]
    steady, mixed = filling(np.unique(sids[:15_000], return_counts=True)[1], 60_000)
    assert steady.icr_per_sid - 0.02 < truth.icr_per_sid < mixed.icr_per_sid + 0.02
    assert steady.sids_per_item - 0.01 < truth.sids_per_item < mixed.sids_per_item + 0.01
    assert (steady.icr_per_sid + mixed.icr_per_sid) / 2 == pytest.approx(truth.icr_per_sid, abs=0.06)
    assert mixed.largest_bucket >= steady.largest_bucket >= np.unique(sids[:15_000], return_counts=True)[1].max()


def test_no_collision_among_few_is_not_taken_for_none_among_many():
    steady, mixed = filling(np.ones(100, int), 10_000)
    assert 0.3 < steady.icr_per_sid < 1
    assert 0.3 < mixed.icr_per_sid < 1


def test_nobody_alone_stays_about_so():
    for law in filling(np.full(20, 50), 10_000):
        assert law.icr_per_sid < 0.6
        assert law.sids_per_item == pytest.approx(20 / 10_000, abs=0.001)
        assert 50 <= law.largest_bucket <= 500


def small(sizes):
    return library.prq_kmeans(sizes, iterations=8)


@pytest.fixture(scope="module")
def catalogue():
    rng = np.random.default_rng(3)
    return rng.permutation(planted(rng, clusters=60, each=80, d=12, noise=0.25)[0]).astype(np.float32)


@pytest.fixture(scope="module")
def full_fit(catalogue):
    """(sizes, seed) -> the quality of a fit on the whole catalogue, each made once."""

    @cache
    def quality(sizes, seed):
        return library.quality(small(sizes).fit(catalogue, seed=seed).fit_codes, sizes)

    return quality


def test_with_a_sample_of_all_rows_nothing_is_predicted(catalogue, full_fit):
    advice = advise(catalogue, Target(0.9), small, [(16, 16, 16)])
    (one,) = advice.candidates
    truth = full_fit((16, 16, 16), 0)
    assert one.measured
    assert one.icr_per_sid == one.icr_per_sid_low == truth["icr_per_sid"]
    assert (one.sids_per_item, one.largest_bucket) == (1 / truth["items_per_sid"], truth["largest_bucket"])


@pytest.mark.parametrize("count", [4800, 2400])
def test_predictions_hold_against_full_fits(catalogue, full_fit, count):
    sizes = [(16, 16, 16), (24, 24, 24)]
    advice = advise(catalogue, Target(0.9), small, sizes, sample=600, count=count)
    for one in advice.candidates:
        truth = full_fit(one.sizes, 7)
        assert not one.measured
        assert one.fitted_on == max(600, 32 * one.sizes[0])
        assert one.icr_per_sid_low < truth["icr_per_sid"] < one.icr_per_sid_high
        assert one.icr_per_sid == pytest.approx(truth["icr_per_sid"], abs=0.05)
        assert one.sids_per_item_low < 1 / truth["items_per_sid"] < one.sids_per_item_high
        assert one.icr_per_sid_high - one.icr_per_sid_low < 0.3


def test_the_sweep_grows_until_the_target_is_met_and_shorter_sids_come_with_it(catalogue):
    advice = advise(catalogue, Target(0.9), small, sample=600)
    assert [one.sizes for one in advice.candidates][:4] == [(16, 16), (16, 16, 16), (32, 32), (32, 32, 32)]
    assert [one.meets(advice.target) for one in advice.candidates if len(one.sizes) == 3].count("yes") == 1
    assert advice.candidates[-1].meets(advice.target) == "yes"
    assert advice.chosen is advice.candidates[-1]


def test_a_recipe_whose_tokens_are_not_nested_has_no_shorter_sids(catalogue):
    advice = advise(catalogue, Target(sids_per_item=0.05), lambda sizes: library.pq_kmeans(sizes, 4), sample=600)
    assert all(len(one.sizes) == 3 for one in advice.candidates)


def candidate(sizes, low, middle):
    share = (middle, low, 2 * middle - low)
    return Candidate(sizes, sum(sizes), 100, False, False, *share, *share, 3.0, 2.0, 5.0)


def test_the_fewest_codewords_that_surely_meet_the_target_are_chosen():
    sure, fewer, unsure = candidate((64,) * 3, 0.91, 0.92), candidate((40,) * 4, 0.9, 0.93), candidate((8,), 0.85, 0.95)
    assert choose([sure, fewer, unsure], Target(0.9)) is fewer
    assert choose([unsure, sure], Target(0.9)) is sure
    assert choose([unsure], Target(0.9)) is unsure
    assert choose([unsure], Target(0.99)) is None
    assert unsure.meets(Target(largest_bucket=4)) == "likely"
    assert unsure.meets(Target(largest_bucket=5, sids_per_item=0.8)) == "yes"


def test_the_page_tells_the_choice_and_escapes_names():
    one = candidate((64, 64), 0.91, 0.92)
    advice = Advice(1000, 500, Target(0.9, largest_bucket=4), [one], one)
    output = advice_page(advice, "<b>file", "sidkit fit 'a&b.npy'")
    assert "&lt;b&gt;file" in output
    assert "a&amp;b.npy" in output
    assert "Take 64-64: it may just meet the target" in output
    assert "500 of them" in output
    assert [panel.series[-1].name for panel in tradeoff(advice).panels] == ["target", "2 levels", "target"]
    assert "None of these sizes" in advice_page(Advice(1000, 500, Target(0.99), [one], None), "x", "")


def test_what_makes_no_sense_is_refused_before_any_work(catalogue):
    with pytest.raises(SpecError, match="a target of 95 for ICR"):
        Target(95)
    with pytest.raises(SpecError, match="at least 1 item, not 0"):
        Target(largest_bucket=0)
    with pytest.raises(InputError, match="too few to try codebooks of 16"):
        advise(catalogue[:30], Target(0.9), small)
    with pytest.raises(SpecError, match="give at least 2 of each"):
        advise(catalogue, Target(0.9), small, sample=1)


def test_the_command_line_ends_with_a_command_that_fits(catalogue, tmp_path):
    np.save(tmp_path / "items.npy", catalogue[:2000])
    options = ("--icr", "0.5", "--sizes", "16-16-16", "--sizes", "4-4", "--sample", "600", "--set", "iterations=5")
    output = json.loads(sidkit("advise", "items.npy", *options, "--json", "-o", "advice.html", cwd=tmp_path))
    chosen = "-".join(map(str, output["chosen"]["sizes"]))
    assert output["command"] == f"sidkit fit items.npy -o tok/ --sizes {chosen} --set iterations=5"
    assert "<svg" in (tmp_path / "advice.html").read_text()
    sidkit(*shlex.split(output["command"])[1:], cwd=tmp_path)
    assert library.load(tmp_path / "tok").sizes == tuple(output["chosen"]["sizes"])


def test_the_command_line_prints_a_table_and_refuses_other_files(catalogue, tmp_path):
    np.save(tmp_path / "items.npy", catalogue[:1000])
    run = CliRunner().invoke
    arguments = [
        "advise",
        str(tmp_path / "items.npy"),
        "--sizes",
        "16-8",
        "--set",
        "iterations=3",
        "--largest-bucket",
        "900",
    ]
    output = run(app, [*arguments, "-o", str(tmp_path / "advice.svg")]).output
    assert "Take 16-8: fitted on all items, it meets the target" in output
    assert (tmp_path / "advice.svg").read_text().startswith("<svg")
    assert "name it with .html, .svg or .json" in str(run(app, [*arguments, "-o", "advice.png"]).exception)


def test_groups_too_fine_for_the_sample_are_noticed():
    """300 groups of 60 items nearly alike: a sample of 1,024 has three of each group, one of half its size not two."""
    rng = np.random.default_rng(5)
    x = rng.permutation(planted(rng, clusters=300, each=60, d=64, noise=0.05)[0]).astype(np.float32)
    sizes = (32, 32, 32)
    advice = advise(x, Target(0.9), small, [sizes], sample=1024)
    (one,) = advice.candidates
    truth = library.quality(small(sizes).fit(x, seed=0).fit_codes, sizes)
    assert advice.drifts
    assert "give a larger --sample" in advice_page(advice, "x", "")
    assert one.icr_per_sid_low < truth["icr_per_sid"] < one.icr_per_sid_high
    assert one.sids_per_item_low < 1 / truth["items_per_sid"] < one.sids_per_item_high
