"""Operators of a notebook cell: they reach engine, verifier, certificate, costs, views and files."""

import doctest

import numpy as np
import pytest

import workbench
from tests.ops.operators import cube, forget, registered, silu, silu_nodes
from workbench.costs.keys import instance_key
from workbench.costs.measured import MeasuredCost
from workbench.costs.pricing import instances_of
from workbench.faces.views.graphs import whole_scene
from workbench.graph import evaluate, fold_constants
from workbench.laws.verification import Verification
from workbench.laws.verification.evidence import Effort
from workbench.ops import Attr, TensorType, Trait, TypeMismatch, spec_of, user_ops, with_trait
from workbench.ops.user_ops import OperatorReplaced
from workbench.saturation.process import end_idle

LAWS = workbench.parse_rules
CUBED = "to-cube: mul(x, mul(x, x)) => cube(x)"
SILUED = "to-silu: mul(x, sigmoid(x)) => silu(x)"


def network():
    """Return silu of a product, multiplied by a weight and cubed."""
    b = workbench.GraphBuilder()
    h = b.op("matmul", b.input("x", (4, 8)), b.weight((8, 8), name="w"))
    y = b.op("matmul", b.op("mul", h, b.op("sigmoid", h)), b.weight((8, 8), name="v"))
    return b.graph({"y": b.op("mul", y, b.op("mul", y, y))})


def optimised(model, laws, **options):
    return workbench.optimize(model, rules=LAWS(laws), **({"cost": "analytic", "time": False} | options))


def judged(law):
    check = Verification(LAWS(law))
    check.run()
    (verdict,) = check.verdicts
    return verdict


def of_one_kind(arithmetics, kind):
    """Return whether all instances, at least the draws of every law without a proof, were in one arithmetic.

    More are evaluated beside the literals of a law and in the cases that are not proved.
    """
    return set(arithmetics) == {kind} and arithmetics[kind] >= Effort().draws


def fired(result):
    """Return the names of the rules that matched."""
    return {r.rule for step in result.trace for r in step.rules if r.matches}


def ops(graph):
    return [node.op for node in graph.nodes]


def test_the_example_in_the_docstring_runs():
    runner = doctest.DocTestRunner()
    for test in doctest.DocTestFinder().find(
        user_ops.operator, "operator", globs={"operator": user_ops.operator}
    ):
        runner.run(test)
    forget("square")
    assert runner.tries > 3
    assert runner.failures == 0


# -- from the function to the operator --------------------------------------------------------------------
def test_parameters_become_operands_and_attributes():
    def scaled(x, y, *, by=1.5, times=2, up=True, window=(1, 2), mode="same", axes: int):
        return x + y

    with registered(scaled):
        spec = spec_of("scaled")
        assert (spec.min_inputs, spec.max_inputs) == (2, 2)
        assert [(a.name, a.kind, a.default) for a in spec.attrs] == [
            ("by", "float", 1.5),
            ("times", "int", 2),
            ("up", "int", 1),
            ("window", "ints", (1, 2)),
            ("mode", "str", "same"),
            ("axes", "int", None),
        ]
        assert Trait.BROADCASTS in spec.traits
        assert "scaled" in with_trait(Trait.OWN)


def test_any_number_of_operands_broadcast():
    def total(*xs):
        return sum(xs)

    with registered(total):
        b = workbench.GraphBuilder()
        y = b.op("total", *(b.input(n, s) for n, s in (("a", (2, 3)), ("b", (3,)), ("c", (2, 1)))))
        assert b.type(y) == TensorType("float32", (2, 3))
        found = evaluate(
            b.graph({"y": y}), {"a": np.ones((2, 3)), "b": np.ones(3), "c": np.full((2, 1), 2.0)}
        )
        assert found["y"].tolist() == [[4.0] * 3] * 2


