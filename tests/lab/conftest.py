"""One JupyterLab and one browser without a network, for all tests of this folder."""

import pytest

from tests.lab.server import NO_NETWORK, jupyter_lab


@pytest.fixture(scope="package")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("notebooks")


@pytest.fixture(scope="package")
def lab(folder, tmp_path_factory):
    pytest.importorskip("jupyterlab", reason="jupyterlab is not installed")
    with jupyter_lab(folder, tmp_path_factory.mktemp("home")) as address:
        yield address


@pytest.fixture(scope="package")
def offline(launch):
    """Return Chromium that resolves no name."""
    return launch(NO_NETWORK)
