"""Files of composites: .composite and YAML."""

from pathlib import Path

import numpy as np
import pytest

from tests.kernels.composites.references import REFERENCES, drawn
from tests.sampled import in_turn
from workbench.kernels.composites import NotationError
from workbench.kernels.composites.evaluate import evaluate
from workbench.kernels.composites.expressions import FUNCTIONS, PRIMITIVES, Apply, IndexName, walk
from workbench.kernels.composites.files import (
    drawing,
    folder,
    from_text,
    from_yaml,
    library,
    load,
)
from workbench.kernels.composites.onnx_function import DOMAIN, function
from workbench.kernels.composites.simplify import simplified

TEXT = """
# Twice x.
twice: x{T}[~] -> y{T}[~]
    y = 2 * x

# Calls the one before.
four(shift=1): x{T}[~ N] -> y{T}[~ N]
    h[~ i] = twice(x[~ i])
    y[~ i] = twice(h[~ i]) + \\
             shift
"""


def test_composites_call_those_before_them():
    found = from_text(TEXT)
    assert list(found) == ["twice", "four"]
    assert found["twice"].doc == "Twice x."
    assert found["four"].defaults == {"shift": 1}


def test_yaml_reads_the_same():
    found = from_yaml(
        """
twice: {in: "x{T}[~]", out: "y{T}[~]", impl: "y = 2 * x", doc: Twice x.}
four:
  - in: ["x{T}[~ N]"]
  - out: ["y{T}[~ N]"]
  - impl:
      - h[~ i] = twice(x[~ i])
      - y[~ i] = twice(h[~ i]) + shift
  - attributes: {shift: 1}
"""
    )
    given = from_text(TEXT)
    assert [c.equations for c in found.values()] == [c.equations for c in given.values()]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("    y = x\n", "line 1: an equation must follow a head"),
        ("twice x -> y\n    y = x\n", "line 1: a head must be name: operands -> results"),
        ("a: x{T}[~] -> y{T}[~]\n    y = z\n", "line 1: a: no index, tensor or attribute is called 'z'"),
        ("a(b): x{T}[~] -> y{T}[~]\n    y = x\n", "an attribute must be name=number"),
        (
            "a: x{T}[~] -> y{T}[~], b=1\n    y = x\n",
            "b is not a tensor, and an attribute of a file follows",
        ),
        (TEXT + TEXT, "composite twice is declared twice"),
    ],
)
def test_errors_name_the_line(text, reason):
    with pytest.raises(NotationError) as caught:
        from_text(text)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("- a", "must be a map"),
        ("a: {in: x}", "must have the keys in, out and impl"),
        ("a: {out: 'y{T}[~]', impl: y = 1, inn: x}", "unknown key 'inn'"),
        ("a: {in: 'x{T}[~]', out: 'y{T}[~]', impl: y = z}", "a: no index"),
        ("a: [", "is not YAML"),
    ],
)
def test_errors_of_yaml(text, reason):
    with pytest.raises(NotationError, match=reason):
        from_yaml(text)


def test_files_by_their_ending(tmp_path):
    path = tmp_path / "mine.composite"
    path.write_text(TEXT)
    assert list(load(path)) == ["twice", "four"]
    with pytest.raises(NotationError, match="must end in"):
        load(tmp_path / "mine.txt")


NAMES = sorted(REFERENCES)


def test_27_primitives_are_listed_and_every_composite_is_made_of_them():
    assert len(PRIMITIVES) == 27
    assert all(PRIMITIVES.values())
    used = {
        part.function
        for c in library().values()
        for e in c.equations
        for part in walk(e.value)
        if isinstance(part, Apply)
    }
    assert used <= set(FUNCTIONS)


def test_every_composite_has_a_reference_and_says_what_it_computes():
    assert {*NAMES, "arange"} == set(library())
    assert len(library()) >= 15
    assert [c.name for c in library().values() if not c.doc] == []


@pytest.mark.parametrize("name", NAMES)
def test_fifty_shapes_in_numpy(name):
    composite, rng = library()[name], np.random.default_rng(20)
    for _ in range(50):
        operands = drawn(composite, rng)
        wanted = REFERENCES[name](*operands)
        found = evaluate(composite, operands)
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", in_turn(NAMES, 1, quick=3))
def test_fifty_shapes_in_onnx_runtime_by_one_function(name):
    import onnx
    import onnxruntime

    composite, rng = library()[name], np.random.default_rng(21)
    helper = onnx.helper
    for rank in range(3 if any(t.leading for t in composite.inputs) else 1):
        inputs = []
        for t in composite.inputs:
            dims = [f"{t.name}_{k}" for k in range(len(t.dims) + rank * t.leading)]
            inputs.append(helper.make_tensor_value_info(t.name, 7 if "int" in t.dtype else 1, dims))
        out = composite.output
        ranks = [f"out_{k}" for k in range(len(out.dims) + rank * out.leading)]
        node = helper.make_node(
            name, [t.name for t in composite.inputs], ["out"], domain=DOMAIN, **composite.defaults
        )
        model = helper.make_model(
            helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("out", 1, ranks)]),
            functions=[function(composite)],
            opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid(DOMAIN, 1)],
            ir_version=10,
        )
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        for _ in range(17 if rank or any(t.leading for t in composite.inputs) else 50):
            operands = drawn(composite, rng, rank)
            feeds = {
                t.name: x if "int" in t.dtype else x.astype(np.float32)
                for t, x in zip(composite.inputs, operands, strict=True)
            }
            wanted = evaluate(
                composite,
                [
                    feeds[t.name].astype(np.float64) if "int" not in t.dtype else feeds[t.name]
                    for t in composite.inputs
                ],
            )
            (found,) = session.run(None, feeds)
            assert found.shape == wanted.shape
            np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("name", NAMES)
def test_simplified_forms_compute_the_same(name):
    composite, rng = library()[name], np.random.default_rng(22)
    simple = simplified(composite).composite
    for _ in range(5):
        operands = drawn(composite, rng)
        np.testing.assert_allclose(
            evaluate(simple, operands), evaluate(composite, operands), rtol=1e-12, atol=1e-14
        )


@pytest.mark.torch
@pytest.mark.parametrize("name", NAMES)
def test_torch(name):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from workbench.kernels.composites.evaluate import in_torch

    composite, rng = library()[name], np.random.default_rng(23)
    for _ in range(5):
        operands = drawn(composite, rng)
        found = in_torch(composite, torch, [torch.tensor(x) for x in operands], {}).numpy()
        np.testing.assert_allclose(found, evaluate(composite, operands), rtol=1e-6, atol=1e-9)


def test_an_installed_package_has_the_library():
    project = (Path(__file__).parents[3] / "pyproject.toml").read_text()
    assert '"composites" = "workbench/_composites"' in project
    assert folder().is_dir()


def test_arange_has_no_operand():
    found = evaluate(library()["arange"], [], N=5, start=1.0, step=0.5)
    np.testing.assert_array_equal(found, np.arange(5, dtype=np.float32) * 0.5 + 1)
    assert found.dtype == np.float32


def test_views_read_at_computed_places():
    (read,) = walk(library()["im2col"].equations[0].value)
    assert not all(isinstance(i, IndexName) for i in read.indices)


def test_a_drawing_has_a_node_for_every_tensor_and_function():
    labels = drawing(library()["softmax"])
    for part in ("x{T}[~ D]", "m[~]", "max over e < D", "sum over e < D", "exp", "y[~ d]"):
        assert part in labels
    assert "->" in labels
    assert drawing(library()["gemm"]).startswith('digraph "gemm" {\n')
