"""Two tokenizers on the same items: pairs counted one by one, the case studies by planted answers, the page."""

import json
import re
import shutil
from html import unescape
from itertools import combinations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from browser import overflows, watched
from command import sidkit
from sidkit.embed import choose
from sidkit.errors import InputError, SpecError
from sidkit.report.cases import RULES, collision_case, query_case
from sidkit.report.compare import compare
from sidkit.report.compare_figures import comparison_figures
from sidkit.report.compare_page import compare_page
from sidkit.report.comparison import Comparison
from sidkit.report.contenders import contenders_of, pairs_of
from sidkit.report.contrast import aligned, contrast
from sidkit.report.draw.layout import lay_out
from sidkit.report.draw.marks import WIDTH, Rect
from sidkit.sids.table import SidTable
from sidkit.tokenizer.recipes import prq_kmeans, rq_kmeans
from sidkit.tokenizer.tokenizer import load

TITLE = "<script>document.title = 'taken'</script>"


def table(codes, sizes, ids=None):
    codes = np.array(codes)
    return SidTable(np.arange(len(codes)) if ids is None else ids, codes, sizes)


class TestContrast:
    def test_pairs_and_items_are_those_counted_one_by_one(self, rng):
        a, b = (table(rng.integers(0, 4, (60, 2)), (4, 4)) for _ in "ab")
        result = contrast(a, b)
        sids = [[tuple(row) for row in one.codes.tolist()] for one in (a, b)]
        merged = [(i, j) for i, j in combinations(range(60), 2) if sids[0][i] == sids[0][j]]
        assert result["pairs_merged"] == len(merged)
        assert result["pairs_separated"] == sum(sids[1][i] != sids[1][j] for i, j in merged)
        freed = [i for i in range(60) if sids[0].count(sids[0][i]) > 1 and sids[1].count(sids[1][i]) == 1]
        assert result["items_separated"] == len(freed)

    def test_the_group_that_is_divided_into_most_pairs_comes_first(self):
        a = table([[0, 0]] * 4 + [[1, 0]] * 4 + [[2, 0]] * 2, (3, 1))
        b = table([[0, 0], [0, 1], [0, 2], [0, 3]] + [[1, 0]] * 3 + [[1, 1]] + [[2, 0]] * 2, (3, 4))
        texts = ["a mug"] * 4 + ["red hat", "red cap", "red hat", "blue hat"] + ["x", "y"]
        groups = contrast(a, b, texts, groups=5)["groups"]
        assert [(group["sid"], group["items"]) for group in groups] == [("<a_0><b_0>", 4), ("<a_1><b_0>", 4)]
        assert [branch["items"] for branch in groups[1]["branches"]] == [3, 1]
        assert groups[1]["branches"][1]["texts"] == ["blue hat"]
        assert groups[1]["branches"][1]["words"] == ["blue"]

    def test_tables_are_joined_by_id(self):
        a = table([[0], [1], [2]], (3,), ["x", "y", "z"])
        b = table([[1], [0], [0]], (2,), ["z", "x", "w"])
        one, other, rows = aligned(a, b)
        assert one.ids.to_pylist() == other.ids.to_pylist() == ["x", "z"]
        assert (one.codes.ravel().tolist(), other.codes.ravel().tolist(), rows.tolist()) == ([0, 2], [0, 1], [0, 2])
        with pytest.raises(InputError, match="share no item"):
            aligned(a, table([[0]], (1,), ["q"]))


class TestCollisionCase:
    # five groups under a; what b does to each is planted
    A = [[0]] * 4 + [[1]] * 6 + [[2]] * 8 + [[3]] * 3 + [[4]]
    B = (
        [[0, 0, 0]] * 2 + [[0, 1, 0]] * 2  # meets all rules
        + [[1, 0, 0]] * 2 + [[1, 0, 1]] * 2 + [[1, 1, 0]] * 2  # as well, and is larger: chosen
        + [[2, 0, 0]] * 7 + [[2, 1, 0]]  # one branch of a single item
        + [[3, 0, 0], [4, 0, 0], [5, 0, 0]]  # no common first token
        + [[6, 0, 0]]
    )  # fmt: skip

    def test_the_rule_takes_the_largest_group_that_meets_it(self):
        words = ["indoor"] * 2 + ["outdoor"] * 2
        texts = ["x"] * 4 + ["indoor slipper"] * 2 + ["outdoor slipper"] * 2 + ["travel slipper"] * 2 + words * 3
        result = collision_case(table(self.A, (5,)), table(self.B, (7, 2, 2)), texts)
        assert (result["sid"], result["items"], result["groups"]) == ("<a_1>", 6, 2)
        assert result["rules"] == list(RULES)
        assert result["prefixes_per_level"] == [1, 2, 3]
        assert [branch["codes"] for branch in result["branches"]] == [[1, 0, 0], [1, 0, 1], [1, 1, 0]]
        assert [branch["words"] for branch in result["branches"]] == [["indoor"], ["outdoor"], ["travel"]]
        assert result["words"][0] == "slipper"

    def test_rules_are_dropped_one_by_one_and_it_is_said(self):
        keep = [*range(10, 18), *range(18, 21)]
        result = collision_case(table([self.A[i] for i in keep], (5,)), table([self.B[i] for i in keep], (7, 2, 2)))
        assert (result["items"], result["rules"]) == (8, list(RULES[:2]))
        last = collision_case(table(self.A[18:21], (5,)), table(self.B[18:21], (7, 2, 2)))
        assert (last["items"], last["rules"], last["prefixes_per_level"]) == (3, [], [3, 3, 3])

    def test_a_sid_can_be_requested(self):
        result = collision_case(table(self.A, (5,)), table(self.B, (7, 2, 2)), sid=(2,))
        assert [branch["items"] for branch in result["branches"]] == [7, 1]
        with pytest.raises(InputError, match="two or more"):
            collision_case(table(self.A, (5,)), table(self.B, (7, 2, 2)), sid=(4,))

    def test_no_collision_is_said(self):
        with pytest.raises(InputError, match="no collision to follow"):
            collision_case(table([[0], [1]], (2,)), table([[0], [1]], (2,)))


