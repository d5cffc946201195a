"""Models with symbolic dimensions, the whole way: kept, priced, checked, saved."""

import json
from dataclasses import replace

import numpy as np
import onnx
import pytest

import workbench
from tests.frontends.models import model, node, normal, value, weight
from tests.frontends.onnx.test_symbolic_shapes import CASES, written
from tests.frontends.symbolic_models import (
    class_token,
    heads,
    inputs_at,
    linear,
    positions,
    shape_of,
    skip,
)
from workbench.costs.analytic import AnalyticCost
from workbench.costs.pricing import node_costs
from workbench.frontends import ModelError, run_model
from workbench.frontends.model_file import open_model
from workbench.frontends.onnx import symbolic_values
from workbench.graph import GraphBuilder, evaluate
from workbench.optimizer.dynamic import FILES, Checked, Files, checks_at_sizes, fate_of
from workbench.symbolic import Undecodable

FAST = {"cost": "analytic", "seconds": 300.0, "iterations": 8}
TEXT = [{"batch": 1, "sequence": 7}, {"batch": 3, "sequence": 16}, {"batch": 8, "sequence": 33}]


def same(original, written, sizes):
    feeds = inputs_at(original, sizes)
    expected, found = run_model(original, feeds), run_model(written, feeds)
    for name, array in expected.items():
        assert found[name].shape == array.shape
        scale = max(1.0, float(np.abs(array).max(initial=0.0)))
        np.testing.assert_allclose(found[name], array, rtol=1e-3, atol=1e-4 * scale)


def parallel():
    """Two products of one input that are one product, in a model with a batch and a sequence."""
    return model(
        [
            node("MatMul", "x a", "p"),
            node("MatMul", "x b", "q"),
            node("Relu", "p", "y"),
            node("Sigmoid", "q", "z"),
        ],
        [value("x", ["batch", "sequence", 64])],
        [value("y", ["batch", "sequence", 64]), value("z", ["batch", "sequence", 64])],
        [normal("a", 64, 64), normal("b", 64, 64)],
    )


@pytest.mark.parametrize("make", [linear, heads, positions, class_token, parallel])
def test_results_keep_their_symbols_and_run_at_any_size(make, tmp_path):
    original, path = make(), tmp_path / "out.onnx"
    result = workbench.optimize(original, **FAST)
    assert result.certificate.passed
    assert set(result.dynamic.kept) == {"batch", "sequence"}
    assert len(result.dynamic.checked) >= 3
    assert not any(c.why for c in result.dynamic.checked)
    result.save(path)
    written = onnx.load(path)
    assert shape_of(written, "x") == shape_of(original, "x")
    for sizes in TEXT:
        same(original, written, sizes)


def test_sizes_that_the_original_does_not_take_are_no_failure_of_the_result():
    # At a size of 1 the window exceeds its input.
    channels = [weight(n, [1.0, 2.0]) for n in ("s", "b", "m", "v")]
    original = model(
        [node("Conv", "x w", "c"), node("BatchNormalization", "c s b m v", "y")],
        [value("x", [1, 3, "N", 5])],
        [value("y", [1, 2, "rows", 3])],
        [normal("w", 2, 3, 3, 3), *channels],
    )
    result = workbench.optimize(original, sizes={"N": 4}, **FAST)
    assert result.certificate.passed
    assert "batchnorm" not in result.graph.operators()
    notes = {c.sizes["N"]: c.note for c in result.dynamic.checked}
    assert {n for n, note in notes.items() if "left out" in note} == {n for n in notes if n < 3}
    assert min(notes) == 1
    assert {note for n, note in notes.items() if n >= 3} <= {"files", "graphs and files"}


@pytest.mark.slow
def test_a_rewrite_is_found_and_priced_at_the_sizes_asked_for():
    small = workbench.optimize(parallel(), sizes={"sequence": 16}, **FAST)
    large = workbench.optimize(parallel(), sizes={"sequence": 1024, "batch": 16}, **FAST)
    assert "matmul-takes-relu" in small.rules
    assert small.dynamic.sizes == {"batch": 1, "sequence": 16}
    assert large.cost_before > 5 * small.cost_before
    assert "at batch=16, sequence=1024" in large.cost_source
    assert large.original.input_types["x"].shape == (16, 1024, 64)
    assert large.cost_before == pytest.approx(node_costs(large.original, AnalyticCost()).sum())
    assert large.cost_after == pytest.approx(node_costs(large.graph, AnalyticCost()).sum())


def test_costs_are_those_of_the_same_model_with_its_dimensions_bound():
    kept = workbench.optimize(parallel(), sizes={"sequence": 32}, **FAST)
    bound = workbench.optimize(parallel(), dims={"batch": 1, "sequence": 32}, **FAST)
    assert bound.dynamic is None
    assert kept.cost_before == pytest.approx(bound.cost_before)
    assert kept.cost_after == pytest.approx(bound.cost_after)


