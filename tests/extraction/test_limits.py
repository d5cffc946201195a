import pickle

import pytest

from workbench.extraction.limits import Ending, Limit


@pytest.mark.parametrize(
    ("ending", "text"),
    [
        (Ending(Limit.TIME), "time limit"),
        (Ending(Limit.PATIENCE), "no progress worth waiting for"),
        (Ending(Limit.INTERRUPTED), "interrupted"),
        (Ending(Limit.MEMORY, "highs"), "highs ran out of memory"),
        (Ending(Limit.KILLED, "cp-sat:2"), "cp-sat:2 was killed"),
        (Ending(Limit.FAILED, "tensat", "no licence"), "tensat failed: no licence"),
        (Ending(Limit.NOTHING), "nothing found: this is the tree selection"),
    ],
)
def test_an_ending_reads_as_a_note_and_crosses_processes(ending, text):
    assert str(ending) == text
    assert pickle.loads(pickle.dumps(ending)) == ending
