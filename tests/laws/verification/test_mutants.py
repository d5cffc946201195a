"""Mutants of library rules: verdicts on them agree with an evaluation of their own."""

import random
from fractions import Fraction

import numpy as np
import pytest

from workbench.laws.verification.evidence import Effort
from workbench.laws.verification.instances.spaces import Ground, Instance
from workbench.laws.verification.verify import Verification
from workbench.ops import TensorType
from workbench.rules import parse_rule, rule_set

from .mutants import far, mutants, mutants_of, values, wrong


def rule_of(text):
    (rule,) = parse_rule(text)
    return rule


def test_a_mutant_differs_in_one_place():
    rule = rule_of("r: relu(add(x, y)) => relu(add(y, x)) where rank(x) = 2")
    found = {str(m).partition(": ")[2] for m in mutants_of(rule)}
    assert "relu(add(x, y)) => relu(add(y, x))" in found
    assert "relu(add(x, y)) => relu(add(y, x)) where rank(x) = 3" in found
    assert "relu(add(x, y)) => relu(sub(y, x)) where rank(x) = 2" in found
    assert "relu(add(x, y)) => add(y, x) where rank(x) = 2" in found
    assert all(str(m) != str(rule) for m in mutants_of(rule))


def test_the_evaluation_tells_wrong_from_right():
    rng = np.random.default_rng(0)
    assert wrong(rule_of("w: relu(add(x, y)) => add(relu(x), relu(y))"), rng, random.Random(0))
    assert not wrong(rule_of("r: relu(add(x, y)) => relu(add(y, x))"), rng, random.Random(0))


def differs(rule, record):
    """Evaluate a recorded counterexample in numpy: the record alone must show the difference."""
    rows, attrs = {}, {}
    for name, value in record["settings"].items():
        row, dot, attribute = name.partition(".")
        value = tuple(value) if isinstance(value, list) else value
        if dot:
            rows.setdefault(row, {})[attribute] = value
        else:
            attrs[name] = value
    kinds = {n: TensorType(x["dtype"], tuple(x["shape"])) for n, x in record["inputs"].items()}
    members = 1 + max(int(name.rpartition("_")[2]) for name in kinds if "_" in name) if rule.each else 0
    ground = Ground()
    pairs = ground.add(Instance(rule, kinds, attrs, rows, members))

    def numbers(data):
        return [numbers(d) for d in data] if isinstance(data, list) else float(Fraction(data))

    inputs = {n: np.array(numbers(x["data"])).reshape(x["shape"]) for n, x in record["inputs"].items()}
    arrays = {n: x.astype(kinds[n].dtype) for n, x in inputs.items()}
    found = values(ground.builder, pairs, arrays)
    infinite = any((np.isfinite(left) != np.isfinite(right)).any() for left, right in found)
    return infinite or any(far(left, right) for left, right in found)


def judged(rules):
    verification = Verification(rules, effort=Effort(chain=0, region=0, seconds=1200.0))
    verification.run()
    return verification.verdicts


def contradictions(verdicts, seed):
    """Return the verdicts that the evaluation contradicts, each with the reason."""
    rng, chosen = np.random.default_rng(seed), random.Random(seed)
    found = []
    for verdict in verdicts:
        if verdict.verdict in ("theorem", "tested"):
            instance = wrong(verdict.rule, rng, chosen)
            if instance:
                found.append((verdict.verdict, verdict.law, instance))
        elif verdict.verdict == "refuted" and not (
            verdict.evidence["replays"] and differs(verdict.rule, verdict.evidence["counterexample"])
        ):
            found.append(("refuted", verdict.law, verdict.evidence["summary"]))
    return found


@pytest.mark.slow
def test_a_record_names_the_members_of_all_starred_operands():
    text = "r: each conv2d[groups=1, c](x, w*, b*) => slice[axis=-3](conv2d[c](x, concat[axis=-4](w*)))"
    law = rule_of(text)
    (verdict,) = judged([law])
    assert verdict.verdict == "refuted"
    assert contradictions([verdict], 0) == []


@pytest.mark.slow
def test_verdicts_on_mutants():
    verdicts = judged(mutants(list(rule_set("default")), 4, random.Random(0)))
    assert len(verdicts) == 4
    assert contradictions(verdicts, 0) == []
    assert sum(v.verdict == "refuted" for v in verdicts) >= 1


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(1, 9))
def test_verdicts_on_many_mutants(seed):
    verdicts = judged(mutants(list(rule_set("default")), 40, random.Random(seed)))
    assert contradictions(verdicts, seed) == []
