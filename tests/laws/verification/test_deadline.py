import math
import time

import pytest

from workbench.laws.verification import deadline


def test_no_end_is_set():
    assert deadline.left() == deadline.until() == math.inf
    deadline.check()


def test_work_ends():
    with deadline.ending(time.time() - 1), pytest.raises(deadline.TimeIsUp):
        deadline.check()
    deadline.check()


def test_an_earlier_end_stays():
    early, late = time.time() + 100, time.time() + 200
    with deadline.ending(early), deadline.ending(late):
        assert deadline.until() == early
    with deadline.ending(late), deadline.ending(early):
        assert deadline.until() == early
