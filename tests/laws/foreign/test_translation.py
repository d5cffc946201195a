import pytest

from workbench.laws.foreign.extents import Inexpressible
from workbench.laws.foreign.translation import law
from workbench.laws.foreign.vocabulary import Variable, make
from workbench.laws.verification.refuting.refute import search
from workbench.rules import RuleSyntaxError, format_rule

X, Y, Z, W, V, S = map(Variable, "xyzwvs")


def conv(x, w, *, stride=1, pad=0, act=0):
    return make("conv2d", {"stride_h": stride, "stride_w": stride, "pad": pad, "act": act}, [x, w])


def pool(op, x, *, kernel=3, stride=1, pad=0, act=0):
    sizes = {f"{n}_{d}": v for n, v in (("kernel", kernel), ("stride", stride)) for d in "hw"}
    return make(op, sizes | {"pad": pad, "act": act}, [x])


def concat(axis, *args, rank=None):
    return make("concat", {"axis": axis} | ({} if rank is None else {"rank": rank}), args)


def part(index, axis, y, count=2):
    return make("part", {"axis": axis, "index": index, "count": count}, [y])


def op(name, *args, **params):
    return make(name, params, args)


def kernel(name):
    return make(name, {"kernel_h": 3, "kernel_w": 3}, [])


def said(source, target, **given):
    """Return the law and its provenance as text."""
    sources, targets = (s if isinstance(s, list) else [s] for s in (source, target))
    text = format_rule(law("n", sources, targets, (), **given))
    return text.removeprefix("n: ")


SAME = "strides=(1, 1), pads=(p0, q0, p0, q0), dilations=(1, 1), groups=g0"
ODD = "dim(w, -2) = 2 * p0 + 1, dim(w, -1) = 2 * q0 + 1"


def test_a_convolution_names_what_taso_infers():
    assert said(op("relu", conv(X, W)), conv(X, W, act=2)) == (
        f"relu(conv2d[{SAME}, act=none](x, w)) => conv2d[{SAME}, act=relu](x, w) where {ODD}"
    )
    valid = "strides=(3, 3), pads=(0, 0, 0, 0), dilations=(1, 1), groups=g0, act=none"
    assert said(conv(X, W, stride=3, pad=1), conv(X, W, stride=3, pad=1)) == (
        f"conv2d[{valid}](x, w) => conv2d[{valid}](x, w)"
    )


def test_pads_and_groups_on_the_right_come_from_the_left_or_from_extents():
    text = said(op("add", conv(X, W), conv(Y, V)), conv(concat(1, X, Y, rank=4), concat(1, W, V, rank=4)))
    target = text.partition(" => ")[2]
    assert target.startswith("conv2d[strides=(1, 1), pads=(p1, q1, p1, q1), ")
    assert "groups=(dim(x, -3) + dim(y, -3)) // (dim(v, -3) + dim(w, -3))" in target
    target = said(conv(X, op("add", W, V)), op("add", conv(X, W), conv(X, V))).partition(" => ")[2]
    assert "pads=((dim(w, -2) - 1) // 2, (dim(w, -1) - 1) // 2" in target
    assert "groups=dim(x, -3) // dim(w, -3)" in target
    assert "max(dim(v, -2), dim(w, -2)) = 2 * p0 + 1" in target


def test_convolutions_that_agree_share_their_variables():
    text = said([conv(X, W), conv(Y, W)], [conv(X, W), conv(Y, W)])
    assert "p1" not in text
    assert "groups=g1" in text
    # A term by itself has as many channels as columns.
    assert "groups=1" in said(conv(X, X), conv(X, X))


def test_merged_groups():
    text = said(conv(X, W), conv(X, op("merge", W, count=2)))
    assert "groups=g0 // 2, act=none](x, merge_gconv[count=2, groups=g0](w))" in text
    assert text.endswith("g0 % 2 = 0")
    back = said(conv(X, op("merge", W, count=2)), conv(X, W))
    assert "merge_gconv[count=2, groups=g0](w)" in back
    assert "dim(x, -3) = g0 * dim(w, -3)" in back
    assert back.partition(" => ")[2].startswith(
        "conv2d[strides=(1, 1), pads=(p0, q0, p0, q0), dilations=(1, 1), groups=g0"
    )


def test_pools():
    assert said(pool("maxpool", X, act=2), pool("avgpool", X, kernel=2, stride=2, pad=1)) == (
        "relu(maxpool[kernel=(3, 3), strides=(1, 1), pads=(1, 1, 1, 1)](x)) => "
        "avgpool[kernel=(2, 2), strides=(2, 2), pads=(0, 0, 0, 0), include_pad=0](x)"
    )


