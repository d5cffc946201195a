"""What all tests share."""

import signal

import hypothesis
import pytest

# How long an example takes says something of the machine; the same run has the same examples.
hypothesis.settings.register_profile("workbench", deadline=None, derandomize=True)
hypothesis.settings.load_profile("workbench")


def pytest_configure(config):
    # A run in the background of a script inherits an ignored Ctrl-C, and its children with it.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def measured_costs(tmp_path_factory):
    """Keep what tests measure apart from what the user's runs have measured."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBENCH_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def shared_data():
    """Return the folder of TASO's and Tensat's data, or skip."""
    import os
    from pathlib import Path

    root = Path(os.environ.get("WORKBENCH_SHARED", Path(__file__).parents[2] / "shared")) / "data"
    if not root.is_dir():
        pytest.skip("TASO's and Tensat's data are not here (set WORKBENCH_SHARED)")
    return root
