"""Composites as operators of graphs and rules: types, exact verdicts, costs, replacement."""

import numpy as np
import pytest

import workbench
from tests.ops.operators import forget
from tests.sampled import in_turn
from workbench.graph import GraphBuilder
from workbench.kernels.composites import NotationError, bind
from workbench.kernels.composites.define import declared_rules, register
from workbench.kernels.composites.evaluate import exact_form
from workbench.kernels.composites.files import library
from workbench.kernels.composites.lowering import NoLaw, laws
from workbench.ops import TensorType, TypeMismatch
from workbench.ops.exact import Arithmetic
from workbench.ops.registry import spec_of
from workbench.optimizer.pipeline import optimize
from workbench.saturation.encoding import Encoding
from workbench.saturation.symbolic import SymbolicTyping, SymType


@pytest.fixture
def declared():
    made = []

    def declare(*args, **attributes):
        operator = workbench.kernels.composite(*args, **attributes)
        made.append(operator.name)
        return operator

    yield declare
    for name in dict.fromkeys(made):
        forget(name)


def rms(declared):
    return declared(
        "own_rms",
        "x{T}[~ D], g{T}[D] -> y{T}[~ D]",
        "y[~ d] = x[~ d] * g[d] / sqrt(mean(e) x[~ e]^2 + eps)",
        eps=1e-5,
    )


def test_called_it_computes_in_numpy(declared):
    own = rms(declared)
    x = np.random.default_rng(0).standard_normal((2, 3, 8))
    np.testing.assert_allclose(own(x, np.ones(8), eps=0.0), x / np.sqrt((x * x).mean(-1, keepdims=True)))
    with pytest.raises(TypeMismatch, match="axis -1 of g"):
        own(x, np.ones(7))


def test_graphs_have_its_type_rule_and_its_cost(declared):
    rms(declared)
    b = workbench.GraphBuilder("g")
    assert str(b.type(b.op("own_rms", b.input("x", (4, 8)), b.weight((8,))))) == "float32[4, 8]"
    with pytest.raises(TypeMismatch, match="axis -1 of g"):
        b.op("own_rms", b.input("z", (4, 8)), b.weight((7,)))
    spec = spec_of("own_rms")
    types = [TensorType("float32", (4, 8)), TensorType("float32", (8,))]
    assert spec.flops({"eps": 1e-5}, types, types[0]) == 4 * 8 * (1 + 1 + 1 + 1) + 3 * 4


def test_the_symbolic_reading_has_the_conditions_of_the_declaration(declared):
    own = rms(declared)
    reading = SymbolicTyping(Encoding(rank=3), assuming=False)
    spec_of(own.name).infer(reading, [SymType("x"), SymType("g")], {"eps": 1e-5})
    assert any("x" in g and "g" in g for g in reading.guards)


@pytest.mark.slow
def test_its_law_is_judged_by_the_verifier(declared):
    own = rms(declared)
    check = workbench.laws.Verification(
        [*own.laws(), *workbench.parse_rules("wrong: own_rms[eps=e](x, g) => mul(x, g)")]
    )
    check.run()
    assert check["own-rms-is"].verdict == "tested"
    assert check["wrong"].verdict == "refuted"


@pytest.mark.slow
def test_what_follows_from_the_definition_is_proved(declared):
    from workbench.laws.verification.proving import axioms

    own = declared("own_gemm", "A{T}[M K], B{T}[K N] -> C{T}[M N]", "C[i j] = sum(k) A[i k] * B[k j]")
    rules = workbench.parse_rules(
        """
distributes: own_gemm(x, add(y, z)) => add(own_gemm(x, y), own_gemm(x, z))
associates: own_gemm(own_gemm(x, y), z) => own_gemm(x, own_gemm(y, z))
commutes: own_gemm(x, y) => own_gemm(y, x)
"""
    )
    check = workbench.laws.Verification(rules, axiom_set=(*axioms(), *own.laws()))
    check.run()
    assert [check[r.name].short for r in rules] == ["by axioms", "by axioms", "refuted"]


def test_a_composite_is_found_in_a_graph_that_does_not_name_it(declared):
    own = declared(
        "own_rms",
        "x{T}[~ D], g{T}[D] -> y{T}[~ D]",
        "y[~ d] = x[~ d] * g[d] / sqrt(mean(e) x[~ e]^2 + eps)",
        eps=1e-5,
    )
    b = workbench.GraphBuilder("g")
    x, g = b.input("x", (4, 8)), b.weight((8,))
    mean = b.op("reduce_mean", b.op("mul", x, x), axes=(-1,), keepdims=1)
    root = b.op("sqrt", b.op("add", mean, b.op("scalar", value=0.25)))
    model = b.graph({"y": b.op("div", b.op("mul", x, g), root)})
    result = workbench.optimize(model, rules=own.laws(found=True), cost="analytic", time=False)
    assert [n.named_attrs() for n in result.graph.nodes if n.op == "own_rms"] == [{"eps": 0.25}]
    assert result.certificate.passed


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    in_turn(["swiglu", "mish", "logsumexp", "linear", "batched", "gemm", "row_sum", "add_norm", "sine"], 3),
)
def test_laws_of_the_library_are_judged(name):
    register(library()[name])
    try:
        check = workbench.laws.Verification(workbench.parse_rules(laws(library()[name])))
        check.run()
        assert {v.verdict for v in check.verdicts} == {"tested"}
    finally:
        forget(name)


