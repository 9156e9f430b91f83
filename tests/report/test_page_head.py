"""Where a page comes from, what its verdict links to, and its tables on a narrow screen."""

import re
import time
from html import unescape

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from browser import overflows, watched
from command import sidkit
from sidkit.report.centroids import near_twins
from sidkit.report.compare_page import compare_page
from sidkit.report.comparison import Comparison
from sidkit.report.contenders import Contender
from sidkit.report.evidence import assess
from sidkit.report.findings import repeated_centroids, repetition
from sidkit.report.made import Made, made_list, sids_digest
from sidkit.sids.quality import quality
from sidkit.sids.separable import separable
from sidkit.sids.table import SidTable


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A folder with items of which two and two are alike, an RQ-KMeans tokenizer, SIDs and a page.

    Vectors differ in length most of all, so that what is left of them lies along their centroid.
    """
    folder = tmp_path_factory.mktemp("head")
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(20, 12))[rng.integers(0, 20, 400)] * rng.uniform(0.3, 3, (400, 1))).astype(np.float32)
    X += 0.05 * rng.normal(size=X.shape).astype(np.float32)
    X[1::2] = X[::2]
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 12)
    titles = [f"title {i}" for i in range(400)]
    columns = {"item_id": [f"P{i:03}" for i in range(400)], "title": titles, "embedding": vectors}
    pq.write_table(pa.table(columns), folder / "items.parquet")
    rq = ("-r", "rq-kmeans", "--set", "normalize=false", "--sizes", "16-16-64")
    sidkit("fit", "items.parquet", "-o", "tok", *rq, cwd=folder)
    sidkit("encode", "tok", "items.parquet", "-o", "sids.parquet", cwd=folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOURCE_DATE_EPOCH", "1700000000")
        words = ("report", "sids.parquet", "tok", "--items", "items.parquet", "-o", "page.html", "--map", "pca")
        printed = sidkit(*words, cwd=folder)
    return folder, printed


def test_the_head_has_the_time_the_command_the_files_and_their_fingerprints(shop):
    folder, _ = shop
    head = unescape((folder / "page.html").read_text().split("<header>")[1].split("</header>")[0])
    table = SidTable.from_parquet(folder / "sids.parquet")
    assert "2023-11-14 22:13 UTC by sidkit" in head
    assert "sidkit report sids.parquet tok --items items.parquet -o page.html --map pca" in head
    assert f"sids.parquet, fingerprint {sids_digest(table)}" in head
    assert f"tok, fingerprint {table.origin.tokenizer_digest}" in head
    assert f"items.parquet, fingerprint {table.origin.embeddings_digest}" in head


def test_the_fingerprint_of_sids_depends_on_items_codes_sizes_and_order():
    codes = np.array([[0, 1], [1, 0]])
    digests = {
        sids_digest(SidTable(ids, of, sizes))
        for ids, of, sizes in (
            (["a", "b"], codes, (2, 2)),
            (["a", "c"], codes, (2, 2)),
            (["ab", ""], codes, (2, 2)),
            (["b", "a"], codes[::-1], (2, 2)),
            (["a", "b"], codes[::-1], (2, 2)),
            (["a", "b"], codes, (2, 3)),
        )
    }
    assert len(digests) == 6
    assert sids_digest(SidTable(["a", "b"], codes, (2, 2))) in digests


def test_names_in_the_head_are_text():
    shown = made_list(Made("sidkit report '<b>.parquet'", [("SIDs", "<script>")]))
    assert "<b>" not in shown
    assert "&lt;script&gt;" in shown
    assert made_list(Made()).count("<dt>") == 1


def test_items_that_share_a_sid_are_listed_with_their_ids_below_a_link(shop):
    folder, printed = shop
    page = (folder / "page.html").read_text()
    assert '<a href="#groups">Listed below</a>' in page
    groups = page.split('<section id="groups"')[1].split("</section>")[0]
    pairs = re.findall(r'<span class="id">P(\d{3})</span> title (\d+)<', groups)
    assert len(pairs) >= 8
    assert all(int(item) == int(title) for item, title in pairs)
    assert "below" not in printed


def test_a_warning_of_shared_sids_suggests_spread_where_it_would_help(shop):
    _, printed = shop
    assert "Encoding with --spread would give all items a SID to themselves" in printed

    def text(codes, sizes, **options):
        findings = assess(SidTable(np.arange(len(codes)), codes, sizes), **options)["verdict"]["findings"]
        return next(one["text"] for one in findings if "share a SID" in one["short"])

    twins = np.repeat(np.arange(8), 2)
    codes = np.stack([twins // 2, twins % 2], 1)
    assert "give all items a SID" in text(codes, (4, 8))
    assert "--spread" not in text(codes, (4, 8), spreads=False)  # the last level cannot say what a code costs
    assert "--spread" not in text(codes, (4, 2))  # four items for two codes
    assert "give up to 71.4% of the items" in text(np.array([[0, 0]] * 3 + [[1, 0]] * 4), (2, 3))


def test_room_for_items_is_worked_by_hand():
    codes = [[0, 0], [0, 0], [0, 1], [1, 1], [1, 1]]
    assert separable(codes, (2, 2)) == 3 / 5  # one of three alone under the first prefix, both under the second
    assert separable(codes, (2, 3)) == 1
    assert separable([[0], [0], [0]], (3,)) == 1
    assert separable([[0], [0], [0]], (2,)) == 1 / 3


def test_what_a_level_passes_on_is_in_the_verdict(shop):
    page = (shop[0] / "page.html").read_text()
    found = re.search(r"Level (\d) passes on ([\d.]+)% of its residual .*? ([\d.]+) times what chance would", page)
    assert found
    assert '<a href="#carryover">Shown below</a>' in page
    carried = {"passed_on": [0.02, 0.3, 0.9], "isotropic": 0.1}
    (finding,) = repetition(carried, last_is_level=True)
    assert (finding.grade, finding.short) == ("watch", "level 3 repeats level 2")
    assert repetition(carried, last_is_level=False)[0].grade == "poor"
    assert repetition({"passed_on": [0.0, 0.9], "isotropic": 0.1}, True)[0].grade == "good"
    assert repetition({"passed_on": [0.9], "isotropic": 0.1}, True) == []


def test_centroids_that_repeat_each_other_are_in_the_verdict():
    book = np.eye(10)
    assert near_twins(book) == 0
    book[5:] = book[:5] + 0.01
    assert near_twins(book) == 1
    book[5:9] = -np.eye(10)[:4]
    assert near_twins(book) == 0.2
    assert near_twins(np.zeros((4, 3))) == 0
    assert [one.grade for share in (0.3, 0.5, 0.8) for one in repeated_centroids([0.0, share])] == [
        "good",
        "watch",
        "poor",
    ]
    assert repeated_centroids([0.0, 0.8])[0].short == "centroids of level 2 repeat each other"
    assert repeated_centroids([]) == []


@pytest.mark.parametrize("shared, grade", [(0, "good"), (40, "watch"), (90, "poor")])
def test_the_colour_of_a_comparison_is_that_of_its_worst_verdict(shared, grade):
    every = np.stack(np.unravel_index(np.arange(256), (16, 16)), 1)
    worse = np.concatenate([every[: 256 - shared], every[:shared]])
    tables = {"a": SidTable(np.arange(256), every, (16, 16)), "b": SidTable(np.arange(256), worse, (16, 16))}
    comparison = Comparison({label: [quality(one.codes, one.sizes)] for label, one in tables.items()}, [0])
    page = compare_page(comparison, [Contender(label, one, []) for label, one in tables.items()], [], "x", [])
    assert f'<div class="verdict {grade}">' in page


def until(true, seconds=5):
    """Wait until it is; the policy of a page refuses what playwright's own waiting would evaluate."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


