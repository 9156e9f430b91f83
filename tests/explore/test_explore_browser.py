"""The explorer as a person meets it: a real browser on the real page."""

import re
import time

import pytest

from browser import overflows, watched
from explored import HOSTILE, large_shop, served
from explored import pages as pages
from explored import site as site
from sidkit.explore.catalogue import read
from sidkit.explore.pages import Asked, Pages

pytest.importorskip("uvicorn")


def ready(page):
    page.wait_for_selector("main[aria-busy=false]")


def visit(page, address):
    page.goto(address)
    ready(page)


def until(page, text):
    """Wait for this heading."""
    page.wait_for_function("text => document.querySelector('h1')?.textContent === text", arg=text)


def heading(page):
    return page.inner_text("h1")


def query(page):
    return page.evaluate("location.pathname + location.search")


def test_typing_suggests_and_enter_opens_what_was_chosen(page, site):
    visit(page, site)
    page.keyboard.press("/")
    page.keyboard.type("blue sho")
    page.wait_for_selector("#suggestions [role=option]")
    suggested = page.locator("#suggestions .title").all_inner_texts()
    assert suggested
    assert all("blue shoe" in text for text in suggested)
    page.keyboard.press("ArrowDown")
    chosen = page.locator("#suggestions [aria-selected=true]")
    assert page.get_attribute("#q", "aria-activedescendant") == chosen.get_attribute("id")
    page.keyboard.press("Enter")
    page.wait_for_url("**/item?id=*")
    until(page, suggested[0])
    assert page.locator("#suggestions").is_hidden()


def test_a_pasted_sid_leads_to_its_prefix_and_words_to_pages_of_results(page, site):
    visit(page, site)
    page.fill("#q", "<a_3><b_1>")
    page.wait_for_selector("#suggestions [role=option]")
    page.click("#suggestions [role=option] >> nth=0")
    page.wait_for_url("**/?p=3-1")
    until(page, "<a_3><b_1>")
    page.fill("#q", "red")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search?q=red")
    page.wait_for_selector(".items li >> nth=24")  # the last page had fewer, and stays until the results are there
    assert page.locator(".items li").count() == 25
    page.click("[aria-label='Next results']")
    page.wait_for_url("**/search?q=red&page=2")


def test_descending_and_going_back_by_every_control(page, site):
    visit(page, site)
    assert heading(page) == "All items"
    first = page.locator(".branch").first
    token = first.locator("b").inner_text()
    first.click()
    until(page, token)
    below = query(page)
    twig = page.locator(".twig[href]").first
    twig.click()
    page.wait_for_selector(".crumbs li >> nth=3")
    deep = query(page)
    assert deep.count("-") == 2
    page.go_back()
    until(page, token)
    assert query(page) == below
    page.go_forward()
    page.wait_for_selector(".crumbs li >> nth=3")
    page.reload()
    ready(page)
    assert query(page) == deep
    page.click(".crumbs a >> nth=0")
    until(page, "All items")
    with watched(page.context.browser) as other:  # an address means the same to somebody else
        visit(other, site + deep)
        assert other.locator(".crumbs li").count() == 4


def test_back_returns_to_the_place_on_the_page(page, site):
    page.set_viewport_size({"width": 900, "height": 500})
    visit(page, site)
    page.locator(".members .title").nth(20).click()
    page.wait_for_url("**/item?id=*")
    ready(page)
    page.go_back()
    until(page, "All items")
    page.wait_for_function("() => window.scrollY > 300")


def test_titles_ids_and_queries_are_text_and_nothing_else(page, site):
    visit(page, site + "/")
    page.fill("#q", HOSTILE[:60])
    page.wait_for_timeout(300)
    page.fill("#q", HOSTILE)
    page.keyboard.press("Enter")
    page.wait_for_url("**/search?**")
    page.wait_for_selector("h1")
    page.click(".items .title")  # the item whose id this is
    page.wait_for_url("**/item?**")
    ready(page)
    assert page.inner_text(".kicker") == f"item {HOSTILE}"
    visit(page, site + "/item?id=P0005")
    assert heading(page) == HOSTILE
    assert HOSTILE in page.title()
    page.click(".card h2 a")
    ready(page)
    page.wait_for_function("text => document.body.textContent.includes(text)", arg=HOSTILE)
    visit(page, site + "/item?id=" + "a%2Fb%3Fc%3Dd%26e%23f%252e%252e%2F..%2F..")
    assert page.locator(".kicker").inner_text() == "item a/b?c=d&e#f%2e%2e/../.."
    assert page.evaluate("window.pwned") is None
    assert page.locator("main img, main script").count() == 0