@pytest.mark.slow
def test_a_type_rule_of_its_own_reaches_the_guards_of_rules():
    def halves(t, xs, attrs):
        t.require(t.dim(xs[0], -1) % 2 == 0, "the width is odd")
        return t.with_dim(xs[0], -1, t.dim(xs[0], -1) // 2)

    def pairs(x):
        return x[..., ::2] + x[..., 1::2]

    with registered(pairs, type_rule=halves):
        b = workbench.GraphBuilder()
        with pytest.raises(TypeMismatch, match="pairs: the width is odd"):
            b.op("pairs", b.input("x", (2, 3)))
        assert b.type(b.op("pairs", b.input("y", (2, 4)))).shape == (2, 2)
        assert judged("sums: pairs(add(x, y)) => add(pairs(x), pairs(y))").verdict == "tested"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "relu"}, "must not be that of a built-in operator, got relu"),
        ({"name": "Big"}, "must be lower-case"),
        ({"name": "dim"}, "must be lower-case"),
        ({"exact": 2}, "must be a polynomial of degree 2 at most"),
        ({"exact": 0}, "must be at least 1, got 0"),
        ({"exact": "perhaps"}, "exact must be a degree, ordered, rational or a function"),
        ({"onnx": "com.example::"}, "must be a type or domain::type"),
    ],
)
def test_what_cannot_be_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        workbench.operator(cube, **options)
    assert not with_trait(Trait.OWN)


def test_a_polynomial_has_whole_coefficients():
    def half(x):
        return 0.5 * x

    with pytest.raises(ValueError, match=r"whole coefficients, got 2\.0 from whole numbers"):
        workbench.operator(half, exact=1)


def test_parameters_that_are_neither_operands_nor_attributes_are_refused():
    def shifted(x, by=1):
        return x + by

    with pytest.raises(ValueError, match="keyword-only parameter, got by=1"):
        workbench.operator(shifted)
    with pytest.raises(ValueError, match="must take at least one operand"):
        workbench.operator(lambda *, a=1: a, name="none")


def test_one_onnx_operator_stands_for_one_operator():
    with (
        registered(silu, onnx="com.example::Both"),
        pytest.raises(ValueError, match="Both must stand for one operator, got silu and cube"),
    ):
        workbench.operator(cube, onnx="com.example::Both")


def test_a_function_that_disagrees_with_its_type_rule_is_named():
    def shrunk(x):
        return x[..., :1]

    with registered(shrunk):
        b = workbench.GraphBuilder()
        graph = b.graph({"y": b.op("shrunk", b.input("x", (2, 3)))})
        with pytest.raises(TypeMismatch, match=r"shrunk: the type rule says float32\[2, 3\]"):
            evaluate(graph, {"x": np.ones((2, 3), np.float32)})


# -- verdicts -------------------------------------------------------------------------------------------
@pytest.mark.slow
def test_a_polynomial_is_judged_exactly():
    with registered(cube, exact=3):
        found = judged(CUBED)
        assert found.verdict == "tested"
        assert of_one_kind(found.evidence["arithmetic"], "modular")
        assert "floating" not in found.evidence
        wrong = judged("square: mul(x, x) => cube(x)")
        assert wrong.verdict == "refuted"
        example = wrong.evidence["counterexample"]
        assert example["left"] != example["right"]


@pytest.mark.slow
def test_a_polynomial_of_any_degree_stays_exact():
    def tenth(x):
        return x**10

    with registered(tenth, exact=10):
        assert judged("halves: tenth(mul(x, y)) => mul(tenth(x), tenth(y))").verdict == "tested"
        assert judged("relu: tenth(relu(x)) => relu(tenth(x))").verdict == "refuted"


@pytest.mark.slow
def test_attributes_are_tried_with_more_than_the_default():
    def raised(x, *, to=1):
        return x**to

    with registered(raised, exact=3):
        laws = "once: raised[to=n](x) => raised[to=n](mul(x, raised[to=0](x)))"
        assert judged(laws).verdict == "tested"
        # Right for 0 and 1, the values of a flag.
        wrong = judged(
            "linear: raised[to=n](mul(x, y)) => mul(raised[to=n](x), raised[to=n](raised[to=n](y)))"
        )
        assert wrong.verdict == "refuted"


