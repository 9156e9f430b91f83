"""The explorer leads an exact SID to its prefix, suggests nothing twice, clips no count, explains its colours, and
gives each view an address that can be shared."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from browser import watched
from explored import made as made
from explored import pages as pages
from explored import served
from explored import site as site
from sidkit.explore.catalogue import read
from sidkit.explore.pages import Pages
from sidkit.sids.table import SidTable


def visit(page, address):
    page.goto(address)
    page.wait_for_selector("main[aria-busy=false]")


def suggestions(page, query):
    """What is suggested for a query: (title, note, address) each."""
    page.fill("#q", "")
    page.fill("#q", query)
    page.wait_for_selector("#suggestions [role=option]")
    return page.locator("#suggestions [role=option]").evaluate_all(
        "all => all.map(one => [...[...one.children].map(part => part.textContent), one.dataset.href])"
    )


@pytest.mark.parametrize("query", ["<a_3><b_1>", "3-1", " 3,1 "])
def test_an_exact_sid_and_enter_open_its_prefix(page, site, query):
    visit(page, site)
    page.fill("#q", query)
    page.keyboard.press("Enter")
    page.wait_for_url("**/?p=3-1")
    page.wait_for_selector("h1:text('<a_3><b_1>')")


def test_it_opens_in_the_table_that_is_shown(page, site):
    visit(page, f"{site}/?t=b")
    page.fill("#q", "3-1")
    page.keyboard.press("Enter")
    page.wait_for_url("**/?t=b&p=3-1")


def test_a_bare_number_that_is_a_word_as_well_leads_to_results(page, site):
    visit(page, site)
    page.fill("#q", "3")  # a first token, and a word of titles
    page.keyboard.press("Enter")
    page.wait_for_url("**/search?q=3")
    page.fill("#q", "nothing of the kind")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search?q=nothing+of+the+kind")


def test_a_prefix_in_two_tables_is_suggested_with_the_table(page, site):
    visit(page, site)
    found = suggestions(page, "3-1")
    assert [note.split(" in ")[1] for _, note, _ in found[:2]] == ["sids.parquet", "other.parquet"]
    assert len({address for _, _, address in found}) == len(found)


def test_items_that_look_the_same_are_suggested_once(page, tmp_path):
    codes = np.array([[0, 0], [0, 0], [0, 0], [0, 1], [1, 1]])
    SidTable(["a", "b", "c", "d", "e"], codes, (2, 2)).to_parquet(tmp_path / "sids.parquet")
    titles = ["red hat", "red hat", "red hat", "red hat", "red shoe"]
    pq.write_table(pa.table({"item_id": ["a", "b", "c", "d", "e"], "title": titles}), tmp_path / "items.parquet")
    with served(Pages(read(tmp_path / "sids.parquet", items=tmp_path / "items.parquet"))) as address:
        visit(page, address)
        assert sorted(suggestions(page, "red")) == [
            ["red hat", "<a_0><b_0>, 3 items", "/?p=0-0"],
            ["red hat", "<a_0><b_1>", "/item?id=d"],
            ["red shoe", "<a_1><b_1>", "/item?id=e"],
        ]


@pytest.mark.parametrize("width", [1300, 900, 620])
def test_tokens_and_counts_are_shown_whole_or_not_at_all(browser, site, width):
    with watched(browser, viewport={"width": width, "height": 900}) as page:
        for path in ("/", "/?p=3", "/?beside=1"):
            visit(page, site + path)
            cut = page.locator(".twig > span").evaluate_all("""boxes => boxes.flatMap(box => {
                const inside = box.getBoundingClientRect();
                return [...box.children].filter(part => {
                    const shape = part.getBoundingClientRect();
                    const hidden = shape.top >= inside.bottom - 1;
                    return !hidden && (shape.right > inside.right + 1 || shape.bottom > inside.bottom + 1);
                }).map(part => part.textContent);
            })""")
            assert cut == []
            shown = page.locator(".branch i").evaluate_all("""all => all.every(one => {
                const box = one.parentElement.getBoundingClientRect(), shape = one.getBoundingClientRect();
                return shape.right <= box.right && shape.bottom <= box.bottom + 1;
            })""")
            assert shown
        assert page.locator(".twig i").count() > 10


def test_a_legend_says_what_colours_and_sizes_mean(page, site):
    visit(page, site)
    legend = page.locator(".legend").inner_text()
    assert "a branch, as tall as it has items" in legend
    assert "its next tokens, as wide as they have items" in legend
    assert "equal tokens have equal colours" in legend
    colours = page.locator(".swatch").evaluate_all("all => all.map(one => getComputedStyle(one).backgroundColor)")
    assert len(set(colours)) == len(colours) >= 2
    visit(page, f"{site}/?p=3-1")
    assert "a SID, as tall as it has items" in page.locator(".legend").inner_text()


def test_the_address_of_a_view_is_copied_and_shows_the_same_view(browser, site):
    with watched(browser, permissions=["clipboard-read", "clipboard-write"]) as page:
        visit(page, site)
        page.click(".branch >> nth=1")
        page.wait_for_selector(".crumbs")
        page.get_by_role("link", name="token", exact=True).click()
        page.wait_for_url("**sort=token**")
        page.get_by_role("button", name="Side by side").click()
        page.wait_for_url("**beside=1**")
        page.wait_for_selector(".pair .tree >> nth=1")
        page.click("#share")
        page.wait_for_selector("#share:text('Link copied')")
        link = page.evaluate("navigator.clipboard.readText()")
        assert link == page.url
        here = page.locator("main").inner_text()
        page.wait_for_selector("#share:text('Copy link')")
        other = page.context.new_page()
        other.goto(link)
        other.wait_for_selector("main[aria-busy=false]")
        assert other.locator("main").inner_text() == here


def test_where_the_clipboard_is_refused_the_address_is_shown(browser, site):
    with watched(browser) as page:
        visit(page, f"{site}/?p=3")
        page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error('no')); }")
        asked = []
        page.on("dialog", lambda dialog: (asked.append(dialog.default_value), dialog.dismiss()))
        page.click("#share")
        page.wait_for_timeout(200)
        assert asked == [f"{site}/?p=3"]
