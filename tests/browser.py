"""A real browser for tests: Debian's Chromium, driven by Playwright. Skipped with a reason where either is missing.

    def test_the_page_opens(page):
        page.goto(report.as_uri())

A page fails its test if anything was written to the console as an error, if a script threw, or if anything was asked of
a host other than this machine. `page.context.browser` opens further ones; `watched` watches those too.
"""

import shutil
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
HERE = ("127.0.0.1", "localhost", "[::1]", "::1")


@pytest.fixture(scope="session")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is installed")
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser):
    with watched(browser) as opened:
        yield opened


@contextmanager
def watched(browser, **options):
    """A page in a context of its own, which must have stayed silent and local by the end."""
    context = browser.new_context(**options)
    complaints = []

    def request(asked):
        parts = urlsplit(asked.url)
        if parts.scheme in ("http", "https", "ws", "wss") and parts.hostname not in HERE:
            complaints.append(f"asked for {asked.url}")

    opened = context.new_page()
    opened.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    context.on("request", request)
    opened.complaints = complaints
    try:
        yield opened
        assert not complaints, complaints
    finally:
        context.close()


def overflows(page):
    """How many pixels a page is wider than its window; 0 when nothing scrolls sideways."""
    return page.evaluate("Math.max(0, document.documentElement.scrollWidth - document.documentElement.clientWidth)")
