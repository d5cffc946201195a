"""Synthesis: the laws of small grammars are found from nothing, verified, minimal, and reproducible."""

import pytest

from workbench.laws.synthesis import Grammar, Synthesis
from workbench.laws.synthesis.synthesis import rules_text
from workbench.laws.verification.evidence import Effort
from workbench.rules import parse_rules
from workbench.rules.pattern import format_rule
from workbench.run.trace import StepKind, StopReason, Trace

pytestmark = pytest.mark.slow

EFFORT = Effort(chain=0, draws=60, seconds=60.0)


@pytest.fixture(scope="module")
def found():
    synthesis = Synthesis(Grammar.of("matmul add", "matrix: 3", operators=3, name="ring"), effort=EFFORT)
    assert synthesis.run() is StopReason.FINISHED
    return synthesis


def laws_of(synthesis):
    return {format_rule(r).partition(": ")[2].partition("  @")[0] for r in synthesis.rules}


def test_the_laws_of_a_ring_are_found(found):
    assert laws_of(found) == {
        "add(x, y) => add(y, x)",
        "add(x, add(y, z)) => add(y, add(x, z))",
        "matmul(matmul(x, y), z) => matmul(x, matmul(y, z))",
        "add(matmul(x, y), matmul(x, z)) => matmul(x, add(y, z))",
        "add(matmul(x, y), matmul(z, y)) => matmul(add(x, z), y)",
    }
    assert all(law.verdict.by_axioms for law in found.laws)


def test_every_candidate_is_accounted_for(found):
    frame = found.funnel()
    assert list(frame["size"]) == [1, 2, 3]
    assert (frame["open"] == 0).all()
    assert (frame["terms"] == frame["classes"] + frame["pairs"]).all()
    assert frame["laws"].sum() == len(found.laws) + len(found.dropped)


def test_the_trace_tells_what_was_done_and_can_be_stored(found, tmp_path):
    kinds = [s.kind for s in found.trace]
    assert kinds[0] is StepKind.ENUMERATION
    assert kinds[-1] is StepKind.REDUCTION
    found.trace.save(tmp_path / "trace.jsonl")
    assert [s.counts for s in Trace.load(tmp_path / "trace.jsonl")] == [s.counts for s in found.trace]


def test_the_file_of_laws_is_read_back_with_the_same_laws(found):
    text = rules_text(found)
    assert "# tested: by axioms" in text
    again = {format_rule(r).partition(": ")[2].partition("  @")[0] for r in parse_rules(text)}
    assert laws_of(found) <= again


def test_known_laws_are_not_found_again():
    known = parse_rules("commutes: add(x, y) => add(y, x)")
    synthesis = Synthesis(Grammar.of("add", "matrix: 2", operators=1), known, effort=EFFORT)
    synthesis.run()
    assert len(synthesis.rules) == 0


def test_the_same_run_gives_the_same_laws():
    grammar = Grammar.of("matmul add", "matrix: 3", operators=2)
    one, two = Synthesis(grammar, effort=EFFORT), Synthesis(grammar, effort=EFFORT)
    one.run()
    two.run()
    assert list(map(format_rule, one.rules)) == list(map(format_rule, two.rules)) != []


def test_an_interrupted_run_keeps_its_laws_and_continues():
    synthesis = Synthesis(Grammar.of("add relu", "matrix: 2", operators=2), effort=EFFORT)

    def interrupt(step):
        if step.kind is StepKind.CHOICE:
            raise KeyboardInterrupt

    assert synthesis.run(interrupt) is StopReason.INTERRUPTED
    kept = len(synthesis.laws)
    assert kept
    assert synthesis.run() is StopReason.FINISHED
    assert len(synthesis.laws) >= kept


def test_a_time_limit_ends_the_run_and_says_what_is_open():
    synthesis = Synthesis(Grammar.of("add mul matmul relu", "matrix: 3"), seconds=0.001)
    assert synthesis.run() is StopReason.TIME_LIMIT
    assert not synthesis.funnel()["complete"].all()
    with pytest.raises(ValueError, match="time limit must be positive, got 0"):
        Synthesis(Grammar.of("add", "matrix: 1"), seconds=0)


def test_coverage_tells_derived_refuted_and_other_rules(found):
    rules = parse_rules(
        "rotate: add(add(x, y), z) => add(add(z, x), y)\n"
        "wrong: matmul(x, y) => matmul(y, x)\n"
        "other: relu(relu(x)) => relu(x)"
    )
    coverage = found.covers(rules)
    assert coverage.counts == {"derived": 1, "not derived": 1, "refuted": 1}
    assert list(coverage.frame()["outcome"]) == ["derived", "refuted", "not derived"]


def test_a_law_that_the_others_imply_is_dropped_even_if_it_came_first():
    grammar = Grammar.of("add concat[axis=-1]", "matrix: 3", operators=3, repeats=False)
    synthesis = Synthesis(grammar, effort=EFFORT)
    synthesis.run()
    kept, dropped = (
        {format_rule(law.rule).partition(": ")[2].partition("  @")[0] for law in laws}
        for laws in (synthesis.laws, synthesis.dropped)
    )
    assert kept == {
        "add(x, y) => add(y, x)",
        "add(x, add(y, z)) => add(y, add(x, z))",
        "concat[axis=a](concat[axis=a](x, y), z) => concat[axis=a](x, concat[axis=a](y, z))",
        "concat[axis=a](add(x, y), add(z, u)) => add(concat[axis=a](x, z), concat[axis=a](y, u))",
    }
    assert any(
        law.startswith("add(concat[axis=a](x, y), concat[axis=a](z, u)) => add(concat") for law in dropped
    )
    assert synthesis.covers([law.rule for law in synthesis.dropped]).counts["not derived"] == 0
