import pytest

from workbench.kernels.codegen.decompose import laws, split
from workbench.ops import spec_of
from workbench.rules.verdicts import verdict_of


def attrs(op, **given):
    spec = spec_of(op)
    return tuple(sorted(spec.unpack(spec.pack(given)).items()))


def formula(op, operands=1, **given):
    return str(split(op, operands, attrs(op, **given)).equations[0])


def test_every_law_of_splitting_was_judged():
    assert {verdict_of(law) for law in laws()} <= {"tested", "proved"}
    assert {"softmax-is", "layernorm-is", "gelu-is", "hardswish-is", "sigmoid-is"} <= {r.name for r in laws()}


def test_an_operator_is_split_into_functions_and_reductions():
    assert formula("relu") == "y[~] = max(x0[~], 0)"
    assert formula("hardswish") == "y[~] = ((x0[~] * min(max((x0[~] + 3), 0), 6)) / 6)"
    assert formula("rmsnorm", 2, eps=0.5) == (
        "y[~ d] = ((x0[~ d] * (1 / sqrt((((sum(e < D) (x0[~ e] * x0[~ e])) / D) + 0.5)))) * x1[~ d])"
    )


def test_of_two_laws_the_one_with_less_work_is_taken():
    assert "erf((x0[~] * 0.7071067811865476))" in formula("gelu")  # gelu-is divides by the root of two


def test_the_axes_of_a_row_are_one():
    assert formula("layernorm", 3, axis=-2) == formula("layernorm", 3, axis=-1)


@pytest.mark.parametrize(("op", "operands"), [("matmul", 2), ("concat", 2), ("softmax", 2)])
def test_an_operator_that_no_law_splits_has_no_formula(op, operands):
    given = {"axis": 0} if op == "concat" else {}
    assert split(op, operands, attrs(op, **given)) is None
