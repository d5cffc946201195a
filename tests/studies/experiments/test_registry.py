import re
from pathlib import Path

import pytest

from workbench.studies.experiments.registry import KINDS, outcome_line
from workbench.studies.experiments.store import load_record

RESULTS = Path(__file__).parents[3] / "results"
LINES = {
    "ablation": ("ablation/runs/bert-workbench-c03d66b27cb0", "983.809 µs, 2 of 3 rules needed"),
    "blocking": (
        "glenside/runs/mobilenetv1-systolic64-glenside-orientation-a82b93d444f1",
        "421 e-nodes, saturated; 0 products left, 1073 tiles, 1728036 cycles",
    ),
    "branches": ("branches/runs/acnet-cpu-4788aa1bc4eb", "#× (# → # µs), saturated, # s"),
    "deployment": (
        "deployment/runs/bert_base-default-38fa18872949",
        "1.00× (# → # ms), saturated, # s",
    ),
    "extraction": ("cycles/runs/bert-exact-36f67aa2d9a1", "cost 1043.81, bound 1043.81, optimal, 0.22 s"),
    "kernels": (
        "composites/runs/hard-swish-1-threads-1921fa96e59f",
        "#× (# → # µs), 1 kernels, mixed",
    ),
    "latency": (
        "latency/runs/bert-timing-bb1bdc6b3081",
        "# timed in alternation, best #× (workbench, onnxruntime)",
    ),
    "optimisation": (
        "greedy-exact/runs/bert-dag-052c5a44e9e0",
        "1.20× (1301.1 → 1079.8 µs), saturated, # s",
    ),
    "synthesis": (
        "synthesis/runs/taso-3-operators-65646d18f579",
        "93118 terms, 75056 classes, 1757 candidates, 30 laws in # s; taso/graph_subst: 122 derived, 0 not, "
        "11 refuted; tensat/converted: 111 derived, 0 not, 9 refuted; tensat/converted_multi: 11 derived, "
        "0 not, 2 refuted",
    ),
    "training": (
        "training/runs/non-local-eager-d487b7a15bdd",
        "#× (# → # ms a step), gradients # off float64, torch's own #",
    ),
    "verification": (
        "verification/runs/convolution-batch-aae8f67ce936",
        "22 of 22 by axioms, 0 refuted, 0.51 s in the e-graph, 2.61 s",
    ),
}


def test_every_kind_of_study_is_here():
    assert set(LINES) == set(KINDS)


@pytest.mark.parametrize("kind", LINES)
def test_the_outcome_of_a_stored_run_is_worded_by_its_kind(kind):
    place, line = LINES[kind]
    record = load_record(RESULTS / place)
    assert record["config"]["study"] == kind
    # A study that is run again has other figures, in the same words: a # stands for any figure.
    wording = re.escape(f"{record['name']}: {line}").replace(r"\#", r"\d+(\.\d+)?(e-\d+)?")
    assert re.fullmatch(wording, outcome_line(record))


@pytest.mark.parametrize("kind", LINES)
def test_a_failed_run_says_why(kind):
    record = load_record(RESULTS / LINES[kind][0])
    failed = record | {"failed": True, "row": {"status": "killed", "notes": "not over after 2 s"}}
    assert outcome_line(failed) == f"{record['name']}: killed: not over after 2 s"


def test_a_result_that_failed_its_certificate_says_so():
    record = load_record(RESULTS / LINES["optimisation"][0])
    wrong = record | {"row": record["row"] | {"certified": False}}
    assert outcome_line(wrong).endswith(", its certificate failed: the original stays")