def test_axes_count_from_the_last():
    assert said(concat(0, op("relu", X), op("relu", Y), rank=2), op("relu", concat(0, X, Y, rank=2))) == (
        "concat[axis=-2](relu(x), relu(y)) => relu(concat[axis=-2](x, y)) where rank(x) = 2"
    )
    # A convolution's operands have four axes anyway, a transpose's two.
    assert "rank" not in said(conv(concat(0, X, Y, rank=4), W), conv(concat(0, X, Y, rank=4), W))
    swapped = op("transpose", concat(0, X, Y), perm=(1, 0))
    assert said(swapped, swapped).startswith("transpose[perm=(1, 0)](concat[axis=-2](x, y)) =>")
    assert said(swapped, swapped).count("rank") == 0
    # One operand of a sum may have fewer.
    total = concat(1, op("add", X, Y), op("add", Y, Z), rank=3)
    assert said(total, total).endswith("where max(rank(x), rank(y)) = 3")


def test_axes_of_open_rank():
    left, right = concat(1, op("relu", X), op("relu", Y)), op("relu", concat(1, X, Y))
    assert said(left, right) == (
        "concat[axis=a0](relu(x), relu(y)) => relu(concat[axis=a0](x, y)) where a0 = 1 - rank(x)"
    )
    assert said(op("relu", X), concat(0, X, X)) == "relu(x) => concat[axis=0 - rank(x)](x, x)"


def test_ranks_of_generated_products():
    left, right = concat(1, op("matmul", X, Y), op("matmul", X, Z)), op("matmul", X, concat(1, Y, Z))
    assert "axis=-1" in said(left, right, planar=True)
    assert "axis=a0" in said(left, right)


def test_splits_cut_where_the_last_concatenation_joined():
    whole = op("matmul", X, concat(1, Y, Z, rank=2))
    assert said([op("matmul", X, Y), op("matmul", X, Z)], [part(0, 1, whole), part(1, 1, whole)]) == (
        "matmul(x, y) ; matmul(x, z) => "
        "slice[axis=-1, start=0, stop=dim(y, -1)](matmul(x, concat[axis=-1](y, z))) ; "
        "slice[axis=-1, start=dim(y, -1), stop=dim(y, -1) + dim(z, -1)](matmul(x, concat[axis=-1](y, z))) "
        "where rank(y) = 2, rank(z) = 2, rank(x) = 2"
    )
    assert said(part(1, 0, concat(0, X, Y, rank=1)), Y) == (
        "slice[axis=-1, start=j0, stop=k0](concat[axis=-1](x, y)) => y "
        "where j0 = dim(x, -1), k0 = dim(x, -1) + dim(y, -1), rank(x) = 1"
    )


def test_enlarged_kernels():
    larger = make("enlarge", {"kernel_h": 3, "kernel_w": 5}, [W])
    forth = said(conv(X, W), conv(X, larger))
    assert "pads=(1, 2, 1, 2)" in forth
    assert "enlarge[pads=((3 - dim(w, -2)) // 2, (5 - dim(w, -1)) // 2, " in forth
    back = said(conv(X, larger), conv(X, W))
    assert "enlarge[pads=(e0, f0, e0, f0)](w)" in back
    assert "dim(w, -2) + 2 * e0 = 3, dim(w, -1) + 2 * f0 = 5" in back
    beside = said([conv(X, W), conv(X, V)], [conv(X, op("enlarge", W, V)), conv(X, V)])
    assert "enlarge[pads=((dim(v, -2) - dim(w, -2)) // 2, " in beside
    assert beside.endswith("dim(w, -2) <= dim(v, -2), dim(w, -1) <= dim(v, -1)")


def test_scalars():
    assert (
        said(op("scale", op("relu", X), S), op("scale", X, S))
        == "mul(relu(x), s) => mul(x, s) where rank(s) = 0"
    )


def test_constants_are_as_large_as_they_must():
    eye, ones = op("eye"), op("ones")
    assert said(op("add", X, op("matmul", X, Y)), op("matmul", X, op("add", Y, eye))) == (
        "add(x, matmul(x, y)) => matmul(x, add(y, eye[size=dim(x, -1), dtype=dtype(x)]()))"
    )
    assert said(op("matmul", eye, X), op("relu", X)) == "matmul(eye[size=n0, dtype=d0](), x) => relu(x)"
    forth = said(op("relu", X), conv(X, kernel("identity_kernel"), act=2))
    assert "groups=1, act=relu](x, identity_kernel[channels=dim(x, -3), groups=1, kernel=(3, 3), " in forth
    forth = said(pool("avgpool", X), conv(X, kernel("mean_kernel")))
    assert "pads=(1, 1, 1, 1), dilations=(1, 1), groups=dim(x, -3), act=none]" in forth
    assert "(x, mean_kernel[channels=dim(x, -3), kernel=(3, 3), dtype=dtype(x)]())" in forth
    back = said(conv(X, kernel("mean_kernel")), pool("avgpool", X))
    assert "groups=g0, act=none](x, mean_kernel[channels=c0, kernel=(3, 3), dtype=d0]())" in back
    assert back.endswith("where c0 = dim(x, -3)")
    filled = said(op("scale", pool("maxpool", X), S), op("mul", pool("maxpool", X), op("scale", ones, S)))
    assert "mul(ones[shape=(dim(x, -4), dim(x, -3), dim(x, -2), dim(x, -1)), dtype=dtype(x)](), s)" in filled
    joined = said(op("relu", conv(X, W)), conv(X, concat(0, W, kernel("identity_kernel"))))
    assert "concat[axis=-4](w, identity_kernel[channels=dim(x, -3), groups=1, " in joined


