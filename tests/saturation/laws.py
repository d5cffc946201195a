"""Rules written as objects, so that the engine's tests depend on no parser."""

from workbench.rules.pattern import App, Arith, AttrVar, Compare, DimOf, Literal, Rule, Var

x, y, z, a, b, c, w, v = map(Var, "xyzabcwv")
AXIS = (("axis", Literal(-1)),)


def matmul(p, q):
    return App("matmul", (p, q), (), "r")


def part(term, start, stop):
    return App("slice", (term,), (*AXIS, ("start", start), ("stop", stop)))


_joined = matmul(x, App("concat", (w, v), AXIS))

ADD_COMMUTES = Rule("add-commutes", (App("add", (x, y)),), (App("add", (y, x)),))
ADD_ASSOCIATES = Rule(
    "add-associates",
    (App("add", (App("add", (x, y)), z)),),
    (App("add", (x, App("add", (y, z)))),),
)
MATMUL_ASSOCIATES = Rule(
    "matmul-associates",
    (App("matmul", (App("matmul", (a, b)), c)),),
    (App("matmul", (a, App("matmul", (b, c)))),),
)
RELU_FUSES = Rule(
    "relu-fuses",
    (App("relu", (App("conv2d", (x, w), (("act", Literal("none")),), "r"),)),),
    (App("conv2d", (x, w), (("act", Literal("relu")),), "r"),),
)
MERGE_PAIR = Rule(
    "merge-pair",
    (matmul(x, w), matmul(x, v)),
    (
        part(_joined, Literal(0), DimOf("w", -1)),
        part(_joined, DimOf("w", -1), Arith("+", DimOf("w", -1), DimOf("v", -1))),
    ),
)
MERGE_EACH = Rule(
    "merge-each",
    (App("matmul", (x, Var("w", True)), (), "r"),),
    (App("slice", (matmul(x, App("concat", (Var("w", True),), AXIS)),), AXIS),),
    each=True,
)
TRANSPOSE_TWICE = Rule(
    "transpose-twice",
    (App("transpose", (App("transpose", (x,), (("perm", AttrVar("p")),)),), (("perm", AttrVar("q")),)),),
    (App("transpose", (x,), (("perm", Arith("compose", AttrVar("p"), AttrVar("q"))),)),),
)
RESHAPE_TWICE = Rule(
    "reshape-twice",
    (App("reshape", (App("reshape", (x,), (("shape", AttrVar("s")),)),), (("shape", AttrVar("t")),)),),
    (App("reshape", (x,), (("shape", AttrVar("t")),)),),
)
#: Wrong on purpose: the two sides have different types wherever it matches.
WRONG_TYPE = Rule("wrong-type", (App("relu", (x,)),), (App("concat", (x, x), AXIS),))
#: Right only where the operand is one row: its condition says so.
ONE_ROW = Rule(
    "one-row",
    (App("relu", (x,)),),
    (App("relu", (App("relu", (x,)),)),),
    (Compare("=", DimOf("x", -2), Literal(1)),),
)