@pytest.mark.slow
def test_a_transcendental_operator_is_tested_in_float64_and_the_verdict_says_so():
    with registered(silu):
        found = judged(SILUED)
        assert found.verdict == "tested"
        assert of_one_kind(found.evidence["arithmetic"], "float64")
        assert found.evidence["floating"] == {
            "instances": found.evidence["arithmetic"]["float64"],
            "tolerance": 1e-9,
        }
        assert "in float64 within 1e-09, the weakest evidence" in found.reason()
        wrong = judged("wrong: silu(x) => sigmoid(x)")
        assert wrong.verdict == "refuted"
        assert wrong.evidence["counterexample"]["arithmetic"].startswith("float64")


@pytest.mark.slow
def test_an_exact_form_replaces_floats():
    def exactly(numbers, x):
        return x / (1 + numbers.exp(-x))

    with registered(silu, exact=exactly):
        found = judged(SILUED)
        assert of_one_kind(found.evidence["arithmetic"], "digits")


@pytest.mark.slow
def test_the_other_processes_of_a_verification_get_the_operators():
    with registered(cube, exact=3):
        laws = "\n".join(f"law-{i}: mul(x, x) => cube[shift={i}](x)" for i in range(5))
        check = Verification(LAWS(laws), jobs=2)
        check.run()
        assert check.counts == {"refuted": 5}


# -- optimisation ---------------------------------------------------------------------------------------
def test_the_engine_certificate_and_files_know_the_operators(tmp_path):
    with registered(silu, onnx=silu_nodes, flops=5), registered(cube, exact=3, onnx="com.example::Cube"):
        result = optimised(network(), f"{SILUED}\n{CUBED}")
        assert sorted(ops(result.graph)) == ["cube", "input", "matmul", "matmul", "silu", "weight", "weight"]
        assert result.cost_after < result.cost_before
        assert result.certificate.passed
        assert result.certificate.lacking == ("cube",)
        assert "ONNX Runtime has no kernel for cube" in result.certificate.verdict()
        result.save(tmp_path / "own.onnx")
        again = workbench.load_onnx(tmp_path / "own.onnx")
        assert "cube" in ops(again)  # by its name in the file
        assert "silu" not in ops(again)  # as standard operators
        assert workbench.certify(network(), again).passed
        boxes = whole_scene(result.graph).boxes
        assert [dict(b.facts)["meaning"] for b in boxes if b.lines[0] == "silu"] == ["x * sigmoid(x)"]


def test_a_standard_form_runs_in_the_runtime():
    with registered(silu, onnx=silu_nodes):
        result = optimised(network(), SILUED)
        assert "silu" in ops(result.graph)
        assert result.certificate.whole.startswith("ONNX Runtime")
        assert result.certificate.lacking == ()


@pytest.mark.parametrize(
    "how", [{"measure": 1, "measure_seconds": 0.05}, {"time": True, "time_seconds": 0.05}]
)
def test_a_timing_without_a_kernel_keeps_the_original_and_says_why(how):
    with registered(cube, exact=3, onnx="com.example::Cube"):
        result = optimised(network(), CUBED, **how)
        assert "com.example:Cube" in str(result.measured)
        assert "does not run here" in str(result.measured)


def test_a_wrong_rule_never_gets_into_a_result():
    with registered(silu):
        result = optimised(network(), "wrong: mul(x, mul(x, x)) => silu(x)")
        assert "silu" not in ops(result.graph)
        assert not result.certificate.passed


def test_symbolic_dimensions_stay_with_a_custom_domain(tmp_path):
    import onnx

    model = workbench.to_onnx(network())
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    with registered(cube, exact=3, onnx="com.example::Cube"):
        result = optimised(model.SerializeToString(), CUBED)
        assert "cube" in ops(result.graph)
        result.save(tmp_path / "own.onnx")
        saved = onnx.load(tmp_path / "own.onnx")
        assert saved.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
        assert [n.domain for n in saved.graph.node if n.op_type == "Cube"] == ["com.example"]
        again = optimised(str(tmp_path / "own.onnx"), CUBED)
        assert again.certificate.passed


