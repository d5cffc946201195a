import pickle

import pytest

from workbench.extraction.result import Ending, Limit, Status, strength


@pytest.mark.parametrize(
    ("status", "bound", "said"),
    [
        (Status.OPTIMAL, 1000.0, "optimal (e-graph)"),
        (Status.FEASIBLE, 996.1, "feasible, within 0.4 % of optimal (e-graph)"),
        (Status.GREEDY, 850.0, "greedy, within 15 % of optimal (e-graph)"),
        (Status.FEASIBLE, 0.0, "feasible (e-graph)"),
    ],
)
def test_the_distance_from_the_bound_in_words(status, bound, said):
    assert strength(status, 1000.0, bound, "e-graph") == said


def test_the_distance_is_never_understated():
    assert strength(Status.FEASIBLE, 1000.0, 995.99, "e-graph").startswith("feasible, within 0.5 %")


@pytest.mark.parametrize(
    ("ending", "text"),
    [
        (Ending(Limit.TIME), "time limit"),
        (Ending(Limit.PATIENCE), "no progress worth waiting for"),
        (Ending(Limit.INTERRUPTED), "interrupted"),
        (Ending(Limit.MEMORY, "highs"), "highs ran out of memory"),
        (Ending(Limit.KILLED, "tensat"), "tensat was killed"),
        (Ending(Limit.FAILED, "tensat", "no licence"), "tensat failed: no licence"),
        (Ending(Limit.NOTHING), "nothing found: this is the tree selection"),
    ],
)
def test_an_ending_reads_as_a_note_and_crosses_processes(ending, text):
    assert str(ending) == text
    assert pickle.loads(pickle.dumps(ending)) == ending
