"""What people look at after a training: the picture of rare items, the card, and the page of `sidkit evaluate`."""

import json

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from command import run as command
from command import sidkit
from sidkit.measure.counting import counted, followed_by_seen
from sidkit.measure.seen import ranks_by_seen
from sidkit.report.draw.svg import figure_svg
from sidkit.retriever import Plan, Retriever, Shape, train
from sidkit.retriever.page import evaluation_page, seen_figure
from toys import ring, walks, write_files

TIMES = np.array([0, 0, 2, 3, 3, 9, 9, 9, 9, 9])


def lists():
    """Ten users: two targets never seen, three seen seldom, five often; the model finds one of each."""
    model, fused = np.full(10, 99), np.full(10, 99)
    model[[0, 2, 5]] = 3
    fused[5:9] = 0
    return {"followed": ranks_by_seen(np.full(10, 99), TIMES), "model": ranks_by_seen(model, TIMES)} | {
        "fused": ranks_by_seen(fused, TIMES)
    }


def test_the_figure_has_a_bar_for_every_list_and_group():
    (panel,) = seen_figure(lists()).panels
    assert [one.name for one in panel.series] == ["model", "fused", "counting"]
    assert panel.names == ["0 (20.0%)", "1-4 (30.0%)", "5+ (50.0%)"]
    assert panel.series[0].y == pytest.approx([1 / 2, 1 / 3, 1 / 5])
    assert panel.series[1].y == pytest.approx([0, 0, 4 / 5])
    below, above = panel.series[0].whiskers[2]
    assert above == pytest.approx(1.96 * (0.2 * 0.8 / 5) ** 0.5)
    assert below == pytest.approx(0.2)  # no lower than zero
    assert "could know 80.0% of the targets" in seen_figure(lists()).look_for


def test_a_group_without_users_has_no_bar():
    (panel,) = seen_figure({"model": ranks_by_seen(np.zeros(3, int), np.array([1, 9, 9]))}).panels
    assert (panel.series[0].x, panel.series[0].y) == ([1.0, 2.0], [1.0, 1.0])
    assert panel.names[0] == "0 (0.0%)"
    figure_svg(seen_figure({"model": ranks_by_seen(np.zeros(3, int), np.array([1, 9, 9]))}))


def test_counting_is_judged_by_how_often_the_target_was_seen_as_well():
    sequences = walks(items=30, users=60)
    groups, every = followed_by_seen(sequences, 30), counted(sequences, 30)["followed"]
    assert sum(one["users"] for one in groups.values()) == 60
    total = sum(one["users"] * (one["recall@10"] or 0.0) for one in groups.values())
    assert total / 60 == pytest.approx(every["recall@10"])


def test_the_page_has_the_main_figures_first_and_no_words_of_others_as_html():
    means = {f"{reading}_{name}@{cut}": 0.25 for reading in ("item", "fused") for name in ("recall", "ndcg", "mrr")
             for cut in (5, 10, 20)}  # fmt: skip
    followed = {f"{name}@{cut}": 0.125 for name in ("recall", "ndcg", "mrr") for cut in (5, 10, 20)}
    weights = {"terms": [{"of": "popular", "weight": 0.2}], "repeats": False}
    fusion = {"weights": weights, "validation": {"gain": 0.01, "standard_error": 0.002, "on": True}}
    facts = {"users": 10, "means": means, "counting": {"followed": followed}, "seen": lists(), "fusion": fusion}
    text = evaluation_page("<run>", facts)
    assert "How well &lt;run&gt; recommends" in text
    assert "NDCG@10, the model alone" in text
    assert "NDCG@10, no model: what followed the last item" in text
    assert "Fused with counts, without items of the history: +0.0100 ± 0.0020 of NDCG@10 on validation." in text
    assert "<svg" in text
    assert text.index("0.1250") < text.index("Are new and rare items found?") < text.index("All figures</h2>")
    assert "<svg" not in evaluation_page("run", facts | {"seen": {}, "fusion": None})


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    table, sequences = ring(users=60)
    train(table, sequences, folder / "run", Plan(Shape(1, 8, 8, 1, 8), epochs=1, beams=4), "cpu")
    write_files(folder, table, sequences)
    return folder


def test_a_run_has_a_card_with_its_picture_and_both_may_be_changed(run):
    card = (run / "run" / "README.md").read_text()
    assert "![Recall@10 by how often the target was seen in training](seen.svg)" in card
    assert "| target item | users | Recall@10, alone |" in card
    assert "Recall@10, by counting" in card
    assert (run / "run" / "seen.svg").read_text().startswith("<svg")
    (run / "run" / "README.md").write_text("ours")
    Retriever.load(run / "run", "cpu")


def test_evaluate_writes_a_page_its_figure_and_its_json(run):
    for ending in ("html", "json"):
        words = ("evaluate", run / "run", run / "sequences.parquet", "--device", "cpu", "-o", run / f"out.{ending}")
        said = sidkit(*words)
        assert f"wrote {run / f'out.{ending}'}" in said
    page, facts = (run / "out.html").read_text(), json.loads((run / "out.json").read_text())
    assert facts["seen"].keys() == {"model", "fused", "followed"}
    assert f"{facts['means']['item_ndcg@10']:.4f}" in page
    assert "sidkit evaluate" in page
    assert figure_svg(seen_figure(facts["seen"])).startswith("<svg")
    refused = command("evaluate", run / "run", run / "sequences.parquet", "-o", run / "out.txt")
    assert refused.returncode
    assert "name it with .html" in refused.stderr
