import math
import os
import time

from workbench.support.pool import kill, mapped, process_pool


def test_results_come_in_the_order_of_the_items_from_other_processes():
    assert list(mapped(math.sqrt, [4.0, 9.0, 16.0], 2, chunks=2)) == [2.0, 3.0, 4.0]
    assert os.getpid() not in set(mapped(_process, range(4), 2))


def test_one_job_needs_no_other_process():
    assert set(mapped(_process, range(4))) == {os.getpid()}


def test_a_killed_pool_does_not_wait_for_its_work():
    pool = process_pool(1)
    pool.submit(time.sleep, 600)
    working = list(pool._processes.values())
    kill(pool)
    assert all(process.exitcode is not None for process in working)


def _process(_item: int) -> int:
    return os.getpid()