def test_what_is_read_either_way_is_turned_round_where_only_that_has_a_form():
    ones = op("ones")
    left, right = op("relu", X), op("mul", X, ones)
    # Ones whose axes nothing tells are a single one that broadcasts.
    rule = law("n", [left], [right], ("equation#1",), either=True)
    assert rule.provenance == ("equation#1",)
    assert format_rule(rule).startswith("n: relu(x) => mul(x, ones[shape=(), dtype=dtype(x)]())")
    rule = law("n", [left], [part(0, 0, op("relu", concat(0, X, Y, rank=2)))], (), either=True)
    assert rule.provenance == ("reversed",)


def test_a_bare_variable_is_not_a_source():
    rule = law("n", [X], [op("relu", X)], ("taso#1",))
    assert format_rule(rule) == "n: relu(x) => x  @ taso#1, reversed"
    with pytest.raises(Inexpressible, match="bare variable"):
        law("n", [X, op("relu", X)], [op("tanh", X), X], ())
    with pytest.raises(Inexpressible, match="bare variable"):
        law("n", [X], [X], ())


def test_both_sides_the_same():
    rule = law("n", [conv(X, W)], [conv(X, W)], ())
    assert rule.sources == rule.targets


def test_unbound_variables():
    with pytest.raises(RuleSyntaxError, match="y occurs only on the right-hand side"):
        law("n", [op("relu", X)], [op("relu", Y)], ())
    with pytest.raises(RuleSyntaxError, match="z occurs only on the right-hand side"):
        law("n", [op("add", X, Y)], [op("add", X, Z)], (), either=True)


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        (conv(X, W, stride=3), conv(X, W, stride=3), "SAME pads at stride 3"),
        (pool("maxpool", X, kernel=2), X, "SAME pads of a kernel of 2"),
        (conv(X, make("enlarge", {"kernel_h": 2, "kernel_w": 2}, [W])), X, "SAME pads of a kernel of 2"),
        (part(0, 1, op("matmul", X, Y)), X, "an axis that depends on the rank"),
        (part(0, 1, conv(X, W)), X, "nothing was joined along axis -3"),
        (part(0, 0, concat(0, X, Y, rank=2), count=3), X, "a split into 3"),
        (part(0, 1, concat(0, X, Y, rank=1)), X, "the axis must be below the rank 1, got 1"),
        (op("merge", W, count=2), W, "merge must be in a convolution that determines its groups"),
        (
            op("matmul", X, Y),
            op("matmul", X, kernel("mean_kernel")),
            "the size of a constant on the right-hand side is open",
        ),
        (
            op("relu", X),
            op("add", X, kernel("mean_kernel")),
            "the size of a constant on the right-hand side is open",
        ),
        (conv(X, op("enlarge", W, V)), conv(X, W), "v is not bound"),
        (concat(0, conv(X, W), Y, rank=2), X, "4 axes and 2"),
    ],
)
def test_what_has_no_form(source, target, reason):
    with pytest.raises(Inexpressible) as caught:
        law("n", [source], [target], ())
    assert reason in str(caught.value)


def test_names_in_use_are_left_alone():
    p, q = Variable("p0"), Variable("g0")
    assert "pads=(p1, q0, p1, q0), dilations=(1, 1), groups=g1" in said(conv(p, q), conv(p, q))


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (op("relu", conv(X, W)), conv(X, W, act=2)),
        (conv(X, W), conv(X, make("enlarge", {"kernel_h": 3, "kernel_w": 3}, [W]))),
        (conv(X, W, stride=2), conv(X, op("merge", W, count=2), stride=2)),
        (op("relu", X), conv(X, kernel("identity_kernel"), act=2)),
        (op("add", X, op("matmul", X, Y)), op("matmul", X, op("add", Y, op("eye")))),
        (part(1, 0, op("relu", concat(0, X, Y, rank=2))), op("relu", Y)),
    ],
)
def test_translations_hold(source, target):
    found = search(law("n", [source], [target], ()), 30)
    assert found.counterexample is None
    assert len(found.passed) == 30 + found.unusual


def test_an_average_that_leaves_the_padding_out_is_not_a_convolution():
    found = search(law("n", [pool("avgpool", X)], [conv(X, kernel("mean_kernel"))], ()), 30)
    assert found.counterexample is not None
