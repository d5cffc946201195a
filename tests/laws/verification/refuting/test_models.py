"""What the solver finds is evaluated, and refutes rules that draws do not."""

import pytest

from workbench.laws.theorems.entailment import solver
from workbench.laws.verification.evidence import Effort
from workbench.laws.verification.refuting.models import Model, corner_of, corners_of, models
from workbench.laws.verification.refuting.refute import search
from workbench.laws.verification.verify import Verification
from workbench.rules import parse_rules

pytestmark = pytest.mark.skipif(solver() is None, reason="no z3")

#: Laws that fail only at an extent of 31 * 37 or more, a stride of 11, 13 groups, an extent of 1147.
RARE = parse_rules(r"""
at-long-axes: slice[axis=-1, start=i, stop=j](x) => \
    slice[axis=-1, start=i + dim(x, -1) // 31 // 37, stop=j + dim(x, -1) // 31 // 37](x)
at-any-long-axis: slice[axis=a, start=i, stop=j](x) => \
    slice[axis=a, start=i + dim(x, a) // 31 // 37, stop=j + dim(x, a) // 31 // 37](x)
at-a-stride: conv2d[strides=(s, z), pads=(t, l, b, r), c](x, w) => \
    conv2d[strides=(s, z), pads=(t + 1, l, b - 1, r), c](x, w) where s * s = 121
at-groups: conv2d[groups=g, pads=(t, l, b, r), c](x, w) => \
    conv2d[groups=g, pads=(t + 1, l, b - 1, r), c](x, w) where g * g = 169
at-long-products: matmul(x, w) => matmul( \
    slice[axis=-1, start=0, stop=dim(x, -1) - dim(x, -1) // 31 // 37](x), \
    slice[axis=-2, start=0, stop=dim(x, -1) - dim(x, -1) // 31 // 37](w))
""")

#: The same where they hold: no instance of these may be believed to refute them.
RIGHT = parse_rules(r"""
below-long-axes: slice[axis=-1, start=i, stop=j](x) => \
    slice[axis=-1, start=i + dim(x, -1) // 31 // 37, stop=j + dim(x, -1) // 31 // 37](x) \
    where dim(x, -1) < 1147
at-no-stride: conv2d[strides=(s, z), pads=(t, l, b, r), c](x, w) => \
    conv2d[strides=(s, z), pads=(t + s // 11 - s // 11, l, b, r), c](x, w)
""")


@pytest.mark.slow
@pytest.mark.parametrize("rule", RARE, ids=lambda r: r.name)
def test_models_refute_what_draws_do_not(rule):
    assert search(rule, 24).counterexample is None
    found = search(rule, 0, corners=corners_of(rule, 20.0))
    assert found.counterexample is not None
    left, right = found.counterexample.at()
    assert left != right


@pytest.mark.parametrize("rule", RIGHT, ids=lambda r: r.name)
def test_models_do_not_refute_right_rules(rule):
    assert search(rule, 0, corners=corners_of(rule, 20.0)).counterexample is None


@pytest.mark.slow
def test_the_verifier_reports_them_and_they_replay():
    verification = Verification(list(RARE[:1]), effort=Effort(draws=40, chain=0))
    verification.run()
    (verdict,) = verification.verdicts
    assert verdict.verdict == "refuted"
    assert not verdict.contradiction, "a proof in generic cases says nothing of this extent"
    assert verdict.evidence["beyond"].startswith("by axioms in")
    assert "region" not in verdict.evidence
    assert verdict.evidence["replays"]
    ((_, given),) = verdict.evidence["counterexample"]["inputs"].items()
    assert given["shape"][-1] >= 1147


@pytest.mark.slow
def test_without_models_they_are_missed():
    verification = Verification(list(RARE[:1]), effort=Effort(draws=40, chain=0, models=0))
    verification.run()
    assert verification.verdicts[0].verdict in ("tested", "theorem")


def test_a_model_becomes_coordinates():
    (rule,) = parse_rules("law: softmax[axis=a](maxpool[kernel=k, strides=s](x)) => softmax[axis=a](x)")
    model = Model(
        {"s.0": 11, "s.1": 1, "rank x": 4, "+x -1": 7, "+x a": 5, "place a": -3, "+x *": 2}, {"a": -3}
    )
    found = corner_of(rule, model)
    assert found["attr", "s", ""] == (11, 1)
    assert found["attr", "a", ""] == -3
    assert {at: n for (kind, _, at), n in found.items() if kind == "dim"} == {-1: 7, -3: 5, -2: 2, -4: 2}
    assert ("attr", "k", "") not in found


def numbers(law):
    (rule,) = parse_rules(f"law: {law}")
    return list(models(rule, 20.0))


def test_a_theorem_has_no_model():
    assert numbers("add(x, y) => add(y, x)") == []


def test_a_rule_that_the_kernel_does_not_cover_has_none():
    assert numbers("gather[axis=0](x, i) => relu(gather[axis=0](x, i))") == []


def test_the_extent_at_which_a_rule_fails_is_found():
    found = numbers(
        "slice[axis=-1, start=i, stop=j](x) => \\\n"
        "  slice[axis=-1, start=i + dim(x, -1) // 31 // 37, stop=j + dim(x, -1) // 31 // 37](x)"
    )
    assert any(m.numbers["+x -1"] >= 31 * 37 for m in found)
    assert all(m.numbers["+x -1"] >= m.numbers["j"] > m.numbers["i"] >= 0 for m in found)


def test_a_symbol_that_an_equation_gave_has_its_number():
    (found, *_) = numbers("relu(x) => tanh(x) where dim(x, -1) % 31 = 0, dim(x, -1) % 37 = 0")
    assert found.numbers["+x -1"] % 1147 == 0


def test_numbers_are_small_if_they_can_be():
    (found, *_) = numbers("relu(x) => tanh(x)")
    assert all(abs(v) <= 1 for v in found.numbers.values())


def test_a_bound_axis_has_its_place():
    (found, *_) = numbers("softmax[axis=a](x) => relu(x)")
    assert found.axes["a"] < 0
