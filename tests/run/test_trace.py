"""Traces: steps in files, frames, births and costs."""

import pytest

from workbench.run.trace import RuleStep, Step, StepKind, Trace


def example():
    trace = Trace({"kind": "saturation", "e_node_limit": 100})
    trace.add(Step(0, StepKind.START, 0.0, 5, 5, note="start graph"))
    trace.add(
        Step(
            1,
            StepKind.ITERATION,
            0.25,
            9,
            6,
            (RuleStep("a", 3, 0.1), RuleStep("b", 0, 0.0)),
            cost=7.5,
            bound=2.0,
        )
    )
    return trace


@pytest.mark.parametrize("name", ["t.jsonl", "t.parquet"])
def test_files_keep_everything(tmp_path, name):
    trace = example()
    trace.save(tmp_path / name)
    again = Trace.load(tmp_path / name)
    assert again.meta == trace.meta
    assert again.steps == trace.steps
    assert [p.name for p in tmp_path.iterdir()] == [name]
    Trace().save(tmp_path / name)
    assert Trace.load(tmp_path / name) == Trace()


@pytest.mark.parametrize("name", ["t.jsonl", "t.parquet"])
def test_files_keep_kinds_and_counts(tmp_path, name):
    steps = [
        Step(k, kind, 0.1, 3, 2, counts={"number": k}, phases={"copies": k / 4})
        for k, kind in enumerate(StepKind)
    ]
    Trace({"kind": "saturation"}, steps).save(tmp_path / name)
    again = Trace.load(tmp_path / name).steps
    assert again == steps
    assert [step.phases for step in again] == [step.phases for step in steps]


def test_a_kind_that_no_step_has_is_refused(tmp_path):
    example().save(tmp_path / "t.jsonl")
    text = (tmp_path / "t.jsonl").read_text().replace('"iteration"', '"guess"')
    (tmp_path / "t.jsonl").write_text(text)
    with pytest.raises(ValueError, match=r"line 3: not a trace record \('guess'"):
        Trace.load(tmp_path / "t.jsonl")


def test_a_parquet_file_that_is_not_a_trace_is_refused(tmp_path):
    file = tmp_path / "t.parquet"
    example().frame().to_parquet(file)
    with pytest.raises(ValueError, match="not a trace in Parquet"):
        Trace.load(file)
    file.write_bytes(b"PAR1 and nothing else")
    with pytest.raises(ValueError, match="not a trace in Parquet"):
        Trace.load(file)


@pytest.mark.parametrize("line", ["{", "[]", '{"index": 1}', '{"index": 0, "rules": [{"rule": "a"}]}', "7"])
def test_broken_files_are_refused_with_the_line(tmp_path, line):
    trace = example()
    trace.save(tmp_path / "t.jsonl")
    with (tmp_path / "t.jsonl").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(ValueError, match="line 4"):
        Trace.load(tmp_path / "t.jsonl")


def test_frames():
    frame = example().frame()
    assert frame["kind"].tolist() == ["start", "iteration"]
    assert frame["elapsed"].tolist() == [0.0, 0.25]
    assert frame["matches"].tolist() == [0, 3]
    rules = example().rule_frame()
    assert rules["rule"].tolist() == ["a"]


def test_births_are_added_to_the_rules_that_matched_and_to_others():
    trace = example()
    trace.set_births({(1, "a"): 4, (1, "c"): 2})
    by_rule = {r.rule: r.e_nodes for r in trace.steps[1].rules}
    assert by_rule == {"a": 4, "b": 0, "c": 2}


def test_costs_may_be_computed_when_the_steps_are_looked_at(tmp_path):
    asked = []

    def costs():
        asked.append(len(asked))
        return {0: 3.0, 1: 2.0}

    trace = Trace({"kind": "saturation"}, [Step(k, StepKind.ITERATION, 0.5, 1 + k, 1) for k in range(3)])
    trace.set_costs(costs)
    assert len(trace) == 3
    assert asked == []
    assert [step.cost for step in trace] == [3.0, 2.0, None]
    assert trace.frame()["cost"].tolist()[:2] == [3.0, 2.0]
    trace.save(tmp_path / "t.jsonl")
    assert Trace.load(tmp_path / "t.jsonl") == trace
    assert asked == [0], "once"
