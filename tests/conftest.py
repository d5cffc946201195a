"""What all tests share."""

import contextlib
import re
import signal
from collections import Counter

import hypothesis
import pytest

# How long an example takes says something of the machine; the same run has the same examples.
hypothesis.settings.register_profile("workbench", deadline=None, derandomize=True)
hypothesis.settings.load_profile("workbench")


def pytest_configure(config):
    # A run in the background of a script inherits an ignored Ctrl-C, and its children with it.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header():
    """Return the line that names the sample of the long lists, by which it runs again."""
    from tests.sampled import turn

    return f"sample: WORKBENCH_TURN={turn()}"


def reason_of(report):
    """Return why a test was skipped; all tests that lack one module have the same reason."""
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    reason = reason.removeprefix("Skipped: ")
    absent = re.match(r"could not import '([\w-]+)", reason)
    return f"{absent[1]} is not installed" if absent else reason


def pytest_terminal_summary(terminalreporter):
    """Print why tests were skipped: one line per reason, with the number of tests."""
    reasons = Counter(map(reason_of, terminalreporter.stats.get("skipped", ())))
    if reasons:
        terminalreporter.section("skipped")
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"{count} skipped: {reason}")


@pytest.fixture(scope="session", autouse=True)
def measured_costs(tmp_path_factory):
    """Keep what tests measure apart from what the user's runs have measured."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBENCH_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module", autouse=True)
def operators_of_their_own():
    """Forget the operators that a file's tests register, which tests of the whole table must not see."""
    from tests.ops.operators import forget
    from workbench.ops import Trait, with_trait

    before = set(with_trait(Trait.OWN))
    yield
    for name in with_trait(Trait.OWN) - before:
        forget(name)


@pytest.fixture
def jobs_here():
    """Do the jobs of studies in this process."""
    from tests.studies.experiments.studies import without_processes

    with without_processes():
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


@pytest.fixture(scope="session")
def launch():
    """Return a function that starts Debian's Chromium with further options.

    One Playwright drives all browsers of a process: it refuses to be started a second time.
    """
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright.sync_api is not installed")
    from tests.browser import chromium

    with playwright.sync_playwright() as p, contextlib.ExitStack() as open_browsers:

        def start(*options):
            found = p.chromium.launch(executable_path=chromium(), args=["--no-sandbox", *options])
            open_browsers.callback(found.close)
            return found

        yield start