def test_attributes_make_the_round_trip(tmp_path):
    with registered(cube, exact=3):
        b = workbench.GraphBuilder()
        graph = b.graph({"y": b.op("cube", b.input("x", (2, 3)), shift=2)})
        workbench.save_onnx(graph, tmp_path / "cube.onnx")
        (node,) = [n for n in workbench.load_onnx(tmp_path / "cube.onnx").nodes if n.op == "cube"]
        assert node.named_attrs() == {"shift": 2}


def test_another_operator_of_the_same_name_stays_as_it_came(tmp_path):
    import onnx
    from onnx import helper

    node = helper.make_node("Cube", ["x"], ["y"], domain="com.example")
    values = [helper.make_tensor_value_info(name, onnx.TensorProto.INT32, (2, 3)) for name in "xy"]
    graph = helper.make_graph([node], "whole numbers", values[:1], values[1:])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.example", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    with registered(cube, exact=3, onnx="com.example::Cube"):
        imported = workbench.import_onnx(model)
        assert ops(imported.graph) == ["input", "opaque"]
        assert [n.op_type for n in workbench.to_onnx(imported.graph).graph.node] == ["Cube"]


def test_a_standard_operator_that_is_not_modelled_becomes_one(tmp_path):
    def softsign(x):
        return x / (1 + np.abs(x))

    with registered(softsign, onnx="Softsign"):
        b = workbench.GraphBuilder()
        graph = b.graph({"y": b.op("softsign", b.input("x", (2, 3)))})
        workbench.save_onnx(graph, tmp_path / "soft.onnx")
        again = workbench.load_onnx(tmp_path / "soft.onnx")
        assert ops(again) == ["input", "softsign"]
        assert workbench.certify(graph, again).whole.startswith("ONNX Runtime")


# -- registering again --------------------------------------------------------------------------------
def scaling(k):
    def scaled(x):
        return k * x

    return scaled


@pytest.mark.slow
def test_a_new_definition_replaces_the_old_one_everywhere():
    b = workbench.GraphBuilder()
    x = b.input("x", (2, 3))
    weights = b.op("matmul", b.weight(data=np.eye(2, dtype=np.float32)), x)
    graph = b.graph({"y": b.op("add", weights, weights)})
    law = "twice: add(x, x) => scaled(x)"
    with registered(scaling(2), exact=1):
        (before,) = instances_of(b.graph({"y": b.op("scaled", x)}))
        key = instance_key(before)
        right = optimised(graph, law)
        folds = b.graph({"y": b.op("scaled", b.weight(data=np.ones(3, np.float32)))})
        (old,) = fold_constants(folds).weights.values()
        assert "scaled" in ops(right.graph)
        assert right.certificate.passed
        with pytest.warns(OperatorReplaced, match="scaled is registered again"):
            workbench.operator(scaling(3), exact=1)
        assert not optimised(graph, law).certificate.passed
        assert judged(law).verdict == "refuted"
        assert instance_key(before) != key
        (new,) = fold_constants(folds).weights.values()
        assert (old.value().tolist(), new.value().tolist()) == ([2.0] * 3, [3.0] * 3)


def test_the_same_cell_again_says_nothing(recwarn):
    with registered(scaling(2)):
        workbench.operator(scaling(2))
    assert not [w for w in recwarn if issubclass(w.category, OperatorReplaced)]


def test_other_types_reach_a_warm_engine_that_had_the_old_ones():
    def first(x):
        return x[..., :1]

    def narrow(t, xs, attrs):
        return t.with_dim(xs[0], -1, 1)

    end_idle()
    b = workbench.GraphBuilder()
    graph = b.graph({"y": b.op("relu", b.op("neg", b.input("x", (2, 3))))})
    with registered(first):
        assert fired(optimised(graph, "same: relu(x) => first(x)"))
        with pytest.warns(OperatorReplaced):
            workbench.operator(first, type_rule=narrow)
        # The sides now have one type only if the tensor has one column, which this one has not.
        assert not fired(optimised(graph, "same: relu(x) => first(x)"))