def test_what_is_not_there_is_said_plainly(page, site):
    for path in ("/?p=999", "/item?id=nobody", "/nowhere", "/?p=%3Cscript%3E"):
        assert page.goto(site + path).status == 404
        ready(page)
        assert heading(page) == "Nothing here"
    page.click("main a")
    until(page, "All items")
    expected = [text for text in page.complaints if "404" in text]
    assert expected
    for text in expected:  # the browser reports statuses of its own accord
        page.complaints.remove(text)


def test_the_tree_is_walked_by_keyboard_alone(page, site):
    visit(page, site)
    branches = page.locator(".branch")
    assert page.locator("[role=treeitem][tabindex='0']").count() == 1
    branches.first.focus()
    page.keyboard.press("ArrowDown")
    focused = "document.activeElement"
    assert page.evaluate(f"{focused}.textContent") == branches.nth(1).text_content()
    assert page.locator("[role=treeitem][tabindex='0']").count() == 1
    page.keyboard.press("ArrowRight")
    assert page.evaluate(f"{focused}.getAttribute('aria-level')") == "2"
    assert "item" in page.evaluate(f"{focused}.getAttribute('aria-label')")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("End")
    page.keyboard.press("Home")
    assert page.evaluate(f"{focused}.textContent") == branches.first.text_content()
    token = branches.first.locator("b").inner_text()
    page.keyboard.press("Enter")
    page.wait_for_function("t => document.activeElement.textContent === t", arg=token)  # the heading has the focus
    page.locator(".branch").first.focus()
    page.keyboard.press("ArrowLeft")
    until(page, "All items")


def test_everything_has_a_name_for_a_screen_reader(page, site):
    for path in ("/?p=3", "/item?id=P0030", "/search?q=red"):
        visit(page, site + path)
        nameless = page.evaluate(
            """[...document.querySelectorAll('a, button, input, [role=tree], [role=group], nav')].filter(
                 one => !(one.getAttribute('aria-label') || one.textContent.trim())).map(one => one.outerHTML)"""
        )
        assert nameless == []
        assert page.locator("h1").count() == 1
        assert page.locator("main, header, [role=search], [role=status]").count() == 4


def test_two_tables_side_by_side(page, site):
    visit(page, site + "/?p=2")
    page.click("text=Side by side")
    page.wait_for_url("**/?p=2&beside=1")
    page.wait_for_selector("text=The same items in other.parquet")
    trees = page.locator("[role=tree]")
    assert trees.count() == 2
    trees.nth(1).locator(".branch").first.click()
    page.wait_for_url("**/?t=b&p=*")
    visit(page, site + "/item?id=P0030")
    assert re.fullmatch(r"other\.parquet: \d-\d-\d", page.locator(".card").nth(1).locator("h2").inner_text())
    page.wait_for_selector("text=Near by embedding, far by SID in sids.parquet")


def test_each_table_is_written_as_its_file_writes_it(page, site):
    visit(page, site + "/?p=3")
    assert heading(page) == "<a_3>"
    assert re.fullmatch(r"<b_\d><c_\d>", page.locator(".members .sid").first.inner_text())
    visit(page, site + "/?t=b&p=3")
    assert heading(page) == "3"
    assert re.fullmatch(r"\d-\d", page.locator(".members .sid").first.inner_text())
    visit(page, site + "/?t=b&p=3-1")
    assert heading(page) == "3-1"


def background(page):
    return page.evaluate("getComputedStyle(document.body).backgroundColor")


