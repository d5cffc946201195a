"""Proofs are found for networks, and for what an import recognises, drops and folds."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import workbench
from workbench.graph import GraphBuilder
from workbench.laws.run_proofs import check, prove, proving
from workbench.laws.run_proofs.sizes import Sized
from workbench.laws.theorems.store import rules_of
from workbench.studies.benchmarks import benchmark

QUICK = ("squeezenet", "nasrnn")
OTHERS = ("vgg19", "bert", "resnext50", "nasneta", "inceptionv3", "resnet50", "mobilenetv2")


def proved(name):
    result = workbench.optimize(benchmark(name), seconds=60, certify=False)
    assert result.graph is not result.original
    found = check(result.original, result.graph, prove(result))
    assert found.laws
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_a_published_network_is_proved(name):
    assert not proved(name).tested


@pytest.mark.nightly
@pytest.mark.parametrize("name", OTHERS)
def test_every_published_network_is_proved(name):
    assert not proved(name).tested


def exported(path, *, batch=2):
    """Write a layer with a gelu in the five operators of exporters, and a product with one, which an import drops."""
    rng = np.random.default_rng(0)
    weights = {
        "w": rng.normal(size=(8, 16)), "v": rng.normal(size=(16, 16)), "u": rng.normal(size=(16, 8)),
        "root": np.array(2**0.5), "one": np.array(1.0), "half": np.array(0.5),
    }  # fmt: skip
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a0"]),
        helper.make_node("MatMul", ["a0", "v"], ["a"]),
        helper.make_node("Div", ["a", "root"], ["b"]),
        helper.make_node("Erf", ["b"], ["c"]),
        helper.make_node("Add", ["c", "one"], ["d"]),
        helper.make_node("Mul", ["a", "d"], ["e"]),
        helper.make_node("Mul", ["e", "half"], ["f"]),
        helper.make_node("Mul", ["f", "one"], ["g"]),
        helper.make_node("MatMul", ["g", "u"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(n, 1, [batch, 8]) for n in ("x", "y")]
    made = [numpy_helper.from_array(np.asarray(v, "f4"), n) for n, v in weights.items()]
    graph = helper.make_graph(nodes, "layer", ends[:1], ends[1:], made)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


def test_what_an_import_recognises_and_drops_are_steps(tmp_path):
    given, saved = tmp_path / "given.onnx", tmp_path / "saved.onnx"
    exported(given)
    result = workbench.optimize(given, cost="analytic", time=False, certify=False, seconds=20)
    assert "gelu" in result.original.operators()
    result.save(saved)
    found = check(given, result.graph, prove(result, given))
    assert {"gelu-by-erf", "times-one"} <= found.laws.keys()
    assert 0 < max(found.numbers) < 6e-8
    # Both files have the gelu in parts, so that their proof does not need the law.
    assert "gelu-by-erf" not in check(given, saved, prove(result, given, saved)).laws


@pytest.mark.slow
def test_a_search_that_does_not_end_is_ended_by_its_limit(monkeypatch):
    def endless(*arguments):
        while True:
            pass

    result = workbench.optimize(benchmark("nasrnn"), cost="analytic", time=False, certify=False)
    monkeypatch.setattr(proving, "prove_graphs", endless)
    with pytest.raises(proving.NotProved, match=r"reached its limit of 0\.01 s \(try seconds=0\.1\)"):
        prove(result, seconds=0.01)
    with pytest.raises(ValueError, match="time limit must be positive, got 0"):
        prove(result, seconds=0)


def test_a_norm_without_a_shift_is_recognised_in_its_parts():
    """A search near such a norm takes its definition, without which all rules were tried for minutes."""
    b = GraphBuilder("parts")
    scale = np.arange(1, 9, dtype="f4")
    x, s = b.input("x", (4, 8)), b.weight(data=scale)
    two, small = (b.weight(data=np.full((), n, "f4")) for n in (2.0, 0.125))
    centred = b.op("sub", x, b.op("reduce_mean", x, axes=(-1,)))
    variance = b.op("reduce_mean", b.op("pow", centred, two), axes=(-1,))
    root = b.op("sqrt", b.op("add", variance, small))
    parts = b.graph({"y": b.op("mul", b.op("div", centred, root), s)})
    b = GraphBuilder("norm")
    norm = b.graph({"y": b.op("layernorm", b.input("x", (4, 8)), b.weight(data=scale), axis=-1, eps=0.125)})
    prover = proving.Prover(Sized.of(parts))
    sides = [proving.Side(g, prover.enter_graph(g)) for g in (parts, norm)]
    near = [rule for stem in proving.NEAR for rule in rules_of(stem)]
    proving._link(prover, near, *sides, "the norm and its parts")
    assert prover.equal([(sides[0].terms[-1], sides[1].terms[-1])])
