import pytest

from workbench.laws.foreign.extents import (
    Inexpressible,
    Shapes,
    largest,
    minus,
    normal,
    over,
    plus,
    times,
    vector,
)
from workbench.rules import parse_rule
from workbench.rules.pattern import App, AttrVar, DimOf, Literal, Var, Vector, format_expr

A, B = DimOf("a", -1), DimOf("b", -1)


def term(text):
    (rule,) = parse_rule(f"t: {text} => {text}")
    return rule.sources[0]


def test_one_form_for_one_number():
    assert plus(A, B) == plus(B, A)
    assert format_expr(plus(B, A, Literal(2))) == "dim(a, -1) + dim(b, -1) + 2"
    assert minus(plus(A, B), A) == B
    assert minus(A, A) == Literal(0)
    assert format_expr(minus(Literal(3), A)) == "3 - dim(a, -1)"
    assert format_expr(plus(A, A, times(2, B), Literal(-1))) == "2 * dim(a, -1) + 2 * dim(b, -1) - 1"
    assert normal(times(0, A)) == Literal(0)
    assert (over(A, Literal(1)), over(A, A), over(Literal(7), Literal(2))) == (A, Literal(1), Literal(3))
    assert largest(A, largest(B, A)) == largest(B, A)
    assert largest(Literal(3), Literal(5)) == Literal(5)
    assert vector(Literal(1), Literal(2)) == Literal((1, 2))
    assert vector(Literal(1), A) == Vector((Literal(1), A))


@pytest.mark.parametrize(
    ("text", "axis", "extent"),
    [
        ("relu(x)", -2, "dim(x, -2)"),
        ("add(y, x)", -1, "max(dim(x, -1), dim(y, -1))"),
        ("concat[axis=-1](x, y)", -1, "dim(x, -1) + dim(y, -1)"),
        ("concat[axis=-1](y, x)", -2, "dim(x, -2)"),
        ("matmul(x, y)", -2, "dim(x, -2)"),
        ("matmul(x, y)", -1, "dim(y, -1)"),
        ("matmul(x, y)", -3, "max(dim(x, -3), dim(y, -3))"),
        ("transpose[perm=(1, 0)](x)", -1, "dim(x, -2)"),
        ("transpose[perm=(1, 0)](x)", -3, "1"),
        ("conv2d[strides=(2, 1), pads=(0, 0, 0, 0)](x, w)", -4, "dim(x, -4)"),
        ("conv2d[strides=(2, 1), pads=(0, 0, 0, 0)](x, w)", -3, "dim(w, -4)"),
        ("conv2d[strides=(2, 1), pads=(0, 0, 0, 0)](x, w)", -2, "(dim(x, -2) - dim(w, -2)) // 2 + 1"),
        ("maxpool[kernel=(3, 3), strides=(1, 1)](x)", -1, "dim(x, -1) - 2"),
        ("merge_gconv[count=2, groups=4](w)", -3, "2 * dim(w, -3)"),
        ("slice[axis=-1, start=0, stop=3](x)", -1, "3"),
        ("slice[axis=-1, start=0, stop=3](x)", -2, "dim(x, -2)"),
        ("eye[size=n, dtype=d]()", -1, "n"),
        ("identity_kernel[channels=c, groups=1, kernel=(3, 5), dtype=d]()", -3, "c"),
        ("mean_kernel[channels=c, kernel=(3, 5), dtype=d]()", -3, "1"),
        ("mean_kernel[channels=c, kernel=(3, 5), dtype=d]()", -1, "5"),
    ],
)
def test_extents(text, axis, extent):
    assert format_expr(Shapes().extent(term(text), axis)) == extent


def test_what_is_known_besides_the_attributes():
    shapes = Shapes(known={"k0": B, "c0": A})
    assert shapes.extent(term("slice[axis=-1, start=0, stop=k0](x)"), -1) == B
    assert shapes.extent(term("mean_kernel[channels=c0, kernel=(1, 1), dtype=d]()"), -4) == A
    same = term("conv2d[strides=(2, 2), pads=(p, q, p, q)](x, w)")
    shapes.same.add(same)
    assert format_expr(shapes.extent(same, -1)) == "(dim(x, -1) - 1) // 2 + 1"
    larger = term("enlarge[pads=(e, f, e, f)](w)")
    shapes.kernels[larger] = (Literal(3), A)
    assert (shapes.extent(larger, -2), shapes.extent(larger, -1)) == (Literal(3), A)
    shapes.scalars.add(Var("s"))
    assert shapes.extent(term("mul(x, s)"), -1) == DimOf("x", -1)


