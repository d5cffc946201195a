"""One JupyterLab and one browser without a network, for all tests of this folder."""

import pytest

from tests.browser import chromium
from tests.lab.server import NO_NETWORK, jupyter_lab


@pytest.fixture(scope="package")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("notebooks")


@pytest.fixture(scope="package")
def lab(folder, tmp_path_factory):
    pytest.importorskip("jupyterlab")
    with jupyter_lab(folder, tmp_path_factory.mktemp("home")) as address:
        yield address


@pytest.fixture(scope="package")
def offline():
    """Return Chromium that resolves no name."""
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as p:
        found = p.chromium.launch(executable_path=chromium(), args=["--no-sandbox", NO_NETWORK])
        yield found
        found.close()
