import pytest

from workbench.laws.foreign.extents import Inexpressible
from workbench.laws.foreign.vocabulary import Ranks, Term, Variable, below, fitted, make, variables
from workbench.rules import RuleSyntaxError

X, Y, W = Variable("x"), Variable("y"), Variable("w")
CONV = {"stride_h": 1, "stride_w": 1, "pad": 0, "act": 0}


def test_terms():
    conv = make("conv2d", CONV, [X, make("enlarge", {"kernel_h": 3, "kernel_w": 3}, [W])])
    assert conv == Term("conv2d", tuple(CONV.items()), conv.args)
    assert conv.pair("stride") == (1, 1)
    assert conv.has("pad")
    assert not conv.has("rank")
    assert variables([conv, Y]) == ["x", "w", "y"]
    assert [t.op for t in below(conv) if isinstance(t, Term)] == ["enlarge", "conv2d"]
    assert make("transpose", {"perm": (1, 0)}, [X]).perm() == (1, 0)


def test_what_depends_on_its_place():
    assert fitted(make("relu", {}, [make("eye", {}, [])]))
    assert fitted(make("merge", {"count": 2}, [W]))
    assert not fitted(make("relu", {}, [X]))


@pytest.mark.parametrize(
    ("op", "params", "args", "message"),
    [
        ("relu", {}, [X, Y], "relu takes 1 input, got 2"),
        ("add", {}, [X], "add takes 2 inputs, got 1"),
        ("concat", {"axis": 0}, [X], "concat takes 2 to 64 inputs, got 1"),
        ("enlarge", {}, [X], "one input and a kernel, or two inputs"),
        ("enlarge", {"kernel_h": 3}, [X], "one input and a kernel, or two inputs"),
        ("enlarge", {"kernel_h": 3, "kernel_w": 3}, [X, Y], "one input and a kernel, or two inputs"),
        ("concat", {}, [X, Y], "concat must have the parameter axis, got none"),
        ("relu", {"act": 0}, [X], "relu has no parameter act"),
        ("conv2d", CONV | {"pad": 2}, [X, W], "pad must be from 0 to 1, got 2"),
        ("conv2d", CONV | {"act": 4}, [X, W], "act must be from 0 to 3, got 4"),
        ("conv2d", CONV | {"stride_h": 0}, [X, W], "stride_h must be from 1 to 1048576, got 0"),
        ("concat", {"axis": 2, "rank": 2}, [X, Y], "axis must be below 2, got 2"),
        ("transpose", {"perm": (1, 1)}, [X], "the order of axes must be a permutation, got (1, 1)"),
        ("part", {"axis": 0, "index": 2, "count": 2}, [X], "index must be below 2, got 2"),
    ],
)
def test_errors_of_terms(op, params, args, message):
    with pytest.raises(RuleSyntaxError) as caught:
        make(op, params, args)
    assert message in str(caught.value)


def test_terms_that_sharing_blows_up_are_refused():
    term = X
    for _ in range(5):
        term = make("add", {}, [term, term])
    with pytest.raises(Inexpressible, match="more than 100"):
        make("add", {}, [term, term])


def test_ranks_follow_from_each_other():
    joined = make("concat", {"axis": 1}, [make("relu", {}, [X]), Y])
    assert Ranks().of(joined) is None
    ranks = Ranks()
    ranks.note([make("conv2d", CONV, [make("scale", {}, [joined, Variable("s")]), W])], [Variable("z")])
    assert [ranks.of(t) for t in (joined, X, Y, W, Variable("z"), Variable("s"))] == [4, 4, 4, 4, 4, 0]

    product = make("matmul", {}, [X, Y])
    ranks = Ranks()
    ranks.note([product], [product])
    assert ranks.of(X) is None
    assert ranks.root(X) == ranks.root(Y) == ranks.root(product)
    ranks = Ranks(planar=True)
    ranks.note([product], [product])
    assert ranks.of(X) == 2


def test_ranks_that_contradict_each_other():
    flat = make("concat", {"axis": 0, "rank": 2}, [X, Y])
    with pytest.raises(Inexpressible, match=r"[24] axes and [24]"):
        Ranks().note([make("conv2d", CONV, [flat, W])], [flat])
    with pytest.raises(Inexpressible, match=r"[24] axes and [24]"):
        Ranks().note([make("conv2d", CONV, [X, W])], [make("transpose", {"perm": (1, 0)}, [X])])
    # An operand of fewer axes broadcasts.
    ranks = Ranks()
    flat = make("concat", {"axis": 0, "rank": 2}, [Y, Y])
    total = make("add", {}, [make("conv2d", CONV, [X, W]), flat])
    ranks.note([total], [total])
    assert (ranks.of(total), ranks.of(flat)) == (4, 2)
