"""The table of metrics: it has every figure once, and whatever is in it is shown everywhere."""

import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

import sidkit
from sidkit.cli import app
from sidkit.report.compare import compare
from sidkit.report.compare_figures import comparison_figures
from sidkit.report.compare_page import compare_page
from sidkit.report.contenders import contenders_of
from sidkit.report.evidence import gather
from sidkit.report.page import report_page
from sidkit.sids import quality as quality_module
from sidkit.sids.metrics import METRICS, Metric, metrics_for
from sidkit.sids.table import SidTable

CODES = np.array([[0, 0], [0, 0], [0, 1], [1, 2]])


def test_the_table_has_the_figures_of_quality_and_no_others():
    figures = sidkit.quality(CODES, (2, 3), np.eye(4))
    assert figures.keys() == METRICS.keys()
    for name, value in figures.items():
        assert isinstance(value, list) is METRICS[name].per_level, name
        assert METRICS[name].name == name


def test_the_docstring_of_quality_has_every_name_with_its_formula_and_origin():
    text = " ".join(sidkit.quality.__doc__.split())
    for metric in METRICS.values():
        origin = f"paper, Eq. {metric.equation}" if metric.equation else metric.used_by
        assert f"{metric.name} {metric.formula}" + (f" ({origin})" if origin else "") in text


@pytest.mark.parametrize(
    "form, value, text",
    [
        (".2%", 0.5, "50.00%"),
        (".2%", 0.0, "0.00%"),
        (".2%", 2.345e-6, "0.00023%"),  # not 0.00%
        (",d", 12345, "12,345"),
        (".3f", 0.0001, "0.000"),
        (".3f", None, ""),
    ],
)
def test_a_value_is_written_in_its_form_and_a_small_share_is_not_zero(form, value, text):
    assert Metric("m", "m", "m", form).text(value) == text


def test_a_view_shows_its_own_metrics_as_far_as_they_were_measured():
    assert [metric.name for metric in metrics_for("compare", {"icr_per_sid", "prefix_gini", "items"})] == [
        "icr_per_sid",
        "prefix_gini",
    ]
    assert [metric.name for metric in metrics_for("page", METRICS, per_level=True)][:2] == ["codes_used", "perplexity"]


@pytest.fixture
def added(monkeypatch):
    """Two figures more, one for all items and one per level."""
    computed = quality_module.figures_of

    def with_more(parts, sizes):
        return computed(parts, sizes) | {"answer": 0.4242, "depth": [1.5 + level for level in range(len(sizes))]}

    monkeypatch.setattr(quality_module, "figures_of", with_more)
    monkeypatch.setitem(METRICS, "answer", Metric("answer", "the answer", "6 x 9", ".2%", "higher"))
    monkeypatch.setitem(METRICS, "depth", Metric("depth", "level's depth", "1 + level", ".3f", "lower", per_level=True))


def cells(text):
    """The words of a text without markup, one blank between them."""
    return " ".join(re.sub(r"<[^>]*>|[|*&]|\\\\", " ", text).split())


def test_a_figure_added_to_the_table_is_shown_everywhere(added, rng, tmp_path):
    X = rng.normal(size=(60, 4))
    fitted = sidkit.prq_kmeans((4, 2), iterations=2).fit(X, seed=0)
    fitted.save(tmp_path / "tok")
    table = SidTable(np.arange(60), fitted.fit_codes, fitted.sizes)
    table.to_parquet(tmp_path / "sids.parquet")

    printed = CliRunner().invoke(app, ["report", str(tmp_path / "sids.parquet")]).output
    assert "the answer 42.42%" in cells(printed)
    assert "level's depth" in cells(printed)
    assert "2.500" in printed
    facts = json.loads(CliRunner().invoke(app, ["report", str(tmp_path / "sids.parquet"), "--json"]).output)
    assert (facts["answer"], facts["depth"]) == (0.4242, [1.5, 2.5])

    page = cells(report_page(gather(table), "x"))
    assert "the answer 6 x 9 42.42%" in page
    assert "level&#x27;s depth" in page.replace(" #x27;", "&#x27;")
    assert "1.500" in page

    card = cells((tmp_path / "tok" / "README.md").read_text())
    assert "the answer 0.4242" in card
    assert "level's depth by level 1.5000, 2.5000" in card

    comparison = compare(X, {"a": fitted.spec}, [0], tmp_path / "runs")
    head = "the answer % level's depth L1 level's depth L2"
    assert head in cells(comparison.markdown())
    assert "42.42 1.500 2.500" in cells(comparison.markdown())
    assert "42.42 1.500 2.500" in cells(comparison.latex().replace(r"\textbf{", "").replace("}", ""))
    assert json.loads(comparison.json())["figures"]["a"][0]["answer"] == 0.4242
    contenders = contenders_of(comparison, X, np.arange(60))
    figures = comparison_figures(comparison, contenders, "pca")
    side_by_side = cells(compare_page(comparison, contenders, figures, "x", []))
    assert "42.42 1.500 2.500" in side_by_side
    assert "the answer: 6 x 9 (higher is better)" in side_by_side