class TestQueryCase:
    def test_items_and_next_tokens_under_the_prefix_are_counted(self):
        codes = [[0, 0, 0], [0, 0, 0], [0, 0, 2], [0, 1, 0], [1, 0, 0]]
        texts = ["hotel towel", "hotel soap", "hotel lamp", "tent", "boat"]
        result = query_case("hotel", (0, 0, 1), table(codes, (2, 2, 3)), 2, texts)
        assert (result["prefix"], result["items"], result["next_tokens"]) == ("<a_0><b_0>", 3, 2)
        assert result["items_per_level"] == [4, 3, 0]
        assert result["words"][0] == "hotel"
        assert [(branch["prefix"], branch["items"]) for branch in result["branches"]] == [
            ("<a_0><b_0><c_0>", 2),
            ("<a_0><b_0><c_2>", 1),
        ]
        assert query_case("hotel", (0, 0, 0), table(codes, (2, 2, 3)), 3)["next_tokens"] is None
        with pytest.raises(SpecError, match="between 1 and 3"):
            query_case("hotel", (0, 0, 0), table(codes, (2, 2, 3)), 4)


SEVERAL = {"prq": prq_kmeans((4, 4, 4)), "rq <b>": rq_kmeans((4, 4, 4))}
UNEVEN = {"two": rq_kmeans((4, 4)), "four": rq_kmeans((2, 4, 2, 4))}


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A shop of three kinds of things, embedded by a saved encoder, with two tokenizers and their SIDs.

    runs/ has all fits of this module, as `compare` keeps them.
    """
    folder = tmp_path_factory.mktemp("shop")
    kinds = ("hotel towel white", "hotel lobby lamp", "camping tent green")
    titles = [f"{kinds[i % 3]} {TITLE if i == 0 else ''} v{i % 17}" for i in range(300)]
    encoder = choose("tfidf", titles, 24)
    X = encoder.embed(titles)
    encoder.save(folder / "items.encoder")
    ids = [f"P{i}" for i in range(300)]
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), X.shape[1])
    pq.write_table(pa.table({"item_id": ids, "title": titles, "embedding": vectors}), folder / "items.parquet")
    fits = compare(X, SEVERAL, [0, 1, 2], folder / "runs").folders
    for name, label in (("a", "rq <b>"), ("b", "prq")):
        shutil.copytree(fits[label][0], folder / f"tok-{name}")
        fitted = load(folder / f"tok-{name}")
        SidTable(ids, fitted.encode(X), fitted.sizes).to_parquet(folder / f"{name}.parquet")
    return folder


def vectors_of(shop):
    return np.stack(pq.read_table(shop / "items.parquet")["embedding"].to_numpy())


@pytest.fixture(scope="module")
def uneven(shop):
    """Two tokenizers with different numbers of levels."""
    return compare(vectors_of(shop), UNEVEN, [0], shop / "runs")


class TestCommands:
    def test_case_collisions_in_every_form(self, shop):
        from sidkit.cli import app

        files = [str(shop / name) for name in ("a.parquet", "b.parquet")]
        output = {
            form: CliRunner().invoke(
                app, ["case", "collisions", *files, "--items", str(shop / "items.parquet"), "--format", form]
            )
            for form in ("table", "json", "markdown", "latex", "csv")
        }
        result = json.loads(output["json"].output)
        assert result["sid"] in output["table"].output
        assert result["branches"][0]["sid"] in output["table"].output
        assert output["markdown"].output.splitlines()[0] == "| branch | L2 | SID | items | keywords |"
        assert r"\toprule" in output["latex"].output
        assert "table, json, markdown, latex" in str(output["csv"].exception)

    def test_case_query_embeds_as_the_items_were_and_lands_among_their_kind(self, shop):
        arguments = ("case", "query", "camping tent", shop / "items.parquet", shop / "tok-a", shop / "tok-b")
        result = json.loads(sidkit(*arguments, "--items", shop / "items.parquet", "--level", "1", "--json"))
        assert list(result) == ["tok-a", "tok-b"]
        for one in result.values():
            assert one["items"] == one["items_per_level"][0] > 0
            assert "tent" in one["words"]
        assert "knows no word of 'zzzz'" in sidkit("case", "query", "zzzz", *arguments[3:], check=1)
        assert "no such encoder folder" in sidkit(*arguments, "--encoder", shop / "none", check=1)

    def test_case_query_takes_a_vector_in_place_of_an_encoder(self, shop, tmp_path):
        rows = pq.read_table(shop / "items.parquet")["embedding"].to_pylist()
        arguments = ("case", "query", "an item", shop / "items.parquet", shop / "tok-a", "--json", "--vector")
        sid = SidTable.from_parquet(shop / "a.parquet").strings()[7].as_py()
        np.save(tmp_path / "query.npy", np.asarray(rows[7:8], np.float32))
        for given in (tmp_path / "query.npy", json.dumps(rows[7])):
            assert json.loads(sidkit(*arguments, given))["tok-a"]["sid"] == sid
        np.save(tmp_path / "two.npy", np.asarray(rows[:2], np.float32))
        assert "--vector needs one vector" in sidkit(*arguments, tmp_path / "two.npy", check=1)
        assert "--vector has 2 dimensions" in sidkit(*arguments, "[1, 2]", check=1)
        assert "--vector must be numbers in brackets" in sidkit(*arguments, "[1, oops]", check=1)
        assert "not all zero" in sidkit(*arguments, json.dumps([0.0] * len(rows[0])), check=1)
        assert "leave out --encoder" in sidkit(*arguments, "[1]", "--encoder", shop / "e.encoder", check=1)

    def test_compare_writes_a_page_beside_its_runs_and_takes_fitted_tokenizers(self, shop, tmp_path):
        arguments = ("-r", f"prq-kmeans,{shop / 'tok-a'}", "--sizes", "4-4-4", "--seeds", "x2", "--map", "pca")
        output = sidkit("compare", shop / "items.parquet", "-o", tmp_path / "compare.html", *arguments)
        assert f"wrote {tmp_path / 'compare.html'}" in output
        assert len(list((tmp_path / "compare-runs").iterdir())) == 2
        page = (tmp_path / "compare.html").read_text()
        assert 'id="pairs"' in page
        assert "camping tent" in page  # the texts of the embeddings' own file
        again = sidkit("compare", shop / "items.parquet", "-o", tmp_path / "compare-runs", *arguments)
        assert "3 runs over seeds 0, 1; 2 were on disk already" in again

    def test_compare_tells_machines_what_one_separates_and_another_merges(self, shop, tmp_path):
        arguments = ("-r", f"{shop / 'tok-a'},{shop / 'tok-b'}", "-o", tmp_path / "compare.html", "--json")
        output = json.loads(sidkit("compare", shop / "items.parquet", *arguments, "--map", "pca"))
        a, b = (str(shop / name) for name in ("tok-a", "tok-b"))
        assert [(one["merged_by"], one["separated_by"]) for one in output["pairs"]] == [(a, b), (b, a)]
        tables = [SidTable.from_parquet(shop / f"{name}.parquet") for name in "ab"]
        texts = pq.read_table(shop / "items.parquet")["title"].to_pylist()
        for one, (first, second) in zip(output["pairs"], (tables, tables[::-1]), strict=True):
            assert one["groups"]
            assert one == {k: one[k] for k in ("merged_by", "separated_by")} | contrast(first, second, texts)
        page = (tmp_path / "compare.html").read_text()
        assert all(group["sid"] in unescape(page) for one in output["pairs"] for group in one["groups"])
        bare = json.loads(sidkit("compare", shop / "items.parquet", *arguments[:2], "-o", tmp_path / "runs", "--json"))
        assert bare == output

    def test_compare_shows_every_level_and_nothing_where_a_tokenizer_has_none(self, shop, uneven, tmp_path):
        folders = uneven.folders
        names = [str(path) for path in (folders["two"][0], shop / "tok-a", folders["four"][0])]
        arguments = ("compare", shop / "items.parquet", "-r", ",".join(names), "-o", tmp_path / "runs")
        figures = json.loads(sidkit(*arguments, "--json"))["figures"]
        assert [len(figures[name][0]["utilisation"]) for name in names] == [2, 3, 4]
        head, _, *rows = sidkit(*arguments, "--format", "markdown").splitlines()
        assert head.split(" | ")[1:6] == ["ICR %", "Util L1 %", "Util L2 %", "Util L3 %", "Util L4 %"]
        cells = [[re.sub(r"</?u>|[ *]", "", cell) for cell in row.strip("|").split("|")] for row in rows]
        there = [[level < levels for level in range(4)] for levels in (2, 3, 4)]
        assert [[bool(cell) for cell in row[2:6]] for row in cells] == there
        assert [[bool(cell) for cell in row[6:]] for row in cells] == there
        assert cells[2][5] == f"{100 * figures[names[2]][0]['utilisation'][3]:.2f}"
        assert "**" not in rows[2].split("|")[6]  # nothing to be better than
        assert "Util L4" in sidkit(*arguments)

    def test_markdown_has_the_best_bold_and_the_second_underlined(self):
        runs = {
            name: [{"icr_per_sid": value, "utilisation": [1.0]}] for name, value in (("a", 0.3), ("b", 0.1), ("c", 0.2))
        }
        rows = Comparison(runs, [0]).markdown().splitlines()[2:]
        assert [row.split(" | ")[1] for row in rows] == ["**30.00**", "10.00", "<u>20.00</u>"]

    def test_a_level_that_is_hardly_used_is_not_shown_as_unused(self):
        run = {"icr_per_sid": 1.0, "utilisation": [1.0, 2.345e-6], "prefix_gini": [0.0, 0.0]}
        result = Comparison({"deep": [run], "flat": [{**run, "utilisation": [1.0], "prefix_gini": [0.0]}]}, [0])
        assert result.cells("deep") == ["100.00", "100.00", "0.00023", "0.000", "0.000"]
        assert result.cells("flat") == ["100.00", "100.00", "", "0.000", ""]
        assert result.ranks() == {"deep": [1, 1, 0, 1, 0], "flat": [1, 1, 0, 1, 0]}


@pytest.fixture(scope="module")
def made(shop, tmp_path_factory):
    """The page of a comparison over three seeds, what it compares, and its figures."""
    folder = tmp_path_factory.mktemp("page")
    ids, texts = (pq.read_table(shop / "items.parquet")[name] for name in ("item_id", "title"))
    X = vectors_of(shop)
    result = compare(X, SEVERAL, [0, 1, 2], shop / "runs")
    assert result.reused == 6
    contenders = contenders_of(result, X, ids)
    figures = comparison_figures(result, contenders, "pca")
    pairs = pairs_of(contenders, texts.to_pylist())
    (folder / "page.html").write_text(compare_page(result, contenders, figures, "Shop & co", pairs))
    return folder / "page.html", result, figures


class TestPage:
    def test_panels_of_a_figure_have_the_same_scales(self, made):
        figures = {figure.name: figure for figure in made[2]}
        for name in ("lorenz", "buckets", "centroids"):
            assert [panel.title for panel in figures[name].panels] == ["prq", "rq <b>"]
            assert len({(panel.x_range, panel.y_range) for panel in figures[name].panels}) == 1

    def test_bars_are_means_and_whiskers_the_spread_of_seeds(self, made):
        _, result, figures = made
        values = [run["icr_per_item"] for run in result.figures["prq"]]
        bar = figures[0].panels[0].series[0]
        assert bar.y[1] == pytest.approx(np.mean(values))
        assert bar.whiskers[1] == pytest.approx(np.std(values, ddof=1))

    def test_bars_of_levels_that_a_tokenizer_has_not_are_left_out_and_their_slots_stay(self, shop, uneven):
        X = vectors_of(shop)
        contenders = contenders_of(uneven, X, np.arange(len(X)))
        figures = comparison_figures(uneven, contenders, "pca")
        panels = {panel.title: panel for panel in figures[0].panels}
        assert [list(one.x) for one in panels["Codes in use"].series] == [[0, 1], [0, 1, 2, 3]]
        deep = panels["Prefix utilisation, level 4"]
        assert [list(one.x) for one in deep.series] == [[], [0]]
        bar = next(mark for mark in lay_out(deep) if isinstance(mark, Rect) and mark.tip)
        assert bar.x > WIDTH / 2  # the second of two; the first slot is empty
        assert "Prefix utilisation, level 4" in compare_page(uneven, contenders, figures, "x", [])

    def test_the_page_fits_a_phone_and_shows_hostile_texts_as_they_are(self, browser, made):
        with watched(browser, viewport={"width": 380, "height": 700}) as page:
            page.goto(made[0].as_uri())
            assert overflows(page) == 0
            assert page.title() == "Shop & co"
            assert page.locator("img, script").count() == 0
            assert "Merged by prq, separated by rq <b>" in page.locator("#pairs").inner_text()
