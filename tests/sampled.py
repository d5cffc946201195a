"""Samples of long lists of cases: each commit runs other ones, and the nightly run those that remain."""

import os
import subprocess
from functools import cache
from pathlib import Path
from zlib import crc32

import pytest


@cache
def turn():
    """Return the number that chooses samples: WORKBENCH_TURN, or else the commit; 0 if there is neither."""
    if given := os.environ.get("WORKBENCH_TURN"):
        return int(given)
    asked = ["git", "rev-parse", "--short=8", "HEAD"]
    try:
        commit = subprocess.run(asked, cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return 0
    return int(commit.stdout, 16)


def marks_of(number, every):
    """Return the marks of a case: none if its turn has come, as at one commit in ``every``."""
    return [] if (number + turn()) % every == 0 else [pytest.mark.nightly]


def in_turn(cases, every, marks=()):
    """Return cases as parameters; one in ``every`` has its turn, the others carry the marker nightly."""
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)), marks=[*marks, *marks_of(number, every)]
        )
        for number, case in enumerate(cases)
    ]


def sampled(cases, every):
    """Yield cases with names as parameters, in turn; which ones go together depends on their names alone."""
    for case in cases:
        yield pytest.param(case, marks=marks_of(crc32(case.name.encode()), every), id=case.name)


def rotating(total, count):
    """Return ``count`` neighbours among the numbers below a total; the commit says where they begin."""
    first = turn() * count % total
    return [(first + n) % total for n in range(count)]
