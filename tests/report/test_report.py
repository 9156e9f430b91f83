"""The report: the verdict, the figures, the groups it shows, and the page in a real browser."""

import json
import pathlib
import re
from itertools import combinations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from browser import overflows, watched
from command import sidkit
from sidkit.errors import InputError, MissingExtraError, SpecError
from sidkit.measure.neighbours import neighbour_agreement
from sidkit.report.centroids import MOST, joint_map
from sidkit.report.draw.axes import whisker_ends
from sidkit.report.draw.chart import Panel, Series
from sidkit.report.draw.figure import Figure
from sidkit.report.draw.layout import height_of, lay_out
from sidkit.report.draw.marks import WIDTH, Dots, Label, Polyline, Rect, number_text, text_width
from sidkit.report.draw.plots import write_figures
from sidkit.report.draw.svg import figure_svg, panel_svg
from sidkit.report.evidence import assess, gather
from sidkit.report.figures import bucket_panel, lorenz_panel, map_panels, prefix_sizes
from sidkit.report.groups import collision_groups, prefix_tree, typical_prefixes
from sidkit.report.judged_figures import chance_panel
from sidkit.report.limits import LIMITS
from sidkit.report.page import report_page
from sidkit.sids.metrics import METRICS
from sidkit.sids.quality import gini
from sidkit.sids.table import SidTable
from sidkit.tokenizer.recipes import opq_kmeans, prq_kmeans
from sidkit.tokenizer.tokenizer import load

DOCS = pathlib.Path(__file__).parents[2] / "docs"
HOSTILE = (
    "<script>document.title = 'taken'; fetch('http://example.org')</script>",
    "</style></title><img src=x onerror=\"document.title='taken'\">",
    "'\"><svg onload=alert(1)> & <b>bold</b>",
    "{titles} %s {0}",
    "شاي 红茶 \u202eevil\u0000",
)


def evenly_used(n=4096, sizes=(16, 16, 16)):
    """Every SID exactly once, so that every level is used evenly."""
    return SidTable(np.arange(n), np.stack(np.unravel_index(np.arange(n), sizes), axis=1).astype(np.int32), sizes)


def grades(verdict):
    return {finding["short"]: finding["grade"] for finding in verdict["findings"]}


