"""Samples of long lists of cases for every run, which rotate with the commit; the nightly run takes all."""

import os
import subprocess
from functools import cache
from pathlib import Path
from zlib import crc32

import pytest


@cache
def turn():
    """Return the number that chooses samples: WORKBENCH_TURN, or else the hash of the commit."""
    if given := os.environ.get("WORKBENCH_TURN"):
        return int(given)
    asked = ["git", "rev-parse", "--short=8", "HEAD"]
    commit = subprocess.run(
        asked, cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    ).stdout
    return int(commit or "0", 16)


def sampled(cases, every):
    """Yield cases with names as parameters; those outside the sample, chosen by name, carry the marker nightly."""
    for case in cases:
        yield pytest.param(case, marks=marks_of(case.name, every), id=case.name)


def marks_of(name, every):
    """Return the marks of a case of which one in so many, by name and commit, runs each time."""
    return [] if (crc32(name.encode()) + turn()) % every == 0 else [pytest.mark.nightly]


def rotating(total, count):
    """Return so many of the numbers below a total: other ones for each commit, all in turn."""
    first = turn() * count % total
    return [(first + n) % total for n in range(count)]
