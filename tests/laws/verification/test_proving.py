from itertools import product

import pytest

from workbench.laws.verification.proving import Prover, axioms, generic_cases
from workbench.rules import parse_rule, parse_rules, rule_set
from workbench.saturation import Limits

LIMITS = Limits(e_nodes=20_000, seconds=30, iterations=6, k_multi=0)


def prove(text, axiom_set=None, **options):
    rules = parse_rules(text)
    prover = Prover(rules, list(axioms()) if axiom_set is None else axiom_set, LIMITS, **options)
    if prover.begin():
        while not prover.pass_over:
            prover.step()
    prover.close()
    return prover


@pytest.mark.slow
def test_a_rule_is_proved_in_every_case():
    prover = prove("fold: batchnorm[eps=e](conv2d[c, act=none](x, w), s, b, m, v) => "
                   "conv2d[c, act=none](x, mul(w, transpose[perm=(1, 0, 2, 3)](bn_scale[eps=e](s, v))), "
                   "bn_shift[eps=e](s, b, m, v))")  # fmt: skip
    proof = prover.proof(0)
    assert proof is not None
    assert proof.complete
    # Two epsilons, and one group or several; one more case with another epsilon and other groups.
    assert proof.cases == 7
    assert proof.sampled == 1
    assert 1 <= proof.round <= 4


@pytest.mark.slow
def test_a_wrong_rule_is_proved_where_it_holds_only():
    text = "merge: concat[axis=-3](conv2d[c](x, w), conv2d[c](x, v)) => conv2d[c](x, concat[axis=-4](w, v))"
    prover = prove(text)
    assert prover.proof(0) is None
    proved = {
        prover.cases[0].instances[case].rows["c"]["groups"]: (0, case) in prover.rounds
        for case in range(len(prover.cases[0].instances))
    }
    assert proved == {1: True, 5: False, 6: False, 7: False}


@pytest.mark.parametrize(
    "text",
    [
        "a: relu(add(x, y)) => add(relu(x), relu(y))",
        "b: matmul(x, y) => matmul(y, x)",
        "c: mul(matmul(x, y), matmul(x, z)) => matmul(x, mul(y, z))",
        "d: transpose[perm=(1, 0)](matmul(x, y)) => "
        "matmul(transpose[perm=(1, 0)](x), transpose[perm=(1, 0)](y))",
    ],
)
def test_wrong_rules_are_not_proved(text):
    assert prove(text).proof(0) is None


@pytest.mark.slow
def test_without_the_axiom_there_is_no_proof():
    text = "linear: matmul(x, add(w, v)) => add(matmul(x, w), matmul(x, v))"
    assert prove(text).proof(0) is not None
    fewer = [a for a in axioms() if "linear" not in a.name]
    assert prove(text, fewer).proof(0) is None


def test_generic_extents_are_distinct_where_types_leave_them_open():
    (rule,) = parse_rule("assoc: matmul(matmul(a, b), c) => matmul(a, matmul(b, c))")
    cases = generic_cases(rule, broadcast=False)
    assert cases.complete
    assert sorted({i.types["a"].rank for i in cases.instances}) == [2, 3, 4, 5, 6]
    for instance in cases.instances:
        a, b, c = (instance.types[n].shape for n in "abc")
        assert (a[-1], b[-1]) == (b[-2], c[-2])
        assert len({a[-2], a[-1], b[-1], c[-1]}) == 4


def test_few_values_are_cases_of_their_own():
    (rule,) = parse_rule(
        "grow: conv2d[pads=(1, 1, 1, 1)](x, enlarge[pads=(e, 1, e, 1)](w)) => "
        "conv2d[pads=(1 - e, 0, 1 - e, 0)](x, w) where dim(w, -2) + 2 * e = 3"
    )
    values = {i.attrs["e"] for i in generic_cases(rule, broadcast=False).instances}
    assert values == {0, 1}


def test_two_kernels_of_one_output_have_generic_instances():
    (rule,) = parse_rule(
        "meet: add(conv2d[c, act=none](x, w), conv2d[d, act=none](x, v)) => "
        "add(conv2d[d, act=none](x, v), conv2d[c, act=none](x, w))"
    )
    cases = generic_cases(rule, broadcast=False)
    found = {(i.rows["c"]["groups"], i.rows["d"]["groups"]) for i in cases.instances}
    assert found == {*product((1, 5, 6), repeat=2), (7, 7)}
    for instance in cases.instances:
        heights = {instance.types[n].shape[-2] for n in "wv"}
        assert len(heights) == 2, "the kernels are of one size by chance"


def test_a_later_kernel_may_be_the_larger_one():
    (rule,) = parse_rule(
        "sizes: add(enlarge[pads=(i, 0, 0, 0)](w), v) => add(v, enlarge[pads=(i, 0, 0, 0)](w)) "
        "where dim(w, -2) < dim(v, -2), dim(v, -1) = dim(w, -1), i = dim(v, -2) - dim(w, -2)"
    )
    found = generic_cases(rule, broadcast=False).instances
    assert found
    assert all(i.types["w"].shape[-2] < i.types["v"].shape[-2] for i in found)


def test_dilations_that_a_condition_compares_are_equal_or_not():
    (rule,) = parse_rule(
        "both: add(conv2d[dilations=(f, g), pads=p](x, w), conv2d[dilations=(d, e), pads=q](x, v)) => "
        "add(conv2d[dilations=(d, e), pads=q](x, v), conv2d[dilations=(f, g), pads=p](x, w)) "
        "where (dim(w, -2) - 1) * (f - d) = 0"
    )
    found = generic_cases(rule, broadcast=False).instances
    # Only those of the first axis are compared.
    pairs = [(i.attrs["f"], i.attrs["d"]) for i in found]
    assert set(pairs[: pairs.index((4, 4))]) == {(3, 3), (3, 2)}
    # After them come other dilations, and those beside the literals of the condition.
    assert {(4, 4), (1, 3), (2, 3)} <= set(pairs)
    assert {(i.attrs["g"], i.attrs["e"]) for i in found} == {(2, 2), (5, 5)}
    assert all(i.types["w"].shape[-2] == 1 for i in found if i.attrs["f"] != i.attrs["d"])
    assert any(i.types["w"].shape[-2] > 1 for i in found)


def test_a_reshape_has_no_generic_instance():
    (rule,) = parse_rule("twice: reshape[shape=s](reshape[shape=r](x)) => reshape[shape=s](x)")
    cases = generic_cases(rule, broadcast=False)
    assert cases.instances == ()
    assert "product" in cases.reason


def test_what_is_dropped_is_not_a_goal():
    rules = list(rule_set("ac"))
    prover = Prover(rules, list(axioms()), LIMITS)
    prover.dropped = set(range(1, len(rules)))
    assert {rule for rule, _ in prover.open_goals()} == {0}


def test_without_broadcasting_no_case_next_to_a_literal_broadcasts():
    (rule,) = parse_rule("r: add(x, y) => add(y, x) where dim(x, -1) + dim(y, -1) > 1")
    shapes = {b: [i.types for i in generic_cases(rule, broadcast=b).instances] for b in (False, True)}
    assert any(types["x"].shape != types["y"].shape for types in shapes[True])
    assert all(types["x"].shape == types["y"].shape for types in shapes[False])