class TestVerdict:
    def test_even_use_without_collisions_is_good(self):
        verdict = assess(evenly_used())["verdict"]
        assert verdict["grade"] == "good"
        assert set(grades(verdict).values()) == {"good"}
        assert [one["value"] for one in verdict["numbers"]] == ["100.0%", "16 of 16", "1"]

    def test_a_collapsed_level_is_called_out_although_collisions_are_low(self):
        n = 3000
        codes = np.stack([np.arange(n) % 48, np.arange(n) // 48 % 256, np.arange(n) % 256], axis=1)
        verdict = assess(SidTable(np.arange(n), codes, (256, 256, 256)))["verdict"]
        assert verdict["grade"] == "poor"
        assert "level 1 has collapsed" in verdict["headline"]
        assert "although few items share a SID" in verdict["headline"]
        assert verdict["numbers"][1]["value"] == "48 of 256"
        text = next(finding["text"] for finding in verdict["findings"] if "level 1" in finding["short"])
        assert "48 of 256" in text
        assert "does not show it" in text

    def test_dead_codes_and_a_few_heavy_codes_both_count_against_a_level(self):
        n = 2000
        heavy = np.where(np.arange(n) < 1800, 0, np.arange(n) % 16)  # all codes occur, one has nine tenths
        codes = np.stack([np.arange(n) % 16, heavy, np.arange(n) // 16], axis=1)
        verdict = assess(SidTable(np.arange(n), codes, (16, 16, 128)))["verdict"]
        assert grades(verdict)["level 2 has collapsed"] == "poor"

    @pytest.mark.parametrize("sharing, grade", [(0.1, "good"), (0.12, "watch"), (0.5, "watch"), (0.52, "poor")])
    def test_sharing_is_graded_by_its_limits(self, sharing, grade):
        n = 1000
        number = np.arange(n)
        number[: int(n * sharing)] //= 2  # so many items in pairs
        codes = np.stack([number % 10, number // 10], axis=1)
        verdict = assess(SidTable(np.arange(n), codes, (10, 100)))["verdict"]
        assert next(finding["grade"] for finding in verdict["findings"] if "share" in finding["text"]) == grade

    def test_fewer_sids_than_items_is_said(self):
        codes = np.stack([np.arange(100) % 4, np.arange(100) // 4 % 4], axis=1)
        assert "there are fewer SIDs than items" in grades(assess(SidTable(np.arange(100), codes, (4, 4)))["verdict"])

    def test_a_level_needs_no_more_codes_than_there_are_items(self):
        codes = np.arange(40)[:, None]
        verdict = assess(SidTable(np.arange(40), codes, (4096,)))["verdict"]
        assert verdict["grade"] == "good"
        texts = [finding["text"] for finding in verdict["findings"]]
        assert any("all of the codes that 40 items can have in use" in text for text in texts)

    def test_nearly_all_codes_are_not_all(self):
        codes = np.arange(2000)[:, None] % 255
        findings = assess(SidTable(np.arange(2000), codes, (256,)))["verdict"]["findings"]
        assert any("at least 99% of its codes in use" in finding["text"] for finding in findings)

    def test_more_codes_are_not_advised_where_those_there_are_lie_idle(self):
        text = {
            finding["short"]: finding["text"]
            for finding in assess(SidTable(range(99), np.zeros((99, 2), int), (64, 64)))["verdict"]["findings"]
        }
        assert "they are not used" in text["most items share a SID"]

    @pytest.mark.parametrize("above", [1.0, 0.3])
    def test_meaning_is_good_down_to_its_first_limit(self, above):
        verdict = assess(evenly_used(), near(above))["verdict"]
        assert verdict["headline"] == (
            "In good shape: every level is used, few items share a SID and near items share tokens."
        )
        assert verdict["numbers"][3]["label"] == "of nearest items share the first token; by chance 1%"

    @pytest.mark.parametrize("above", [0.299, 0.05])
    def test_weak_meaning_wants_care(self, above):
        verdict = assess(evenly_used(), near(above))["verdict"]
        assert verdict["headline"].startswith("Usable, with care: SIDs reflect little of what items are")

    @pytest.mark.parametrize("above", [0.049, 0.0, -0.02])
    def test_sids_that_mean_hardly_more_than_chance_are_not_ready(self, above):
        verdict = assess(evenly_used(), near(above))["verdict"]
        assert (verdict["grade"], verdict["findings"][0]["grade"]) == ("poor", "poor")
        assert verdict["headline"] == (
            "Not ready: SIDs reflect next to nothing of what items are, although few items share a SID."
        )
        assert "by chance it would be 1%. Random SIDs are hardly worse" in verdict["findings"][0]["text"]

    def test_meaning_is_not_judged_where_it_was_not_measured_or_random_sids_would_not_be_known(self):
        plain = assess(evenly_used())["verdict"]
        assert "near items" not in plain["headline"]
        few, one_token = near(0.0, queries=2), near(0.0, chance=0.99)
        one_for_each = {**near(0.0), "most": [0.01], "above_chance": [None]}
        for unknown in (few, one_token, one_for_each):
            assert assess(evenly_used(), unknown)["verdict"] == plain

    @pytest.mark.parametrize("items, size", [(120, 16), (400, 256), (3000, 4), (3000, 512)])
    def test_random_sids_are_known_as_such_wherever_they_are_judged(self, rng, items, size):
        x = rng.normal(size=(items, 8)).astype(np.float32)
        for _ in range(5):
            table = SidTable(np.arange(items), rng.integers(0, size, (items, 1)), (size,))
            neighbours = neighbour_agreement(table.codes, table.sizes, x, queries=500)
            verdict = assess(table, neighbours)["verdict"]
            assert grades(verdict)["SIDs reflect next to nothing of what items are"] == "poor"


def near(above, chance=0.01, queries=500):
    """What `neighbour_agreement` would find where so much of what is possible above chance is reached."""
    share = {"share": [chance + above * (1 - chance)], "chance": [chance], "most": [1.0], "above_chance": [above]}
    return share | {"neighbours": 10, "queries": queries}


class TestFigures:
    def test_the_area_under_a_lorenz_curve_is_its_gini(self):
        counts = np.array([1, 1, 2, 3, 9])
        panel = lorenz_panel("", [np.unique(counts, return_counts=True)], [gini(counts)])
        line = panel.series[1]
        assert (line.x[0], line.y[0], line.x[-1], line.y[-1]) == (0, 0, 1, 1)
        assert 1 - 2 * np.trapezoid(line.y, line.x) == pytest.approx(gini(counts))
        assert f"{gini(counts):.2f}" in line.name

    def test_whiskers_reach_as_far_as_their_intervals_on_either_side(self):
        assert whisker_ends(0.5, 0.1) == pytest.approx((0.4, 0.6))
        assert whisker_ends(0.35, (0.17, 0.06)) == pytest.approx((0.18, 0.41))
        assert whisker_ends(0.1, 0.3)[0] == 0

    def test_the_bucket_curve_counts_prefixes_with_at_least_so_many_items(self):
        line = bucket_panel("", [(np.array([1, 3]), np.array([2, 1]))]).series[0]
        assert list(zip(line.x, line.y, strict=True)) == [(1, 3), (1, 3), (1, 1), (3, 1), (3, 1)]

    def test_lines_are_thinned_but_keep_their_ends(self):
        counts = np.arange(1, 5000)
        line = bucket_panel("", [(counts, np.ones_like(counts))]).series[0]
        assert len(line.x) < 400
        assert (line.x[0], line.y[0], line.x[-1]) == (1, 4999, 4999)

    def test_every_mark_lies_in_its_box(self, rng):
        table = SidTable(np.arange(500), rng.integers(0, (32, 16, 8), (500, 3)), (32, 16, 8))
        facts = gather(table)
        maps = map_panels({"": [rng.normal(size=(9, 2)) for _ in range(3)]})
        for panel in [panel for figure in facts.figures for panel in figure.panels] + maps:
            for x, y in points_of(lay_out(panel)):
                assert -1 <= x <= WIDTH + 1, panel.title
                assert -1 <= y <= height_of(panel) + 1, panel.title

    def test_a_taller_bar_is_drawn_taller_and_a_whisker_spans_its_spread(self):
        panel = Panel("", "", "", [Series("a", [0, 1], [0.2, 0.4], 0, "bars", [0.1, 0.0])], names=["x", "y"])
        marks = lay_out(panel)
        bars = [mark for mark in marks if isinstance(mark, Rect) and mark.tip]
        assert bars[1].height == pytest.approx(2 * bars[0].height)
        whisker = next(mark for mark in marks if isinstance(mark, Polyline) and mark.style == "whisker")
        assert whisker.points[0][1] - whisker.points[1][1] == pytest.approx(bars[0].height)  # 0.3 - 0.1 = 0.2

    def test_a_bar_below_zero_hangs_from_it_with_its_value_underneath(self):
        bars = {"purity": [0.5, 0.6], "NMI, adjusted": [-0.1, 0.2]}
        marks = lay_out(chance_panel("", bars))
        up, _, down, _ = (mark for mark in marks if isinstance(mark, Rect) and mark.tip)
        zero = next(mark.points[0][1] for mark in marks if isinstance(mark, Polyline) and mark.style == "axis")
        assert (up.y + up.height, down.y) == pytest.approx((zero, zero))
        assert down.height == pytest.approx(up.height / 5)
        value = next(mark for mark in marks if isinstance(mark, Label) and mark.text == "-10%")
        assert value.y > down.y + down.height
        assert down.tip == "NMI, adjusted, 1: -10%"

    @pytest.mark.parametrize("many", [1, 2, 3, 8, 10, 12])
    @pytest.mark.parametrize("groups", [1, 2, 3, 5])
    def test_words_never_lie_on_one_another_and_values_are_shown_where_there_is_room(self, many, groups):
        series = [
            Series(f"tokenizer number {i}", range(groups), [1 - 0.11 * i - 0.02 * g for g in range(groups)], i, "bars")
            for i in range(many)
        ]
        panel = Panel("Title", "level", "share", series, percent=True, names=[f"{g} (1,024)" for g in range(groups)])
        labels = [mark for mark in lay_out(panel) if isinstance(mark, Label)]
        for a, b in combinations(map(box_of, labels), 2):
            assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1], (a, b)
        assert all(box[0] >= -1 and box[2] <= WIDTH + 1 and box[3] <= height_of(panel) for box in map(box_of, labels))
        values = [label for label in labels if label.style == "value"]
        assert len(values) == (many * groups if many * groups <= 30 else 0)
        assert max(mark.height for mark in lay_out(panel) if isinstance(mark, Rect) and mark.tip) > 75

    def test_long_names_keep_their_ends_and_stand_upright_where_there_are_many(self):
        name = "/home/somebody/" + "folder/" * 20 + "tok"
        panel = Panel(name, "", "", [Series(name, range(9), range(9), 0, "bars")], names=["256-256-256"] * 9)
        labels = [mark for mark in lay_out(panel) if isinstance(mark, Label)]
        for style in ("title", "legend"):
            cut = next(label.text for label in labels if label.style == style)
            assert text_width(cut, style) <= WIDTH
            assert cut.startswith("/home/some")
            assert cut.endswith("/tok")
        assert [label.turned for label in labels if label.text == "256-256-256"] == [True] * 9

    @pytest.mark.parametrize(
        "value, percent, text",
        [(0.5, True, "50%"), (0.0123, True, "1.2%"), (3e-8, True, "0%"), (1, True, "100%"), (12345, False, "12.3k")],
    )
    def test_numbers_are_printed_short(self, value, percent, text):
        assert number_text(value, percent) == text

    def test_files_are_what_they_say_and_the_same_every_time(self, tmp_path):
        figure = Figure("one", "", "", [Panel("A & <B> $x_1$", "x", "y", [Series("<i>", [1, 2], [3, 4])])])
        for folder in ("a", "b"):
            write_figures([figure], tmp_path / folder)
        starts = {"svg": b"<svg", "png": b"\x89PNG", "pdf": b"%PDF"}
        for form, start in starts.items():
            first, second = ((tmp_path / folder / f"one.{form}").read_bytes() for folder in "ab")
            assert first.startswith(start)
            assert first == second
        assert "<i>" not in figure_svg(figure)

    def test_without_matplotlib_the_extra_is_named_and_svg_still_works(self, tmp_path, monkeypatch):
        monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
        figure = Figure("one", "", "", [Panel("", "", "", [Series("", [1], [1])])])
        with pytest.raises(MissingExtraError, match=r"sidkit\[report\]"):
            write_figures([figure], tmp_path)
        assert [path.name for path in write_figures([figure], tmp_path, ["svg"])] == ["one.svg"]
        with pytest.raises(SpecError, match="svg, png, pdf"):
            write_figures([figure], tmp_path, ["jpeg"])


def box_of(label):
    """Left, top, right and bottom of a label's letters, which stand on its y."""
    long, high = text_width(label.text, label.style), 0.75 * {"title": 13, "value": 10}.get(label.style, 11)
    before = {"start": 0.0, "middle": long / 2, "end": long}[label.anchor]
    if label.turned:
        return label.x - high, label.y - long + before, label.x, label.y + before
    return label.x - before, label.y - high, label.x - before + long, label.y


def points_of(marks):
    for mark in marks:
        match mark:
            case Polyline(points) | Dots(points):
                yield from points
            case Rect(x, y, width, height):
                yield from ((x, y), (x + width, y + height))
            case Label(x, y):
                yield x, y


class TestCentroidMap:
    def test_pca_keeps_the_distances_of_points_on_a_plane(self, rng):
        plane = rng.normal(size=(20, 2)) @ np.linalg.qr(rng.normal(size=(6, 2)))[0].T
        (a, b), method = joint_map([plane[:12], plane[12:]], "pca")
        assert method == "PCA"
        assert (len(a), len(b)) == (12, 8)
        assert np.linalg.norm(a[0] - b[0]) == pytest.approx(np.linalg.norm(plane[0] - plane[12]))

    def test_tsne_keeps_two_far_groups_apart(self, rng):
        pytest.importorskip("sklearn")
        (a, b), method = joint_map([rng.normal(size=(30, 8)), rng.normal(size=(30, 8)) + 20], "auto")
        assert method == "t-SNE"
        middle = np.linalg.norm(a.mean(axis=0) - b.mean(axis=0))
        assert middle > np.linalg.norm(a - a.mean(axis=0), axis=1).max()

    def test_spaces_of_different_dimension_have_no_joint_map(self, rng):
        assert joint_map([rng.normal(size=(4, 3)), rng.normal(size=(4, 2))]) == ([], "")

    def test_of_too_many_centroids_the_larger_codebooks_are_sampled(self, rng):
        def shown(*sizes):
            points, _ = joint_map([rng.normal(size=(size, 2)) for size in sizes], "pca")
            return [len(part) for part in points]

        assert shown(5000, 100) == [MOST - 100, 100]
        assert shown(4000, 3000, 100) == [(MOST - 100) // 2, (MOST - 100) // 2, 100]
        assert shown(*[1024, 512, 128] * 3) == [725, 512, 128] * 3

    def test_zero_centroids_take_no_place_of_others(self, rng):
        book = np.concatenate([rng.normal(size=(MOST - 10, 2)), np.zeros((100, 2))])
        points, _ = joint_map([book, rng.normal(size=(10, 2))], "pca")
        assert [len(part) for part in points] == [MOST - 10, 10]

    def test_all_centroids_of_two_tokenizers_of_the_papers_sizes_are_shown(self, rng):
        sizes = (1024, 512, 128) * 2
        points, _ = joint_map([rng.normal(size=(size, 3)) for size in sizes], "pca")
        assert [len(part) for part in points] == list(sizes)

    def test_levels_have_markers_of_their_own_on_a_page_too(self, rng):
        (panel,) = map_panels({"": [rng.normal(size=(5, 2)) for _ in range(3)]})
        shapes = re.findall(r'<path class="dots t\d" d="M[\d.]+ [\d.]+(m[^M"]+)', panel_svg(panel))
        assert len(set(shapes)) == 3

    def test_an_unknown_method_is_an_error(self, rng):
        with pytest.raises(SpecError, match="auto, tsne, pca"):
            joint_map([rng.normal(size=(4, 3))], "umap")


class TestGroups:
    def table(self):
        codes = [[0, 0], [0, 0], [0, 0], [0, 1], [1, 0], [1, 0], [1, 1], [2, 0]]
        return SidTable([f"i{i}" for i in range(8)], np.array(codes), (4, 2))

    def test_the_most_crowded_sid_comes_first_and_equal_texts_are_counted(self):
        texts = ["red mug", "red mug", "blue mug", "hat", "left shoe", "right shoe", "sock", "lamp"]
        groups = collision_groups(self.table(), texts)
        assert [(group["sid"], group["items"]) for group in groups] == [("<a_0><b_0>", 3), ("<a_1><b_0>", 2)]
        assert groups[0]["texts"] == ["red mug", "red mug", "blue mug"]
        assert groups[0]["different_texts"] == 2
        assert "mug" in groups[0]["words"]

    def test_without_texts_ids_are_shown(self):
        assert collision_groups(self.table(), None)[0]["ids"] == ["i0", "i1", "i2"]

    def test_no_collision_no_group(self):
        assert collision_groups(evenly_used(64, (4, 4, 4)), None) == []

    def test_the_tree_names_what_sets_branches_apart(self):
        codes = np.repeat([[0, 0, 0], [0, 1, 0], [1, 0, 0]], 10, axis=0)
        texts = ["green tea"] * 10 + ["black tea"] * 10 + ["office lamp"] * 10
        tree = prefix_tree(SidTable(np.arange(30), codes, (2, 2, 2)), texts)
        assert [(top["prefix"], top["items"]) for top in tree] == [("<a_0>", 20), ("<a_1>", 10)]
        assert tree[0]["words"][0] == "tea"
        assert [branch["words"] for branch in tree[0]["branches"]] == [["green"], ["black"]]
        assert tree[0]["branches"][0]["branches"][0]["texts"] == ["green tea", "green tea"]

    def test_typical_prefixes_leave_giants_and_dwarfs_out(self):
        codes = np.concatenate([np.zeros(900, int), np.repeat([1, 2, 3, 4], 50), [5]])[:, None]
        assert typical_prefixes(SidTable(np.arange(1101), codes, (6,)), 4) == [1, 2, 3, 4]


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """Two kinds of items with hostile titles among them, a tokenizer and its SIDs, as files."""
    folder = tmp_path_factory.mktemp("shop")
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 12, 600)
    X = (rng.normal(size=(12, 16))[kind] + 0.3 * rng.normal(size=(600, 16))).astype(np.float32)
    X[:60] = X[0]  # one SID for all hostile titles, so that they are shown
    titles = [HOSTILE[i % 5] if i < 60 else f"thing of kind{kind[i]} number {i}" for i in range(600)]
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 16)
    ids = [f"P{i}" for i in range(600)]
    categories = [f"K{k} > <i>{k % 3}" for k in kind]
    columns = {"item_id": ids, "title": titles, "category": categories, "embedding": vectors}
    pq.write_table(pa.table(columns), folder / "items.parquet")
    walks = [[ids[i] for i in rng.permutation(np.flatnonzero(kind == k))[:8]] for k in range(12)]
    pq.write_table(pa.table({"user": range(12), "items": walks}), folder / "sequences.parquet")
    fitted = prq_kmeans((8, 8, 4)).fit(X, seed=0)
    fitted.save(folder / "tok")
    SidTable(ids, fitted.encode(X), fitted.sizes).to_parquet(folder / "sids.parquet")
    return folder


@pytest.fixture(scope="module")
def written(shop):
    """What the command prints as JSON, having written the page and the figures."""
    output = sidkit(
        "report", shop / "sids.parquet", shop / "tok", "--items", shop / "items.parquet", "--category", "category",
        "--sequences", shop / "sequences.parquet", "-o", shop / "report.html", "--figures", shop / "figures", "--json",
        "--map", "pca",
    )  # fmt: skip
    return json.loads(output)


@pytest.fixture(scope="module")
def product():
    """A tokenizer without residual levels, fitted on 300 rows of 7 dimensions."""
    X = np.random.default_rng(0).normal(size=(300, 7)).astype(np.float32)
    return opq_kmeans((8, 8)).fit(X, seed=0)


JUDGED = ["behaviour", "counting", "neighbours", "categories"]
FIGURES = ["utilisation", "lorenz", "buckets", "carryover", "tokens", "centroids", *JUDGED]


class TestCommand:
    def test_all_inputs_give_all_sections_all_figures_and_json(self, shop, written):
        page = (shop / "report.html").read_text()
        for anchor in (*FIGURES, "formulas", "levels", "groups", "tree", "limits"):
            assert f'<section id="{anchor}"' in page
            assert page.split("<nav")[1].split("</nav>")[0].count(f'href="#{anchor}"') == 1
        assert sorted(path.name for path in (shop / "figures").iterdir()) == sorted(
            f"{name}.{form}" for name in FIGURES for form in ("svg", "png", "pdf")
        )
        assert written["sizes"] == [8, 8, 4]
        assert written["carryover"]["passed_on"] == pytest.approx([0, 0, 0], abs=1e-6)
        assert written["behaviour"]["transitions"] == 12 * 7
        assert written["verdict"]["headline"] in page

    def test_sids_dealt_out_at_random_are_not_ready_although_they_were_usable(self, shop, tmp_path):
        table = SidTable.from_parquet(shop / "sids.parquet")
        shuffled = np.random.default_rng(0).permutation(table.codes)
        SidTable(table.ids, shuffled, table.sizes).to_parquet(tmp_path / "shuffled.parquet")
        nothing = "SIDs reflect next to nothing of what items are"
        output = sidkit("report", tmp_path / "shuffled.parquet", "--items", shop / "items.parquet")
        headline = output.splitlines()[0]
        assert headline.startswith("Not ready")
        assert nothing in headline
        assert nothing not in sidkit("report", shop / "sids.parquet", "--items", shop / "items.parquet")
        assert nothing not in sidkit("report", tmp_path / "shuffled.parquet")  # without vectors nobody knows

    def test_every_collision_formula_is_printed_with_its_value(self, shop, written):
        page = re.sub(' data-label="[^"]*"', "", (shop / "report.html").read_text())
        codes = SidTable.from_parquet(shop / "sids.parquet").codes
        counts = np.unique(codes, axis=0, return_counts=True)[1]
        alone, n, distinct = (counts == 1).sum(), len(codes), len(counts)
        values = [alone / distinct, alone / n, 1 - alone / n, (n - distinct) / n]
        names = ("icr_per_sid", "icr_per_item", "collision_per_item", "surplus_per_item")
        for name, value in zip(names, values, strict=True):
            term, formula = METRICS[name].term, METRICS[name].formula
            assert written[name] == pytest.approx(value)
            assert f"<td>{term}</td><td><code>{formula}</code></td><td><b>{value:.2%}</b></td>" in page

    def test_the_page_asks_for_nothing_and_says_what_to_look_for(self, shop, written):
        page = (shop / "report.html").read_text()
        assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//|@import|url\(""", page)
        assert page.count("Look for:") == len(FIGURES) + 5
        assert "<script" not in page

    def test_without_output_the_verdict_and_the_table_are_printed(self, shop):
        output = sidkit("report", shop / "sids.parquet")
        assert assess(SidTable.from_parquet(shop / "sids.parquet"))["verdict"]["headline"] in output
        assert output.splitlines()[-3].split()[:2] == ["1", "8"]

    def test_wrong_input_is_named_before_any_work(self, shop, tmp_path):
        sids, items = shop / "sids.parquet", shop / "items.parquet"
        prq_kmeans((4, 4)).fit(np.random.default_rng(0).normal(size=(50, 4)), seed=0).save(tmp_path / "other")
        assert "sizes (4, 4)" in sidkit("report", sids, tmp_path / "other", check=1)
        assert "--items" in sidkit("report", sids, "--category", "category", check=1)
        assert "no column 'titel'" in sidkit("report", sids, "--items", items, "--text", "titel", check=1)
        assert "svg, png, pdf" in sidkit("report", sids, "--figures", tmp_path, "--formats", "gif", check=1)
        assert not list(tmp_path.glob("*.html"))

    def test_a_tokenizer_without_residual_levels_has_no_carryover_and_no_map(self, product):
        evidence = gather(SidTable(np.arange(300), product.fit_codes, product.sizes), product)
        assert "carryover" not in evidence.facts
        assert "centroids" not in [figure.name for figure in evidence.figures]

    @pytest.mark.parametrize("n", [1, 2, 7])
    @pytest.mark.parametrize("sizes", [(1,), (3,), (2, 3), (2, 2, 2, 2, 2)])
    def test_the_smallest_tables_have_a_page_too(self, rng, n, sizes):
        table = SidTable(np.arange(n), rng.integers(0, sizes, (n, len(sizes))), sizes)
        for texts in (None, [""] * n):
            assert report_page(gather(table, texts=texts), "small").count("<svg") == 3 + len(sizes)

    def test_items_without_a_sid_do_not_count_and_may_have_bad_vectors(self, shop, product, tmp_path):
        from sidkit.data.embeddings import open_embeddings

        table, fitted = SidTable.from_parquet(shop / "sids.parquet"), load(shop / "tok")
        X = np.stack(pq.read_table(shop / "items.parquet")["embedding"].to_numpy())
        ids = [*table.ids.to_pylist(), "no SID"]
        rows = [*X.tolist(), [0.0] * 16]
        pq.write_table(
            pa.table({"item_id": ids, "embedding": pa.array(rows, pa.list_(pa.float32()))}), tmp_path / "e.parquet"
        )
        facts = gather(table, fitted, open_embeddings(tmp_path / "e.parquet"), map_by="pca").facts
        assert facts["carryover"]["rows"] == facts["neighbours"]["items"] == 600
        with pytest.raises(InputError, match="16 dimensions, but the tokenizer was fitted on 7"):
            gather(table, product, open_embeddings(tmp_path / "e.parquet"))

    def test_the_page_does_not_grow_with_the_items(self, rng):
        sizes = (512, 256, 64)
        pages = []
        for n in (2_000, 200_000):
            table = SidTable(np.arange(n), rng.integers(0, sizes, (n, 3)), sizes)
            pages.append(report_page(gather(table, texts=["a thing with a title"] * n), "big"))
        assert len(pages[1]) < 1.5 * len(pages[0]) < 150_000


class TestInTheBrowser:
    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_the_page_fits_a_phone_and_stays_silent(self, browser, shop, written, scheme):
        with watched(browser, viewport={"width": 380, "height": 700}, color_scheme=scheme) as page:
            page.goto((shop / "report.html").as_uri())
            assert overflows(page) == 0
            ink, paper = page.evaluate("(s => [s.color, s.backgroundColor])(getComputedStyle(document.body))")
            assert (lightness(ink) > lightness(paper)) == (scheme == "dark")
            assert page.locator("svg").first.bounding_box()["width"] > 250

    def test_hostile_titles_are_shown_as_they_are_and_do_nothing(self, page, shop, written):
        page.goto((shop / "report.html").as_uri())
        assert page.title() == "sids"
        assert page.locator("img, script, b:text('bold')").count() == 0
        shown = page.locator("#groups").inner_text()
        assert HOSTILE[0] in shown
        assert HOSTILE[2] in shown
        assert HOSTILE[3] in shown

    def test_contents_lead_to_their_sections_and_figures_have_names(self, page, shop, written):
        page.goto((shop / "report.html").as_uri())
        links = page.locator("nav a").evaluate_all("all => all.map(one => one.getAttribute('href'))")
        assert all(page.locator(link).is_visible() for link in links)
        page.locator("nav a").last.click()
        assert page.url.endswith(links[-1])
        names = page.locator("svg").evaluate_all("all => all.map(one => one.getAttribute('aria-label'))")
        assert all(names)
        assert len(names) == page.locator("svg[role=img]").count()

    def test_on_paper_everything_is_dark_on_white(self, browser, shop, written):
        with watched(browser, color_scheme="dark") as page:
            page.goto((shop / "report.html").as_uri())
            page.emulate_media(media="print")
            ink, paper = page.evaluate("(s => [s.color, s.backgroundColor])(getComputedStyle(document.body))")
            assert lightness(ink) < 100 < lightness(paper)
            assert not page.locator("nav").is_visible()


def lightness(colour):
    return sum(map(float, re.findall(r"[\d.]+", colour)[:3])) / 3


def test_prefix_sizes_are_worked_by_hand():
    sizes = prefix_sizes(np.array([[0, 0], [0, 1], [0, 1], [1, 0]]), (2, 2))
    assert [[part.tolist() for part in level] for level in sizes] == [[[1, 3], [1, 1]], [[1, 2], [2, 1]]]


def test_the_document_on_reading_it_has_the_limits_the_formulas_and_the_pictures():
    text = (DOCS / "reading-the-report.md").read_text()
    for name, limit in LIMITS.items():
        assert f"| {name} | {limit.measured_as} | {limit.text(limit.watch)} | {limit.text(limit.poor)} |" in text
    for metric in METRICS.values():
        kind = "level" if metric.per_level else "all items"
        row = f"| `{metric.name}` | {metric.formula} | {kind} | {metric.better} | {metric.equation or '–'} |"
        assert row in text, f"missing from the table of figures: {row}"
        if metric.used_by and not metric.per_level:
            assert f"| {metric.term} | {metric.formula} | `{metric.name}` | {metric.used_by} |" in text
    pictures = re.findall(r"\]\((images/[^)]+)\)", text)
    assert len(pictures) == 11
    for picture in pictures:
        assert 0 < (DOCS / picture).stat().st_size < 150_000
