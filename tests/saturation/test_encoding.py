import math

import numpy as np
import pytest

from workbench.egraph import EGraph
from workbench.graph import GraphBuilder, Opaque
from workbench.ops import TensorType, operators, spec_of
from workbench.saturation.encoding import Constructor, Encoding, encoding_for
from workbench.saturation.engine import Engine, Program
from workbench.saturation.program import literal

ENCODING = Encoding(5)


@pytest.mark.parametrize("kind", ["float32[]", (), (3,), (2, 3, 4, 5, 6)])
def test_types_survive(kind):
    shape = () if isinstance(kind, str) else kind
    for dtype in ("float32", "int64", "bool"):
        value = TensorType(dtype, shape)
        assert ENCODING.type_of(ENCODING.type_vector(value)) == value


@pytest.mark.parametrize("perm", [(0,), (1, 0), (2, 0, 1), (4, 0, 3, 1, 2)])
def test_permutations_survive_and_permute_type_vectors(perm):
    attr = spec_of("transpose").attrs[0]
    vec = ENCODING.perm_vector(perm)
    assert ENCODING.value_of(attr, vec) == perm
    kind = TensorType("float32", tuple(range(2, 2 + len(perm))))
    source = ENCODING.type_vector(kind)
    moved = source[:2] + [source[i] for i in vec[2:]]
    assert ENCODING.type_of(moved).shape == tuple(np.array(kind.shape)[list(perm)])


def test_no_identifier_ends_in_a_digit():
    for spec in operators():
        for arity in range(12):
            constructor = Constructor(spec.name, arity)
            assert not constructor.name[-1].isdigit()
            assert not constructor.born[-1].isdigit()


@pytest.mark.parametrize("value", [0.1, 1e-12, -3.0, math.inf, -math.inf, 1e300])
def test_floats_survive_the_engine(value):
    b = GraphBuilder()
    x = b.input("x", (2, 2))
    graph = b.graph({"y": b.op("clip", x, low=-math.inf if value > 0 else value, high=max(value, 0.0))})
    egraph = EGraph(**Engine(Program(graph, encoding_for(graph), ())).columns())
    assert egraph.attrs[egraph.original[1]] == graph.nodes[1].attrs


def test_names_with_quotes_and_backslashes_survive():
    b = GraphBuilder()
    name = 'a "quoted" \\ näme\twith tab'
    graph = b.graph({"y": b.op("relu", b.input(name, (2,)))})
    egraph = EGraph(**Engine(Program(graph, encoding_for(graph), ())).columns())
    assert egraph.attrs[egraph.original[0]] == (name,)
    assert literal('"') == '"\\""'


def test_opaque_operators_with_several_results():
    b = GraphBuilder()
    x = b.input("x", (4,))
    kinds = (TensorType("float32", (2,)), TensorType("int64", (2,)))
    values, indices = b.opaque(Opaque("TopK", "", kinds), [x])
    graph = b.graph({"v": values, "i": indices})
    engine = Engine(Program(graph.skeleton(), encoding_for(graph), ()))
    egraph = EGraph(**engine.columns())
    assert len(egraph) == 4
    assert engine.e_classes == egraph.n_classes == 4
    assert [egraph.types[c] for c in egraph.roots] == list(kinds)


def test_every_operator_survives_the_engine():
    b = GraphBuilder()
    x = b.input("x", (2, 4, 6, 6))
    v = b.weight((4,))
    ids = [
        b.op("conv2d", x, b.weight((4, 2, 3, 3)), strides=(2, 1), pads=(1, 0, 2, 1), groups=2, act="relu"),
        b.op("maxpool", x, kernel=(3, 2), strides=(2, 2), pads=(1, 0, 0, 1), ceil=1),
        b.op("avgpool", x, kernel=(3, 3), include_pad=1),
        b.op("batchnorm", x, v, v, v, v, eps=1e-3),
        b.op("softmax", x, axis=-3),
        b.op("layernorm", x, b.weight((6,)), axis=-1, eps=1e-6),
        b.op("reduce_mean", x, axes=(-1, -3), keepdims=0),
        b.op("transpose", x, perm=(3, 1, 0, 2)),
        b.op("reshape", x, shape=(12, 24)),
        b.op("expand", b.input("s", (1, 6)), shape=(5, 3, 6)),
        b.op("cast", x, to="float16"),
        b.op("pad", x, pads=(1, 2, 3, 4), value=-0.5),
        b.op("concat", x, x, x, axis=-2),
        b.op("slice", x, axis=-1, start=1, stop=6, step=2),
        b.op("leakyrelu", x, alpha=0.3),
        b.op("eye", size=5, dtype="int64"),
        b.op("ones", shape=(2, 3), dtype="float16"),
        b.op("identity_kernel", channels=4, groups=2, kernel=(3, 5)),
        b.op("mean_kernel", channels=4, kernel=(3, 2), dtype="float64"),
    ]
    graph = b.graph({f"y{i}": n for i, n in enumerate(ids)})
    egraph = EGraph(**Engine(Program(graph.skeleton(), encoding_for(graph), ())).columns())
    assert [egraph.attrs[i] for i in egraph.original] == [n.attrs for n in graph.nodes]
    assert [egraph.types[egraph.eclass[i]] for i in egraph.original] == [n.type for n in graph.nodes]