def test_which_composites_have_laws():
    for name in ("gemm", "rms", "softmax", "attention", "gelu_tanh", "sine"):
        assert laws(library()[name]).startswith(f"{name.replace('_', '-')}-is")
    for name in ("im2col", "arange", "outer", "lower", "leaky"):
        with pytest.raises(NoLaw, match=f"{name} has no law: "):
            laws(library()[name])


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("gemm", Arithmetic.POLYNOMIAL),
        ("relu", Arithmetic.ORDERED),
        ("silu", Arithmetic.DIGITS),
        ("sine", Arithmetic.FLOATS),
    ],
)
def test_the_least_arithmetic_follows_from_the_primitives(name, least):
    form = exact_form(library()[name])
    assert form.arithmetic(library()[name].defaults) is least


def test_degrees_follow_products():
    assert exact_form(library()["gemm"]).degree([1, 1]) == 2


def test_a_declaration_again_replaces_the_first(declared):
    declared("own_twice", "x{T}[~] -> y{T}[~]", "y = 2 * x")
    again = declared("own_twice", "x{T}[~] -> y{T}[~]", "y = x + x + x")
    assert float(again(1.0)) == 3
    assert spec_of("own_twice").evaluate([np.ones(1)], {})[0] == 3


def test_composites_call_declared_ones(declared):
    declared("own_twice", "x{T}[~] -> y{T}[~]", "y = 2 * x")
    assert float(declared("own_four", "x{T}[~] -> y{T}[~]", "y = own_twice(own_twice(x))")(1.0)) == 4


@pytest.mark.parametrize(
    ("name", "signature", "equations", "reason"),
    [
        ("softmax", "x{T}[~] -> y{T}[~]", "y = x", "built-in operator"),
        ("Own", "x{T}[~] -> y{T}[~]", "y = x", "lower-case"),
        ("own_none", "-> y{float32}[N]", "y[i] = i", "must have operands and one result"),
        (
            "own_two",
            "x{T}[~] -> y{T}[~], z{T}[~]",
            "y = x; z = x",
            "one result, got 1 operands and 2 results",
        ),
    ],
)
def test_what_cannot_be_an_operator(name, signature, equations, reason):
    with pytest.raises(ValueError, match=reason):
        workbench.kernels.composite(name, signature, equations, **({"N": 3} if "N]" in signature else {}))


def test_an_error_of_the_notation_is_a_value_error():
    with pytest.raises(NotationError, match=r"\^"):
        workbench.kernels.composite("own_bad", "x{T}[~ D] -> y{T}[~ D]", "y[~ d] = x[~ e]")


def test_it_travels_to_the_engines_process(declared):
    own = declared("own_twice", "x{T}[~] -> y{T}[~]", "y = 2 * x")
    b = workbench.GraphBuilder("g")
    x = b.input("x", (4, 8))
    model = b.graph({"y": b.op("add", x, x)})
    rules = workbench.parse_rules("to-twice: add(x, x) => own_twice(x)")
    result = workbench.optimize(model, rules=rules, cost="analytic", time=False)
    assert result.certificate.passed
    assert bind(own.composite, [TensorType("float32", (4, 8))]).outputs()[0].shape == (4, 8)


TEXT = """
# A soft clipped gate.
soft_gate_of_file: x{T}[~], z{T}[~] -> y{T}[~]
    y = x * tanh(z / 3)

# A norm of rows, with a number of its own.
norm_of_file(eps=1e-5): x{T}[~ D], g{T}[D] -> y{T}[~ D]
    y[~ d] = x[~ d] * g[d] / sqrt(mean(e) x[~ e]^2 + eps)
"""


@pytest.fixture(scope="module")
def rules(tmp_path_factory):
    """Return the laws of a file of composites; they are judged when it is read."""
    place = tmp_path_factory.mktemp("composites") / "mine.composite"
    place.write_text(TEXT)
    return declared_rules(place)


@pytest.mark.slow
def test_composites_of_a_file_have_judged_laws_in_both_directions(rules):
    names = ["soft-gate-of-file-is", "soft-gate-of-file-found", "norm-of-file-is", "norm-of-file-found"]
    assert [rule.name for rule in rules] == names
    assert {rules.verdict(rule) for rule in rules} <= {"theorem", "tested"}


@pytest.mark.slow
def test_a_search_finds_a_composite_in_a_graph(rules):
    b = GraphBuilder()
    x, z = b.input("x", (4, 8)), b.input("z", (4, 8))
    third = b.op("div", z, b.op("scalar", value=3.0, dtype="float32"))
    graph = b.graph({"y": b.op("mul", x, b.op("tanh", third))})
    found = optimize(graph, rules=[rules], cost="analytic", time=False)
    assert "soft_gate_of_file" in found.egraph.ops
    assert found.certificate.passed


def test_a_file_without_a_law_is_refused(tmp_path):
    place = tmp_path / "none.composite"
    place.write_text("sizes: -> y{T}[N]\n    y[i] = i\n")
    with pytest.raises(NotationError):
        declared_rules(place)
