"""Deadlines end Python code from outside, nested ones too, and leave nothing behind."""

import contextlib
import math
import subprocess
import sys
import threading
import time

import pytest

from workbench.support import deadline as clock
from workbench.support.deadline import TimeUp, deadline


def spin():
    n = 0
    while True:
        n += 1


def test_a_loop_without_a_clock_ends_at_the_deadline():
    with pytest.raises(TimeUp), deadline(time.perf_counter() + 0.05):
        spin()


def test_a_block_that_ends_in_time_is_not_disturbed():
    with deadline(time.perf_counter() + 0.02):
        pass
    threading.Event().wait(0.05)
    with deadline(math.inf):
        pass


def test_the_deadline_ends_the_thread_that_set_it_and_no_other():
    ended = []

    def work():
        try:
            with deadline(time.perf_counter() + 0.05):
                spin()
        except TimeUp:
            ended.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert ended == [True]


def test_a_deadline_that_has_passed_ends_the_block_at_once():
    with pytest.raises(TimeUp), deadline(time.perf_counter() - 1.0):
        spin()


def test_an_exception_that_comes_late_is_not_raised_after_the_block():
    for wait in (0.0, 1e-5, 1e-4, 1e-3):
        for _ in range(100):
            try:
                with deadline(time.perf_counter() + wait):
                    time.sleep(wait)
            except TimeUp:
                pass
            for _ in range(1000):
                pass


PROFILED = """
import sys, time
from workbench.support.deadline import TimeUp, deadline
sys.setprofile(lambda *_: None)
with deadline(time.perf_counter() + 60.0):
    pass
try:
    with deadline(time.perf_counter() + 0.01):
        while True:
            len(())
except TimeUp:
    print(sum(len((i,)) for i in range(1000)))
"""


def test_a_profiler_continues_after_a_deadline():
    done = subprocess.run([sys.executable, "-c", PROFILED], capture_output=True, text=True, timeout=120)
    assert done.stdout == "1000\n"


NESTED = """
import random, time
from workbench.support.deadline import TimeUp, deadline

def step():
    with deadline(time.perf_counter() + 0.006):
        for _ in range(5):
            pass

def run(seconds):
    try:
        with deadline(time.perf_counter() + seconds):
            while True:
                step()
    except TimeUp:
        return 1

random.seed(0)
ended = 0
for _ in range(100):
    ended += run(random.uniform(0.001, 0.004))
    end = time.perf_counter() + 0.008  # no deadline of a step is left over
    while time.perf_counter() < end:
        pass
print(ended)
"""


@pytest.mark.slow
def test_a_block_ends_while_blocks_inside_it_begin_and_end():
    # A thread for each block would take the exception, never begin, and be waited for.
    done = subprocess.run([sys.executable, "-c", NESTED], capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr) == ("100\n", "")


def test_a_block_ends_that_ends_with_one_inside_it():
    def both(until):
        with deadline(until):
            with contextlib.suppress(TimeUp), deadline(until):
                spin()
            spin()

    with pytest.raises(TimeUp):
        both(time.perf_counter() + 0.05)


def test_no_end_is_set():
    assert clock.left() == clock.until() == math.inf
    clock.check()


def test_work_ends():
    with clock.ending(time.time() - 1), pytest.raises(clock.OutOfTime):
        clock.check()
    clock.check()


def test_an_earlier_end_stays():
    early, late = time.time() + 100, time.time() + 200
    with clock.ending(early), clock.ending(late):
        assert clock.until() == early
    with clock.ending(late), clock.ending(early):
        assert clock.until() == early