def test_graphs_of_the_old_attributes_say_what_to_do():
    def attributed(x, *, a=1):
        return x

    def bare(x):
        return x

    with registered(attributed):
        b = workbench.GraphBuilder()
        graph = b.graph({"y": b.op("attributed", b.input("x", (2,)))})
        with pytest.warns(OperatorReplaced):
            workbench.operator(bare, name="attributed")
        with pytest.raises(TypeMismatch, match="try building the graph again"):
            evaluate(graph, {"x": np.ones(2, np.float32)})


# -- costs ----------------------------------------------------------------------------------------------
def test_flops_are_per_element_or_a_function():
    with registered(silu, flops=5):
        kind = TensorType("float32", (2, 3))
        assert spec_of("silu").flops({}, [kind], kind) == 30
    with registered(cube, flops=lambda inputs, out, shift: shift + out.elements):
        assert spec_of("cube").flops({"shift": 4}, [kind], kind) == 10


def test_the_source_of_a_measured_price_says_numpy(tmp_path):
    with registered(silu, onnx=silu_nodes), registered(cube, exact=3):
        b = workbench.GraphBuilder()
        graph = b.graph({"y": b.op("cube", b.op("silu", b.input("x", (2, 3))))})
        model = MeasuredCost(tmp_path)
        model.bind(graph)
        assert (model.price(instances_of(graph)) > 0).all()
        assert "2 instances measured (1 of them in numpy, for want of a kernel)" in model.source


@pytest.mark.slow
def test_attributes_can_be_declared():
    def summed(x, *, axis):
        return np.sum(x, axis=axis, keepdims=True)

    def reduced(t, xs, attrs):
        return t.with_dim(xs[0], attrs["axis"], 1)

    with registered(summed, attrs=[Attr("axis", "int", -1)], type_rule=reduced):
        law = "sums: summed[axis=a](add(x, y)) => add(summed[axis=a](x), summed[axis=a](y))"
        assert judged(law).verdict == "refuted"  # of a row and a column
        same = judged(law.replace("axis=a", "axis=-1") + " where dim(x, -1) = dim(y, -1)")
        assert same.verdict == "tested"


@pytest.mark.slow
def test_a_function_that_writes_into_its_operands_gets_copies():
    def one_more(x):
        x += 1
        return x

    with registered(one_more):
        assert judged("twice: one_more(one_more(x)) => add(x, 2)").verdict == "tested"
        given = np.zeros(3)
        assert spec_of("one_more").evaluate([given], {}).tolist() == [1.0, 1.0, 1.0]
        assert given.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("function", "exact", "message"),
    [
        (lambda x: np.exp(x), lambda n, x: n.exp(x) + 1, "the exact form of f must agree with the function"),
        (lambda x, y: x - y, lambda n, x, y: y - x, "the exact form of f must agree with the function"),
        (lambda x: np.cos(x), lambda n, x: n.sin(x), "the exact form of f must agree with the function"),
        (lambda x: x / 2, "ordered", "f must give whole numbers for whole numbers to be ordered, got"),
        (lambda x: None, "ordered", "f must give whole numbers for whole numbers to be ordered, got None"),
        (lambda x: np.exp(x), "rational", "f must take fractions to be rational, got"),
        (lambda x: x * 0.5, "rational", "f must give fractions for fractions to be rational, got"),
    ],
)
def test_an_exact_form_that_is_not_that_of_the_function_is_refused(function, exact, message):
    with pytest.raises(ValueError, match=message):
        workbench.operator(function, name="f", exact=exact)


@pytest.mark.parametrize(
    ("function", "exact"),
    [
        (lambda x: np.log(x), lambda n, x: n.log(x)),
        (lambda x: np.sqrt(x), lambda n, x: n.root(x)),
        (lambda x: np.sin(x), lambda n, x: n.sin(x)),
        (lambda x: 1 / (1 + np.exp(-x)), lambda n, x: 1 / (1 + n.exp(-x))),
        (lambda x, y: np.maximum(x, 2 * y), "ordered"),
        (lambda x, y: x / y + x, "rational"),
    ],
)
def test_an_exact_form_that_is_that_of_the_function_is_taken(function, exact):
    try:
        assert workbench.operator(function, name="g", exact=exact) is function
    finally:
        forget("g")