class TestInTheBrowser:
    def test_a_narrow_table_of_words_keeps_its_headings_and_another_scrolls_visibly(self, browser, shop):
        with watched(browser, viewport={"width": 360, "height": 700}) as page:
            page.goto((shop[0] / "page.html").as_uri())
            assert overflows(page) == 0
            label = "(cell => getComputedStyle(cell, '::before').content)"
            cells = page.locator("#formulas tbody tr").first.locator("td")
            shown = [cells.nth(i).evaluate(label) for i in range(4)]
            assert shown == ['"name"', '"formula"', '"value"', '"as used by"']
            wide = page.locator("#levels .wide")
            assert wide.evaluate("box => box.scrollWidth > box.clientWidth")
            assert "gradient" in wide.evaluate("box => getComputedStyle(box).backgroundImage")
            assert page.locator("#levels thead th").first.is_visible()
            wide.focus()
            page.keyboard.press("ArrowRight")
            until(lambda: wide.evaluate("box => box.scrollLeft") > 0)
            first = page.locator("#levels tbody td").first.bounding_box()
            assert first["x"] == pytest.approx(wide.bounding_box()["x"], abs=1)  # the level stays in sight

    def test_the_link_of_a_finding_leads_to_what_it_is_about(self, page, shop):
        page.goto((shop[0] / "page.html").as_uri())
        page.get_by_role("link", name="Listed below").first.click()
        assert page.url.endswith("#groups")
        until(lambda: page.locator("#groups").evaluate("one => one.getBoundingClientRect().top < innerHeight"))