@pytest.mark.parametrize(
    "text",
    [
        "concat[axis=a](x, y)",
        "ones[shape=s, dtype=d]()",
        "mul(ones[shape=s, dtype=d](), ones[shape=s, dtype=d]())",
    ],
)
def test_open_extents(text):
    with pytest.raises(Inexpressible):
        Shapes().extent(term(text), -1)


def test_ranks():
    shapes = Shapes()
    assert format_expr(shapes.rank(term("add(x, y)"))) == "max(rank(x), rank(y))"
    assert shapes.rank(term("add(x, conv2d(y, w))")) == largest(shapes.rank(Var("x")), Literal(4))
    assert format_expr(shapes.rank(term("matmul(x, transpose[perm=(1, 0)](y))"))) == "rank(x)"
    assert shapes.rank(term("concat[axis=-1](x, eye[size=n, dtype=d]())")) == Literal(2)
    shapes.learn([term("concat[axis=-1](x, maxpool[kernel=(1, 1)](y))"), term("concat[axis=-1](relu(z), x)")])
    assert shapes.ranks == {"x": 4, "y": 4, "z": 4}


@pytest.mark.parametrize(
    ("text", "axis", "parts"),
    [
        ("concat[axis=-1](x, y)", -1, "dim(x, -1), dim(y, -1)"),
        ("concat[axis=-1](x, y, z)", -1, "dim(x, -1) + dim(y, -1), dim(z, -1)"),
        ("relu(concat[axis=-1](x, y))", -1, "dim(x, -1), dim(y, -1)"),
        ("add(z, concat[axis=-1](x, y))", -1, "dim(x, -1), dim(y, -1)"),
        ("matmul(z, concat[axis=-1](x, y))", -1, "dim(x, -1), dim(y, -1)"),
        ("matmul(concat[axis=-2](x, y), z)", -2, "dim(x, -2), dim(y, -2)"),
        ("transpose[perm=(1, 0)](concat[axis=-1](x, y))", -2, "dim(x, -1), dim(y, -1)"),
        ("conv2d(concat[axis=-4](x, y), w)", -4, "dim(x, -4), dim(y, -4)"),
        ("conv2d(x, concat[axis=-4](v, w))", -3, "dim(v, -4), dim(w, -4)"),
        ("maxpool[kernel=(1, 1)](concat[axis=-3](x, y))", -3, "dim(x, -3), dim(y, -3)"),
        ("slice[axis=-1, start=0, stop=1](concat[axis=-2](x, y))", -2, "dim(x, -2), dim(y, -2)"),
        ("concat[axis=-1](concat[axis=-2](x, y), concat[axis=-2](x, y))", -2, "dim(x, -2), dim(y, -2)"),
    ],
)
def test_cuts(text, axis, parts):
    assert ", ".join(map(format_expr, Shapes().cut(term(text), axis))) == parts


@pytest.mark.parametrize(
    ("text", "axis"),
    [
        ("relu(x)", -1),
        ("concat[axis=-1](x, y)", -2),
        ("matmul(concat[axis=-1](x, y), z)", -1),
        ("matmul(concat[axis=-3](x, y), z)", -3),
        ("conv2d(concat[axis=-3](x, y), w)", -3),
        ("conv2d(concat[axis=-2](x, y), w)", -2),
        ("add(concat[axis=-1](x, y), concat[axis=-1](z, y))", -1),
        ("concat[axis=-1](concat[axis=-2](x, y), z)", -2),
        ("slice[axis=-1, start=0, stop=1](concat[axis=-1](x, y))", -1),
        ("merge_gconv[count=2, groups=2](concat[axis=-3](x, y))", -3),
    ],
)
def test_nothing_to_cut_at(text, axis):
    with pytest.raises(Inexpressible, match="nothing was joined"):
        Shapes().cut(term(text), axis)


def test_literal_vectors_are_measured():
    ones = App("ones", (), (("shape", Vector((A, AttrVar("n")))),))
    assert Shapes().extent(ones, -2) == A
    assert Shapes().extent(ones, -3) == Literal(1)
    assert Shapes().rank(ones) == Literal(2)
