"""Traces as they were stored before steps had a kind: lines that earlier versions wrote."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from matplotlib.figure import Figure

from workbench.faces.plots import gap_data, growth_data, plot_growth
from workbench.faces.views.steps import stepper_data
from workbench.run.old_traces import facts_of
from workbench.run.trace import StepKind, Trace

SATURATION = [
    (38, None, "start graph"),
    (50, None, ""),
    (82, None, ""),
    (90, None, "merges among what was extracted"),
    (94, None, "merge-matmuls undone: it would have made 1204 e-nodes"),
]
EXTRACTION = [
    (1057, 1127.25, "original"),
    (1057, 724.16, "tree"),
    (1057, 724.16, "dag"),
    (1057, 700.5, "local search"),
    (1057, 700.5, "presolve: 863 → 720 candidates"),
    (1057, 619.1552, "exact"),
    (1057, 619.1552, "feasible; time limit"),
]


def lines(kind, steps):
    """Return the lines of a trace as it was stored, without kinds."""
    meta = {} if kind is None else {"kind": kind}
    yield {"meta": meta | {"graph": "old", "e_node_limit": 100}}
    for index, (size, cost, note) in enumerate(steps):
        yield {
            "index": index,
            "seconds": 0.5,
            "e_nodes": size,
            "e_classes": 20,
            "rules": [{"rule": "a", "matches": 3, "seconds": 0.1, "e_nodes": 2}] if index else [],
            "cost": cost,
            "bound": None,
            "note": note,
        }


def stored(folder, kind, steps):
    file = folder / "trace.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines(kind, steps)), encoding="utf-8")
    return file


@pytest.mark.parametrize("kind", ["saturation", None])
def test_an_old_saturation_is_drawn_with_its_cut_and_no_other(tmp_path, kind):
    trace = Trace.load(stored(tmp_path, kind, SATURATION))
    assert [step.kind for step in trace] == [
        StepKind.START,
        StepKind.ITERATION,
        StepKind.ITERATION,
        StepKind.MERGE,
        StepKind.CUT,
    ]
    assert [step.note for step in trace] == [note for *_, note in SATURATION]
    assert growth_data(trace).cuts == ((4, SATURATION[4][2]),)
    drawn = {line.get_label(): line for line in plot_growth(trace, Figure().subplots()).lines}
    assert list(drawn["iteration cut"].get_xdata()) == [4]


def test_an_old_extraction_is_drawn_with_its_marks(tmp_path):
    trace = Trace.load(stored(tmp_path, "extraction", EXTRACTION))
    presolve = trace.steps[4]
    assert (presolve.kind, presolve.counts) == (StepKind.PRESOLVE, {"before": 863, "after": 720})
    assert [step.kind for step in trace.steps[5:]] == [StepKind.INCUMBENT, StepKind.SETTLED]
    assert [name for *_, name in gap_data(trace).marks] == ["original", "tree", "dag", "local search"]
    (chart,) = stepper_data(trace)["charts"]
    assert [series["name"] for series in chart["series"]] == ["best cost", "bound", "original", "greedy"]


def test_an_old_trace_in_parquet_is_read_and_kept_in_the_new_form(tmp_path):
    meta, *steps = lines("saturation", SATURATION)
    table = pa.Table.from_pylist(steps).replace_schema_metadata({"trace": json.dumps(meta["meta"])})
    pq.write_table(table, tmp_path / "old.parquet")
    trace = Trace.load(tmp_path / "old.parquet")
    assert trace == Trace.load(stored(tmp_path, "saturation", SATURATION))
    trace.save(tmp_path / "new.parquet")
    assert pq.read_table(tmp_path / "new.parquet")["kind"].to_pylist()[3:] == ["merge", "cut"]
    assert Trace.load(tmp_path / "new.parquet") == trace


@pytest.mark.parametrize(
    ("run", "note", "kind", "counts"),
    [
        ("saturation", "iteration undone: its time was up", StepKind.CUT, {}),
        ("extraction", "optimal", StepKind.SETTLED, {}),
        ("extraction", "greedy; highs was killed; time limit", StepKind.SETTLED, {}),
        ("extraction", "tensat-integer", StepKind.INCUMBENT, {}),
        ("search", "start graph: 167.574 µs", StepKind.START, {}),
        ("search", "took 155.574 µs, 2 in the queue", StepKind.EXPANSION, {}),
        ("search", "took 155.574 µs, only compared, 0 in the queue", StepKind.COMPARISON, {}),
        ("search", "took 9 µs, cut short: the time was up, 1 in the queue", StepKind.CUT, {}),
        (
            "verification",
            "screened 24 of 31: 2 counterexamples in this step",
            StepKind.SCREENING,
            {"screened": 24, "rules": 31, "refuted": 2},
        ),
        ("verification", "pass 2: 98 cases to prove", StepKind.PASS, {"pass": 2, "open": 98}),
        ("verification", "60 cases proved, 38 open", StepKind.ROUND, {"proved": 60, "open": 38}),
        ("verification", "0 cases stay unproved", StepKind.UNPROVED, {"open": 0}),
        ("verification", "each rule in an e-graph of its own", StepKind.SEPARATE, {}),
        ("verification", "decided 17 of 19", StepKind.DECISION, {"decided": 17, "rules": 19}),
        ("ablation", "all rules", StepKind.REFERENCE, {}),
        ("ablation", "without merge-matmuls", StepKind.WITHOUT, {}),
        ("another run", "some note", StepKind.ITERATION, {}),
    ],
)
def test_notes_of_earlier_versions_have_a_kind_and_counts(run, note, kind, counts):
    assert facts_of(note, run) == (kind, counts)
