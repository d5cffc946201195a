import math
import threading
import time

import pytest

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
