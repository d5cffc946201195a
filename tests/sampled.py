"""Samples of long lists of cases for every run; the sweeps run them all."""

from zlib import crc32

import pytest


def sampled(cases, every):
    """Yield cases with names as parameters; those outside the sample, chosen by name, carry the marker sweep."""
    for case in cases:
        marks = [] if crc32(case.name.encode()) % every == 0 else [pytest.mark.sweep]
        yield pytest.param(case, marks=marks, id=case.name)
