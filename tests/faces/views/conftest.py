"""A browser for the tests of what runs in one."""

import pytest


@pytest.fixture(scope="session")
def browser(launch):
    """Return Debian's Chromium, driven by Playwright."""
    return launch()
