import json
from dataclasses import replace

import pytest

from workbench.laws.verification.refuting.cases import replays
from workbench.laws.verification.refuting.refute import search, seed_of
from workbench.rules import parse_rule

WRONG = (
    "mul(matmul(x, y), matmul(x, z)) => matmul(x, mul(y, z))",
    "relu(conv2d[act=a, c](x, w)) => conv2d[act=relu, c](x, w)",
    "each conv2d[c](x, w*) => slice[axis=-3](conv2d[c](x, concat[axis=-4](w*)))",
    "batchnorm[eps=e](x, s, b, m, v) => batchnorm[eps=max(e, 0.25)](x, s, b, m, v)",
    "matmul(x, w) ; add(v, v) => matmul(w, x) ; add(v, v)",
)


def rule_of(text):
    (rule,) = parse_rule(f"r: {text}")
    return rule


@pytest.mark.parametrize("text", WRONG)
def test_a_record_replays(text):
    rule = rule_of(text)
    record = json.loads(json.dumps(search(rule, 60).counterexample.record()))
    assert replays(rule, record)
    assert not replays(rule, record | {"left": record["right"]})


def test_context_is_recorded():
    rule = rule_of(WRONG[-1])
    assert set(search(rule, 60).counterexample.record()["inputs"]) == {"x", "w", "v"}


def test_renamings_have_the_same_counterexample_in_their_own_names():
    one, two = rule_of(WRONG[0]), rule_of("mul(matmul(a, b), matmul(a, c)) => matmul(a, mul(b, c))")
    assert seed_of(one, 0) == seed_of(replace(one, name="other"), 0) == seed_of(two, 0) != seed_of(one, 1)
    first, second = (search(rule, 60).counterexample for rule in (one, two))
    assert list(first.inputs.values()) == list(second.inputs.values())
    assert list(second.inputs) == ["a", "b", "c"]
