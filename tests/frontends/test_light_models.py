"""The nine real architectures inside the installed onnx are imported and exported with equal values."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.sampled import in_turn
from workbench.frontends import import_onnx, opaque_runner, run_model, to_onnx
from workbench.graph import evaluate
from workbench.studies.benchmarks.light import light_model, light_names, light_path

#: All operators except local response normalisation are modelled.
OPAQUE = {"bvlc_alexnet": {"LRN": 2}, "inception_v1": {"LRN": 2}, "zfnet512": {"LRN": 2}}
#: Random weights would take hundreds of MiB, in several copies.
LARGE = {"bvlc_alexnet", "vgg19", "zfnet512"}


def first(values):
    (array,) = values.values()
    return array


def ramp(graph):
    """Return the input for which the package stores the expected outputs."""
    ((name, kind),) = graph.input_types.items()
    return {name: (np.arange(kind.elements) / kind.elements).astype(np.float32).reshape(kind.shape)}


def test_there_are_nine():
    assert len(light_names()) == 9


@pytest.mark.parametrize("name", in_turn(light_names(), 3))
@pytest.mark.slow
def test_the_stored_expected_output_is_computed(name):
    path = light_path(name)
    imported = import_onnx(path)
    assert imported.coverage.opaque == OPAQUE.get(name, {})
    assert set(imported.coverage.constant) == {"ConstantOfShape"}
    stored = Path(path).with_name(f"light_{name}_output_0.pb").read_bytes()
    expected = numpy_helper.to_array(onnx.TensorProto.FromString(stored))
    feeds = ramp(imported.graph)
    written = to_onnx(imported.graph)  # checked by onnx with full inference
    assert [o.name for o in written.graph.output] == [o.name for o in onnx.load(path).graph.output]
    found = first(run_model(written, feeds))
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-7)
    np.testing.assert_allclose(found, first(run_model(onnx.load(path), feeds)), rtol=1e-4, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("name", in_turn([n for n in light_names() if n not in LARGE], 3))
def test_with_random_weights_the_values_are_those_of_the_original(name):
    original = light_model(name)
    imported = import_onnx(original)
    assert imported.coverage.opaque == OPAQUE.get(name, {})
    ((source, kind),) = imported.graph.input_types.items()
    feeds = {source: np.random.default_rng(1).standard_normal(kind.shape).astype(np.float32)}
    expected = first(run_model(original, feeds))
    assert expected.std() > 0  # otherwise the comparison would show nothing
    found = first(run_model(to_onnx(imported.graph), feeds))
    np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-5 * np.abs(expected).max())


def test_the_reference_semantics_agree_too():
    original = light_model("squeezenet")
    graph = import_onnx(original).graph
    feeds = ramp(graph)
    expected = first(run_model(original, feeds))
    found = first(evaluate(graph, feeds, opaque=opaque_runner()))
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-6)


def test_generated_weights_stay_small(tmp_path):
    """Read and write 548 MiB of repeated weights as a few kilobytes."""
    graph = import_onnx(light_path("vgg19")).graph
    assert sum(w.type.nbytes for w in graph.weights.values()) > 5e8
    assert to_onnx(graph).ByteSize() < 1e6
