import pytest

from workbench.ops import TensorType, TypeMismatch
from workbench.rules.expressions import evaluate, holds
from workbench.rules.pattern import Arith, AttrVar, Compare, DimOf, DtypeOf, Inverse, Literal, RankOf, Vector

ATTRS = {"n": 7, "pads": (1, 2, 3, 4), "p": (2, 0, 1), "q": (1, 0, 2)}
TYPES = {"x": TensorType("float32", (5, 6))}


def value(expr):
    return evaluate(expr, ATTRS.__getitem__, TYPES.__getitem__)


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (Literal((1, 2)), (1, 2)),
        (Arith("//", AttrVar("n"), Literal(2)), 3),
        (Arith("%", AttrVar("n"), Literal(4)), 3),
        (Arith("max", AttrVar("n"), DimOf("x", -1)), 7),
        (Arith("min", AttrVar("n"), DimOf("x", -1)), 6),
        (DimOf("x", -3), 1),
        (RankOf("x"), 2),
        (DtypeOf("x"), "float32"),
        (Arith("+", AttrVar("pads"), Literal(1)), (2, 3, 4, 5)),
        (Arith("-", AttrVar("pads"), AttrVar("pads")), (0, 0, 0, 0)),
        (Vector((AttrVar("n"), Arith("*", DimOf("x", -2), Literal(3)))), (7, 15)),
        (Arith("compose", AttrVar("p"), AttrVar("q")), (0, 2, 1)),
        (Inverse(AttrVar("p")), (1, 2, 0)),
        (Arith("compose", AttrVar("p"), Inverse(AttrVar("p"))), (0, 1, 2)),
        (Arith("axis", AttrVar("p"), Literal(-1)), -2),
        (Arith("axis", Inverse(AttrVar("p")), Literal(-2)), -1),
    ],
)
def test_values(expr, expected):
    assert value(expr) == expected


def test_conditions():
    assert holds(Compare("<", Literal(0), AttrVar("n")), ATTRS.__getitem__, TYPES.__getitem__)
    assert holds(Compare(">=", AttrVar("pads"), Literal(1)), ATTRS.__getitem__, TYPES.__getitem__)
    assert not holds(Compare(">", AttrVar("pads"), Literal(1)), ATTRS.__getitem__, TYPES.__getitem__)


def test_permutations_of_two_ranks():
    with pytest.raises(TypeMismatch, match="do not compose"):
        value(Arith("compose", AttrVar("p"), Literal((1, 0))))
