"""A real browser for tests: Debian's Chromium, driven by Playwright. Skipped with a reason where either is missing.

    def test_the_page_opens(page):
        page.goto(report.as_uri())

A page fails its test if anything was written to the console as an error, if a script threw, or if anything was
requested from a host other than this machine. All `page`s share one context, which takes longer to open than a page; a
test that needs another window size or colour scheme, or separate storage, opens a context with `watched`.
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


@pytest.fixture(scope="session")
def shared_context(browser):
    context = browser.new_context()
    yield context
    context.close()


@pytest.fixture
def page(shared_context):
    with _watched_page(shared_context) as opened:
        yield opened


@contextmanager
def watched(browser, **options):
    """A page in a separate context, which must have stayed silent and local by the end."""
    context = browser.new_context(**options)
    try:
        with _watched_page(context) as opened:
            yield opened
    finally:
        context.close()


@contextmanager
def _watched_page(context):
    complaints = []

    def check_host(request):
        parts = urlsplit(request.url)
        if parts.scheme in ("http", "https", "ws", "wss") and parts.hostname not in HERE:
            complaints.append(f"requested {request.url}")

    opened = context.new_page()
    opened.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on("request", check_host)
    opened.complaints = complaints
    try:
        yield opened
        assert not complaints, complaints
    finally:
        opened.close()


def overflows(page):
    """How many pixels a page is wider than its window; 0 when nothing scrolls sideways."""
    return page.evaluate("Math.max(0, document.documentElement.scrollWidth - document.documentElement.clientWidth)")
