"""How much a fit computes: what its stages report, and what is assumed of those that report nothing."""

from __future__ import annotations

import sidkit
from sidkit.rows.work import Work, work_of, work_of_fit
from sidkit.stages.cluster import Balanced
from sidkit.stages.level import Level
from sidkit.tokenizer.recipes import RECIPES, recipe


def test_the_work_of_a_fit_is_codewords_times_passes():
    assert work_of_fit(sidkit.prq_kmeans((256, 256, 256)).stages) == 3 * 256 * 25
    assert work_of_fit(sidkit.pq_kmeans((256, 64), iterations=10).stages) == 1600


def test_more_neighbours_than_a_gpu_keeps_are_no_work_for_it():
    assert work_of_fit(sidkit.prq_kmeans(top_k=16).stages) > 0
    assert work_of_fit(sidkit.prq_kmeans(top_k=17).stages) == 0


class Unreported:
    """A third party's clusterer, or stage, that does not report its work."""

    def __init__(self, **codebooks):
        vars(self).update(codebooks)

    def fit(self, rows, run): ...
    def restore(self, arrays, d): ...


def test_what_reports_no_work_counts_as_25_passes_over_its_codebooks():
    assert work_of_fit([Level(Unreported(size=300))]) == 25 * 300
    assert work_of_fit([Unreported(sizes=(64, 32)), *sidkit.prq_kmeans((8,)).stages]) == 25 * 96 + 25 * 8
    assert work_of_fit([Unreported()]) == 0
    iterations = [Level(Unreported(size=300, iterations=2))]  # a guess at a field of somebody else's
    assert work_of_fit(iterations) == 25 * 300


def test_the_work_of_every_recipe_is_what_its_stages_report():
    nothing = Work(0.0)  # of stages without codebooks
    work = {name: [part for stage in recipe(name).stages if (part := work_of(stage)) != nothing] for name in RECIPES}
    assert work["prq-kmeans"] == [Work(25.0 * 256, 2)] * 3
    assert work["rq-kmeans"] == [Work(25.0 * 256)] * 3
    assert work["rq-gmm"] == [Work(30.0 * 256)] * 3
    assert work["opq-kmeans"] == [Work(50.0 * 256)]
    assert work["rq-opq"] == [Work(25.0 * 1024), Work(25.0 * 512), Work(25.0 * 128), Work(50.0 * 64)]
    assert work["res-kmeans-fsq"] == work["rq-opq"][:3]
    assert work["rq-vae"] == work["r3-vae"] == []  # their training takes a GPU wherever the rows are
    assert work_of(Balanced(40, 4, 4)) == Work(160.0)