def test_graphs_of_the_result_can_be_evaluated_and_compared():
    result = workbench.optimize(parallel(), sizes={"sequence": 5}, **FAST)
    inputs = {"x": np.ones((1, 5, 64), np.float32)}
    expected, found = evaluate(result.original, inputs), evaluate(result.graph, inputs)
    np.testing.assert_allclose(found["y"], expected["y"], rtol=1e-4, atol=1e-4)
    assert "matmul-takes-relu" in result.compare().rules()


def test_height_and_width_are_kept_at_multiples():
    result = workbench.optimize(skip(), **FAST)
    assert set(result.dynamic.kept) == {"batch", "height", "width"}
    assert "height is a multiple of 2" in result.dynamic.notes
    for sizes in ({"batch": 2, "height": 6, "width": 10}, {"batch": 1, "height": 64, "width": 32}):
        same(skip(), result.dynamic.model(), sizes)


def test_the_result_says_what_became_of_every_dimension():
    result = workbench.optimize(positions(), **FAST)
    text, data = repr(result), result.summary()["dynamic"]
    assert "kept batch, sequence; priced at batch=1, sequence=64" in text
    assert "checked at batch=1, sequence=64 (graphs and files); batch=1, sequence=7" in text
    assert "sequence is at most 64" in text
    assert data["kept"] == ["batch", "sequence"]
    assert data["sizes"] == {"batch": 1, "sequence": 64}
    assert [c["why"] for c in data["checked"]] == [""] * len(data["checked"])
    json.dumps(data)


def test_what_is_fixed_on_purpose_is_not_kept():
    result = workbench.optimize(linear(), dims={"batch": 8}, **FAST)
    assert result.dynamic.kept == ("sequence",)
    assert shape_of(result.dynamic.model(), "x") == [8, "sequence", 4]


def test_what_cannot_be_kept_is_fixed_with_the_reason():
    m = model(
        [node("MatMul", "x w", "y")],
        [value("x", ["batch", "sequence"])],
        [value("y", None)],
        [normal("w", 8, 4)],
    )
    result = workbench.optimize(m, sizes={"sequence": 8}, **FAST)
    assert result.dynamic.kept == ("batch",)
    assert "fixed sequence = 8: node MatMul" in repr(result)
    assert shape_of(result.dynamic.model(), "x") == ["batch", 8]


def test_an_original_of_which_nothing_could_be_kept_is_saved_as_it_was_given(tmp_path):
    m = model([node("MatMul", "x w", "y")], [value("x", [1, "k"])], [value("y", None)], [normal("w", 8, 4)])
    result = workbench.optimize(m, sizes={"k": 8}, **FAST)
    assert result.graph is result.original
    assert result.dynamic is None
    result.save(tmp_path / "out.onnx")
    assert shape_of(onnx.load(tmp_path / "out.onnx"), "x") == [1, "k"]


def test_misspelt_names_are_errors_with_the_nearest():
    with pytest.raises(ModelError, match=r"dims must name .*, got 'bacth'; did you mean 'batch'") as refusal:
        workbench.optimize(linear(), dims={"bacth": 8})
    assert refusal.value.on_command_line.startswith("--dim must name ")
    with pytest.raises(
        ModelError, match=r"sizes must name .*, got 'sequenc'; did you mean 'sequence'"
    ) as refusal:
        workbench.optimize(linear(), sizes={"sequenc": 8})
    assert refusal.value.on_command_line.startswith("--size must name ")
    with pytest.raises(ValueError, match=r"sizes\['batch'\] must be a positive integer, got 0"):
        workbench.optimize(linear(), sizes={"batch": 0})
    with pytest.raises(ModelError, match=r"sizes must name .*, got 'batch'"):
        workbench.optimize(linear(), dims={"batch": 2, "sequence": 3}, sizes={"batch": 2})


def test_a_wrong_result_is_found_at_another_size():
    """A term that is right at the sizes of the prices alone must not pass."""
    source = open_model(linear(), None, {"batch": 1, "sequence": 128})
    searched = source.searched
    builder = GraphBuilder(searched.name)
    builder.weights = dict(searched.weights)
    x = builder.input("x", searched.input_types["x"].shape)
    whole = builder.op("matmul", x, builder.apply("weight", (), ("w",)))
    whole = builder.op("relu", builder.op("add", whole, builder.apply("weight", (), ("b",))))
    part = builder.op("slice", whole, axis=-2, start=0, stop=128)
    rest = builder.op("slice", whole, axis=-2, start=128, stop=searched.input_types["x"].shape[1])
    wrong = builder.graph({"y": builder.op("concat", part, rest, axis=-2)})
    checks = checks_at_sizes(source, wrong, None, 0, None)
    assert checks[-1].why
    assert "FAILED" in str(checks[-1])


