"""How values are shown: a line in a terminal, HTML in a notebook."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

import sidkit
from sidkit.report.draw.chart import Panel, Series
from sidkit.report.draw.figure import Figure
from sidkit.report.evidence import gather
from sidkit.tokenizer.recipes import RECIPES
from sidkit.tokenizer.show import spec_sizes

VOID = {"img", "br", "progress"}


class Balanced(HTMLParser):
    """Raises where elements are not closed in their order."""

    def __init__(self):
        super().__init__()
        self.open, self.text = [], []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def text_of(html):
    parser = Balanced()
    parser.feed(html)
    parser.close()
    assert not parser.open
    assert "<script" not in html
    assert "<style" not in html  # it would change the page around it
    return " ".join(" ".join(parser.text).split())


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).normal(size=(60, 8)).astype(np.float32)


@pytest.fixture(scope="module")
def fitted(X):
    return sidkit.prq_kmeans(sizes=(8, 4), top_k=3).fit(X)


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_shows_its_name_and_sizes(name):
    spec = RECIPES[name]()
    sizes = (1024, 512, 128, 64, 64) if re.search("rq-opq|fsq", name) else (256, 256, 256)
    assert spec_sizes(spec.stages) == sizes
    assert repr(spec) == f"Tokenizer({name}, sizes={sizes})"
    text = text_of(spec._repr_html_())
    assert text.startswith(f"Tokenizer {name} · {'-'.join(map(str, sizes))} · not fitted stage codes settings")
    assert "size=" not in text


def test_stages_are_listed_with_what_is_not_their_default():
    html = sidkit.prq_kmeans(sizes=(8, 8, 4), top_k=3, beta=20.0)._repr_html_()
    assert text_of(html).endswith(
        "Normalize RemoveMean 2 × Level 8 KMeans(top_k=3, beta=20.0), Residual Level 4 KMeans(top_k=3, beta=20.0), "
        "Residual"
    )


def test_a_fitted_tokenizer_shows_what_it_was_fitted_on(X, fitted, tmp_path):
    assert repr(fitted) == "FittedTokenizer(prq-kmeans, sizes=(8, 4), d=8, float32, seed=0)"
    assert "8 dimensions, float32 · seed 0 · fitted on 60 rows" in text_of(fitted._repr_html_())
    loaded = sidkit.load(fitted.save(tmp_path / "tok"))
    assert repr(loaded) == repr(fitted)
    text = text_of(loaded._repr_html_())
    assert "fitted on 60 rows" in text
    icr = sidkit.quality(fitted.encode(X), (8, 4))["icr_per_sid"]
    assert f"{icr:.2%}" in text
    given = sidkit.Given.residual([np.eye(3)])
    assert repr(given) == "FittedTokenizer(given, sizes=(3,), d=3, float64, seed=0)"
    assert "fitted on" not in text_of(given._repr_html_())


def test_a_table_shows_its_first_rows(X, fitted):
    table = fitted.table(X, ids=[f"<b>{i}" for i in range(60)])
    assert repr(table) == "SidTable(60 items, sizes=(8, 4))"
    text = text_of(table._repr_html_())
    assert text.startswith("SidTable 60 items · 8-4 item_id sid codes <b>0 <a_")
    assert text.endswith("and 52 more")
    assert f"{table.strings()[7]} {list(table.sid_of('<b>7'))}" in text
    one = sidkit.SidTable(["a"], [[0, 1]], (2, 2))
    assert repr(one) == "SidTable(1 item, sizes=(2, 2))"
    assert text_of(one._repr_html_()) == "SidTable 1 item · 2-2 item_id sid codes a <a_0><b_1> [0, 1]"
    assert len(text_of(sidkit.SidTable([], np.zeros((0, 2), int), (2, 2))._repr_html_())) > 10


def test_quality_is_a_dictionary_with_a_table_of_formulas(X, fitted):
    figures = sidkit.quality(fitted.encode(X), "8-4")
    assert json.loads(json.dumps(figures)) == figures == dict(figures)
    text = text_of(figures._repr_html_())
    assert text.startswith(f"Quality 60 items · {figures['distinct_sids']} SIDs metric value, by level formula")
    assert f"icr_per_sid {figures['icr_per_sid']:.2%} " in text
    assert f"codes_used {figures['codes_used'][0]:.1%}, {figures['codes_used'][1]:.1%} " in text
    assert "nan" not in text.lower()


def test_a_report_shows_its_verdict_and_figures(X, fitted):
    evidence = gather(fitted.table(X), fitted, map_by="pca")
    headline = evidence.facts["verdict"]["headline"]
    assert repr(evidence) == f"Evidence({headline} {len(evidence.figures)} figures)"
    html = evidence._repr_html_()
    text = text_of(html)
    assert text.startswith(f"Report 60 items · 8-4 {headline} grade finding")
    assert html.count("data:image/svg+xml;base64,") == len(evidence.figures)
    for finding in evidence.facts["verdict"]["findings"]:
        assert finding["text"] in text


def test_a_figure_is_a_drawing_of_its_own(browser, page):
    figure = Figure("f", "Codes & <b>", "two bars", [Panel("p", "x", "y", [Series("s", [0, 1], [1, 2])])])
    assert repr(figure) == "Figure('f', 'Codes & <b>', 1 panel)"
    html = figure._repr_html_()
    assert text_of(html) == "Codes & <b> Look for: two bars"
    page.set_content(html)
    assert page.evaluate("document.images[0].decode().then(() => document.images[0].naturalWidth)") > 100
