"""A browser for the tests of what runs in one."""

import pytest

from tests.browser import chromium


@pytest.fixture(scope="session")
def browser():
    """Return Debian's Chromium, driven by Playwright."""
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as p:
        found = p.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        yield found
        found.close()
