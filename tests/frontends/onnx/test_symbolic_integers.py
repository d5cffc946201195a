"""Shape arithmetic over symbols: a value counts as constant only if it is one at every size."""

import numpy as np
import pytest

from tests.frontends.onnx.test_symbolic_shapes import F4, i8, written
from tests.frontends.symbolic_models import keeps

#: The integer that a model computes from the size n as o, and the sizes on both sides of where it changes.
CONDITIONS = {
    "equal": ("c = Equal(n, k) o = Where(c, a, b)", 7, (1, 7, 8)),
    "a difference as a truth": ("z = Sub(n, k) zb = Cast<to=9>(z) o = Cast<to=1>(zb)", 7, (1, 7, 8)),
    "greater": ("c = Greater(n, k) o = Where(c, a, b)", 10, (1, 10, 11)),
    "far away": ("c = Greater(n, k) o = Where(c, a, b)", 20000, (1, 20000, 20001)),
    "less or equal": ("c = LessOrEqual(n, k) o = Where(c, a, b)", 3, (2, 3, 4)),
    "remainder": ("q = Mod(n, k) o = Cast<to=1>(q)", 2, (1, 2, 3)),
    "least": ("q = Min(n, k) o = Cast<to=1>(q)", 10, (1, 10, 20)),
    "largest": ("q = Max(n, k) o = Cast<to=1>(q)", 10, (1, 10, 20)),
    "sign": ("q = Sub(n, k) r = Sign(q) o = Cast<to=1>(r)", 5, (1, 5, 9)),
    "either": ("c = Less(n, k) e = Equal(n, six) f = Or(c, e) o = Where(f, a, b)", 3, (1, 3, 5, 6, 7)),
    "neither": ("c = Less(n, k) e = Not(c) f = And(e, e) o = Where(f, a, b)", 3, (2, 3)),
    "halved and rounded up": (
        "f = Cast<to=1>(n) g = Mul(f, half) h = Ceil(g) q = Cast<to=7>(h) r = Mod(q, k) o = Cast<to=1>(r)",
        2,
        (1, 2, 3, 4, 5),
    ),
    "a quotient below zero": ("q = Sub(n, six) r = Div(q, k) o = Cast<to=1>(r)", 4, (1, 2, 5, 6, 11)),
    "a branch": (
        "c = Equal(n, k) o = If<then_branch=t () => (float p) { p = Mul(a, b) }, "
        "else_branch=e () => (float q) { q = Add(a, b) }>(c)",
        7,
        (1, 7, 8),
    ),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_condition_on_a_size_is_decided_at_run_time(name):
    text, k, sizes = CONDITIONS[name]
    m = written(
        f"d = Shape(x) n = Gather(d, zero) {text} y = Mul(x, o)",
        "float[N,6] x",
        "float[N,6] y",
        zero=np.int64(0),
        six=np.int64(6),
        half=F4(0.5),
        k=np.int64(k),
        a=F4(2),
        b=F4(3),
    )
    keeps(m, *({"N": n} for n in sizes), symbols=["N"])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("p = Add(n, one) c = Greater(p, one) q = Cast<to=7>(c)", 1),
        ("p = Mul(n, two) q = Mod(p, two)", 0),
        ("p = Mul(n, two) r = Div(p, two) q = Sub(r, n)", 0),
        ("m = Max(n, one) q = Sub(m, n)", 0),
        ("c = Equal(n, zero) q = Cast<to=7>(c)", 0),
    ],
)
def test_what_is_the_same_at_every_size_is_a_constant(text, value):
    m = written(
        f"d = Shape(x) n = Gather(d, zero) {text} u = Unsqueeze(q, z1) v = Add(x, u) y = Identity(v)",
        "int64[N] x",
        "int64[N] y",
        zero=np.int64(0),
        one=np.int64(1),
        two=np.int64(2),
        z1=i8(0),
    )
    opened, _ = keeps(m, {"N": 1}, {"N": 4}, symbols=["N"])
    assert [k.value().tolist() for k in opened.searched.weights.values()] in ([], [[value]])
