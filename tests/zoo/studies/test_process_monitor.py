import os
import sys

import pytest

from zoo.studies.process_monitor import family, memory_of, watch

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")

PARENT = """
import subprocess, sys, time
held = b"x" * (40 << 20)
child = subprocess.Popen([sys.executable, "-c", "import time; held = b'x' * (60 << 20); time.sleep(1)"])
child.wait()
print("done")
"""


def test_output_and_code_are_kept():
    done = watch([sys.executable, "-c", "import sys; print('out'); sys.exit('why')"], seconds=60)
    assert (done.code, done.output.strip(), done.errors.strip(), done.late) == (1, "out", "why", False)
    assert done.seconds > 0


@pytest.mark.slow
@LINUX
def test_memory_counts_for_one_process_and_for_all_together():
    done = watch([sys.executable, "-c", PARENT], seconds=60)
    assert done.output.strip() == "done"
    assert 60 << 20 <= done.peak < 100 << 20
    assert done.together >= 100 << 20


def test_a_command_that_takes_too_long_is_ended():
    done = watch([sys.executable, "-c", "import time; time.sleep(600)"], seconds=0.2)
    assert done.late
    assert done.code < 0


@LINUX
def test_a_process_is_of_its_own_family_and_a_lost_one_holds_nothing():
    assert os.getpid() in family(os.getpid())
    now, most = memory_of(os.getpid())
    assert 0 < now <= most
    assert memory_of(2**22 + 1) == (0, 0)
