"""Pools of processes: their results, and how they end."""

import math
import os
import subprocess
import sys
import time
from pathlib import Path

from workbench.laws.pool import kill, mapped, process_pool


def test_results_come_in_the_order_of_the_items_from_other_processes():
    assert list(mapped(math.sqrt, [4.0, 9.0, 16.0], 2)) == [2.0, 3.0, 4.0]
    assert os.getpid() not in set(mapped(_process, range(4), 2))


def test_one_job_needs_no_other_process():
    assert set(mapped(_process, range(4))) == {os.getpid()}


def test_a_killed_pool_does_not_wait_for_its_work():
    pool = process_pool(1)
    pool.submit(time.sleep, 600)
    working = list(pool._processes.values())
    kill(pool)
    assert all(process.exitcode is not None for process in working)


PARENT = """
import os, time
from workbench.laws.pool import process_pool

if __name__ == "__main__":
    pool = process_pool(1)
    print(pool.submit(os.getpid).result(), flush=True)
    time.sleep(600)
"""


def test_processes_end_with_a_parent_that_is_killed(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as parent:
        child = int(parent.stdout.readline())
        parent.kill()
    for _ in range(600):
        if not _runs(child):
            break
        time.sleep(0.1)
    assert not _runs(child)


def _runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _process(_item: int) -> int:
    return os.getpid()