@pytest.mark.slow
def test_a_failed_check_fails_the_certificate(monkeypatch):
    from workbench.optimizer import candidates

    wrong = Checked({"batch": 3}, "", "output 'y' differs")
    monkeypatch.setattr(candidates, "checks_at_sizes", lambda *a, **more: (wrong,))
    result = workbench.optimize(parallel(), **FAST)
    assert not result.certificate.passed
    assert "at batch=3: output 'y' differs" in result.certificate.reason
    assert result.graph is result.original
    assert result.dynamic.graph is not None


@pytest.mark.slow
def test_a_rule_that_holds_at_some_sizes_only_is_left_out(monkeypatch):
    from workbench.optimizer import candidates

    right = candidates.checks_at_sizes

    def checks(model, term, known, seed, given, **more):
        if any(n.op == "matmul" and n.attr("act") == "sigmoid" for n in term):
            return (Checked({"batch": 3}, "", "output 'z' differs"),)
        return right(model, term, known, seed, given, **more)

    monkeypatch.setattr(candidates, "checks_at_sizes", checks)
    result = workbench.optimize(parallel(), **FAST)
    assert result.certificate.passed
    assert "matmul-takes-sigmoid" not in result.rules
    assert "matmul-takes-relu" in result.rules
    assert any("left out matmul-takes-sigmoid" in note for note in result.dynamic.notes)


def test_graphs_and_fixed_models_are_opened_as_they_are():
    b = GraphBuilder("g")
    graph = b.graph({"y": b.op("relu", b.input("x", (2, 2)))})
    found = open_model(graph, None)
    assert found.searched is found.graph is found.at_prices(graph) is graph
    assert found.kept == ()
    assert fate_of(found, graph) is None
    assert open_model(linear((2, 3, 4)), None).kept == ()


def test_checks_cover_three_sizes_of_every_symbol():
    opening = open_model(parallel(), None)
    for name in ("batch", "sequence"):
        assert len({sizes[name] for sizes in opening.bindings()}) >= 3
    bounded = open_model(positions(), None, {"sequence": 1000})
    assert all(sizes["sequence"] <= 64 for sizes in bounded.bindings())
    assert replace(bounded, sizes={"batch": 1, "sequence": 7}).bindings()[0]["sequence"] == 7


SIZES = {"batch": 3, "sequence": 7}


def opened(given):
    source = open_model(linear(), None)
    files = Files(given, source.searched, source.table)
    return files, files.compare(source.bindings()[0], source.graph, 0)


def test_files_that_agree_are_compared_as_files():
    files, found = opened(linear())
    assert files.there
    assert (found.note, found.why, found.files) == (FILES, "", True)


def test_without_a_given_file_only_graphs_are_compared():
    files, found = opened(None)
    assert not files.there
    assert (found.note, found.why, found.files) == ("graphs compared", "", False)


def test_an_outcome_names_its_sizes_and_the_difference():
    assert str(Checked(SIZES, FILES)) == "batch=3, sequence=7 (files)"
    assert str(Checked(SIZES, "", "output 'y' differs")) == "batch=3, sequence=7 (FAILED: output 'y' differs)"


@pytest.mark.slow
def test_conditions_clips_and_paddings_of_sizes_pass_and_are_right():
    for name in ("heads of such a slice", "halves of a batch", "padding that depends on the size"):
        body, (inputs, outputs, sizes), weights = CASES[name]
        original = written(body, inputs, outputs, **weights)
        result = workbench.optimize(original, **FAST)
        assert result.certificate.passed, name
        assert not result.dynamic.fixed, name
        for binding in sizes:
            same(original, result.dynamic.model(), binding)


def test_checks_stand_beside_what_the_model_compares_with_a_size():
    body, (inputs, outputs, _), weights = CASES["heads of such a slice"]
    result = workbench.optimize(written(body, inputs, outputs, **weights), **FAST)
    assert {1, 100, 101, 102} <= {c.sizes["seq"] for c in result.dynamic.checked}


def test_a_model_whose_import_fails_stays_as_it_is_with_the_reason(monkeypatch):
    def refused(self, node):
        raise Undecodable("a size has no form")

    monkeypatch.setattr(symbolic_values.SizedValues, "visit", refused)
    original = parallel()
    result = workbench.optimize(original, **FAST)
    assert result.certificate.passed
    assert result.graph is result.original
    assert any("left as it is: a size has no form" in line for line in result.dynamic.lines())
    for sizes in TEXT:
        same(original, result.dynamic.model(), sizes)
