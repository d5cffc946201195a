"""Samples of long lists of cases: each commit runs other ones; those that remain run nightly, or with --all."""

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


def marks_of(number, every, quick=1):
    """Return the marks of a case: none if its turn has come, as at one commit in ``every``.

    Of the cases whose turn has come, bin/test runs one in ``quick``, and bin/test --all runs them all.
    """
    place = number + turn()
    if place % every:
        return [pytest.mark.nightly]
    return [pytest.mark.slow] if place // every % quick else []


def in_turn(cases, every, marks=(), quick=1):
    """Return cases as parameters; one in ``every`` has its turn, and bin/test runs one in ``quick`` of these."""
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)), marks=[*marks, *marks_of(number, every, quick)]
        )
        for number, case in enumerate(cases)
    ]


def sampled(cases, every, quick=1):
    """Yield cases with names as parameters, in turn; which ones go together depends on their names alone."""
    for case in cases:
        yield pytest.param(case, marks=marks_of(crc32(case.name.encode()), every, quick), id=case.name)


def rotating(total, count):
    """Return ``count`` neighbours among the numbers below a total; the commit says where they begin."""
    first = turn() * count % total
    return [(first + n) % total for n in range(count)]
