"""The chain of rules between two terms of one e-class."""

import pytest

from workbench.laws.explain.targets import TargetError
from workbench.rules import parse_rules, rule_set
from workbench.saturation import Saturation

from .test_why_not import ASSOCIATE, COMMUTE, REGROUP, pair, product, total


def test_a_chain_names_its_rules_and_ends_at_the_second_term():
    with Saturation(total(3), parse_rules(f"{COMMUTE}\n{REGROUP}")) as run:
        run.run()
        found = run.explain("add(add(x0, x1), x2)", "add(x2, add(x1, x0))")
    assert found.complete
    assert {m.rule for m in found.moves} == {"commute"}
    assert all(m.held for m in found.moves)
    assert found.moves[0].before == "add(add(x0, x1), x2)"


def test_a_chain_may_lead_over_the_start_graph_backward():
    rules = f"{ASSOCIATE}\nfuse: relu(matmul[act=none](x, y)) => matmul[act=relu](x, y)"
    with Saturation(product(), parse_rules(rules)) as run:
        run.run()
        found = run.explain("matmul[act=relu](matmul(x, w), v)", "relu(matmul(x, matmul(w, v)))")
    assert [(m.rule, m.forward) for m in found.moves] == [("fuse", False), ("associate", True)]


def test_a_merge_is_explained():
    with Saturation(pair(), rule_set("merge")) as run:
        run.run()
        found = run.explain("p", "slice[axis=-1, start=0, stop=8](matmul(x, concat[axis=-1](w, v)))")
    assert not found.complete or "merge-matmuls" in {m.rule for m in found.moves}


def test_terms_of_different_classes_are_refused():
    with Saturation(product(), parse_rules(ASSOCIATE)) as run:
        run.run()
        with pytest.raises(TargetError, match="in one e-class"):
            run.explain("matmul(x, w)", "y")
        with pytest.raises(TargetError, match="got the rule associate"):
            run.explain(parse_rules(ASSOCIATE)[0], "y")
