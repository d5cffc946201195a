import numpy as np
import pytest

from workbench.graph import GraphBuilder
from workbench.rules import parse_rule, rule_set
from workbench.saturation import engine as engines
from workbench.saturation.compile import compile_rule
from workbench.saturation.encoding import Constructor, encoding_for
from workbench.saturation.engine import Engine, Plan, Program
from workbench.saturation.rule_prefilter import pairs_in, pairs_of

RELU, TANH, ADD = Constructor("relu", 1), Constructor("tanh", 1), Constructor("add", 2)
TWICE, AS_RELU = "relu-twice: relu(relu(x)) => relu(x)", "wrong: tanh(x) => relu(x)"


def sources(law):
    (rule,) = parse_rule(law)
    return rule.sources


def engine_of(graph, laws, expected=()):
    encoding = encoding_for(graph)
    rules = [rule for law in laws for rule in parse_rule(law)]
    compiled = tuple(c for i, r in enumerate(rules) if (c := compile_rule(r, i + 1, encoding)))
    return Engine(Program(graph.skeleton(), encoding, compiled, True, frozenset(expected)))


def relu_of_tanh():
    b = GraphBuilder("relu of tanh")
    return b.graph({"y": b.op("relu", b.op("tanh", b.input("x", (2, 3))))})


def test_a_pattern_needs_each_operator_below_another_at_its_place():
    found = pairs_of(sources("law: add(x, relu(tanh(y))) => add(relu(tanh(y)), x)"))
    assert found == {(ADD, 1, RELU), (RELU, 0, TANH)}
    assert pairs_of(sources("law: relu(x) => relu(relu(x))")) == frozenset()


def test_numbers_and_starred_operands_make_no_pairs():
    assert pairs_of(sources("law: add(x, 0.0) => x")) == frozenset()
    each = [rule for rule in rule_set("default") if rule.each]
    starred = {
        (t.op, len(t.args)) for r in each for t in r.sources if any(getattr(a, "starred", 0) for a in t.args)
    }
    assert starred
    for rule in each:
        assert not {(p.op, p.arity) for p, _, _ in pairs_of(rule.sources)} & {
            (t.op, len(t.args)) for t in rule.sources if any(getattr(a, "starred", 0) for a in t.args)
        }


def test_an_e_graph_has_the_pairs_of_its_operators_at_their_places():
    b = GraphBuilder("sum")
    x, y = b.input("x", (2, 3)), b.input("y", (2, 3))
    graph = b.graph({"z": b.op("tanh", b.op("add", b.op("relu", x), y))})
    state = engine_of(graph, ["law: add(x, y) => add(y, x)", TWICE, AS_RELU]).state
    wanted = {(ADD, 0, RELU), (ADD, 1, RELU), (TANH, 0, ADD), (RELU, 0, TANH)}
    assert pairs_in(state, wanted) == {(ADD, 0, RELU), (TANH, 0, ADD)}


def test_a_rule_runs_once_a_union_makes_its_pair():
    engine = engine_of(relu_of_tanh(), [TWICE, AS_RELU])
    first, second = (engine.iterate(Plan(step, False, 100)) for step in (1, 2))
    assert first.needed == {2}
    assert second.needed == {1, 2}
    assert second.rules[1][0] == 1


@pytest.mark.parametrize("expected", [(), (2,), (1, 2)])
def test_what_earlier_runs_needed_changes_nothing_but_the_restarts(monkeypatch, expected):
    plain = engine_of(relu_of_tanh(), [TWICE, AS_RELU])
    monkeypatch.setattr(engines, "FEW", 0)
    other = engine_of(relu_of_tanh(), [TWICE, AS_RELU], expected)
    begun = set(other.wanted)
    for step in (1, 2, 3):
        plans = [engine.iterate(Plan(step, False, 100)) for engine in (plain, other)]
        assert plans[0].needed == plans[1].needed
    assert len(begun) == (len(expected) or 2)
    assert len(other.wanted) == 2
    for name, column in plain.columns().items():
        again = other.columns()[name]
        assert np.array_equal(column, again) if isinstance(column, np.ndarray) else column == again
