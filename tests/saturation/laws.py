"""Rules written as objects, so that the engine's tests depend on no parser."""

from workbench.rules.pattern import App, Arith, AttrVar, Compare, DimOf, DtypeOf, Literal, Rule, Var, Vector

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
#: Constants: one that a law takes away, others that laws make.
EYE_RIGHT = Rule(
    "eye-right",
    (App("matmul", (x, App("eye", (), (("size", AttrVar("n")), ("dtype", AttrVar("d")))))),),
    (x,),
)
EYE_MADE = Rule(
    "eye-made",
    (App("relu", (x,)),),
    (
        App(
            "matmul",
            (App("relu", (x,)), App("eye", (), (("size", DimOf("x", -1)), ("dtype", DtypeOf("x"))))),
        ),
    ),
)
ONES_RIGHT = Rule(
    "ones-right",
    (App("mul", (x, App("ones", (), (("shape", AttrVar("s")), ("dtype", AttrVar("d")))))),),
    (x,),
)
_ONE = App("ones", (), (("shape", Vector((DimOf("x", -1),))), ("dtype", DtypeOf("x"))))
TWICE = Rule("twice", (App("add", (x, x)),), (App("mul", (x, App("add", (_ONE, _ONE)))),))
ONES_MADE = Rule(
    "ones-made",
    (App("cast", (App("reshape", (x,), (("shape", AttrVar("s")),)),), (("to", AttrVar("d")),)),),
    (
        App(
            "mul",
            (
                App("cast", (App("reshape", (x,), (("shape", AttrVar("s")),)),), (("to", AttrVar("d")),)),
                App("ones", (), (("shape", AttrVar("s")), ("dtype", AttrVar("d")))),
            ),
        ),
    ),
)
_CHANNELS = DimOf("x", -3)
MEANS = Rule(
    "means",
    (
        App(
            "avgpool",
            (x,),
            (
                ("kernel", Vector((AttrVar("kh"), AttrVar("kw")))),
                ("strides", AttrVar("s")),
                ("pads", AttrVar("p")),
                ("include_pad", Literal(1)),
            ),
        ),
    ),
    (
        App(
            "conv2d",
            (
                x,
                App(
                    "mean_kernel",
                    (),
                    (
                        ("channels", _CHANNELS),
                        ("kernel", Vector((AttrVar("kh"), AttrVar("kw")))),
                        ("dtype", DtypeOf("x")),
                    ),
                ),
            ),
            (("strides", AttrVar("s")), ("pads", AttrVar("p")), ("groups", _CHANNELS)),
        ),
    ),
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