def test_light_and_dark_follow_the_system_and_the_button_overrides_it(browser, site):
    light, dark = "rgb(255, 255, 255)", "rgb(20, 23, 26)"
    for scheme, colour in (("light", light), ("dark", dark)):
        with watched(browser, color_scheme=scheme) as page:
            visit(page, site)
            assert background(page) == colour
    with watched(browser, color_scheme="dark") as page:
        visit(page, site)
        page.click("#theme")
        assert background(page) == light
        page.reload()
        assert background(page) == light  # remembered
        page.click("#theme")
        assert background(page) == dark
        assert page.get_attribute("#theme", "aria-label") == "Colours: dark. Change"


@pytest.fixture(scope="module")
def phone(browser):
    with watched(browser, viewport={"width": 380, "height": 800}) as page:
        yield page


@pytest.mark.parametrize("path", ["/", "/?p=3", "/?p=3&beside=1", "/item?id=P0030", "/item?id=P0005", "/search?q=red"])
def test_nothing_scrolls_sideways_on_a_phone(phone, site, path):
    visit(phone, site + path)
    if path.startswith("/item"):
        phone.wait_for_selector(".near .card")  # comes after the page
    assert overflows(phone) == 0
    assert not phone.complaints


def test_a_million_items_are_walked_and_searched_without_waiting(page, tmp_path):
    titles = large_shop(tmp_path, 1_000_000)
    pages = Pages(read(tmp_path / "sids.parquet", items=tmp_path / "items.parquet"))
    for text in ("brand77 st", "b", "steel noun3 9999", "nobody", "P99999"):
        assert fastest(lambda text=text: pages.search(text)) < 0.3
    with served(pages) as site:
        visit(page, site)
        assert "1,000,000" in page.inner_text(".facts")
        assert page.locator(".branch").count() == 24
        page.fill("#q", titles[123_456].as_py())
        page.wait_for_function(
            "t => document.querySelector('#suggestions .title')?.textContent === t", arg=str(titles[123_456])
        )
        page.keyboard.press("Escape")
        page.locator(".branch").first.click()
        page.wait_for_selector(".crumbs li >> nth=1")
        page.wait_for_selector("text=noun0")
        weights = page.evaluate("performance.getEntriesByType('resource').map(one => one.transferSize)")
        assert max(weights) < 40_000  # never more than a page of it


def fastest(work, times=5):
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def test_a_visitor_without_the_token_must_enter_it(browser, pages):
    with served(pages, "secret-token") as site, watched(browser) as page:
        with (
            browser.new_context() as stranger
        ):  # not watched: the browser reports the 403, and asks for an icon as well
            refused = stranger.new_page()
            assert refused.goto(site).status == 403
            assert "token is needed" in refused.inner_text("body")
        visit(page, site + "/?p=3&token=secret-token")
        assert heading(page) == "<a_3>"
        assert "token" not in page.url
        visit(page, site)
        assert heading(page) == "All items"


def test_a_search_model_is_asked_in_its_own_box(page, pages, site):
    """A model that answers with the items of one SID, and knows the SID of one query."""
    asked = []

    def model(text):
        asked.append(text)
        return Asked([1, 2, 0] if text == "lamps" else None, [("P0003", 0.25), (HOSTILE, 1e-5)])

    visit(page, site)
    assert page.locator("#sides >> text=Ask the model").count() == 0
    assert page.request.get(f"{site}/api/ask?q=x").status == 404
    with served(Pages(pages.catalogue, model)) as address:
        visit(page, address)
        page.click("text=Ask the model")
        until(page, "Ask the model")
        page.fill(".ask input", "lamps")
        page.keyboard.press("Enter")
        until(page, "“lamps”")
        assert query(page) == "/ask?q=lamps"
        rows = page.locator("ul.items li").all_inner_texts()
        assert "25.0 %" in rows[0]
        assert "P0003" in rows[0]
        assert "< 0.1 %" in rows[1]
        assert page.locator("section a.sid").first.inner_text() == pages.lookup.side("a").sid([1, 2, 0])
        page.fill(".ask input", HOSTILE)
        page.click(".ask button")
        until(page, f"“{HOSTILE}”")
        assert "This query has no SID" in page.inner_text("main")
        page.go_back()
        until(page, "“lamps”")
        assert page.input_value(".ask input") == "lamps"
    assert set(asked) == {"lamps", HOSTILE}
