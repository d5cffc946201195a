"""Drawings of composites."""

from workbench.kernels.composites.files import library
from workbench.kernels.composites.picture import statements, text


def test_every_tensor_and_function_has_a_node():
    lines = statements(library()["softmax"])
    labels = " ".join(lines)
    for part in ("x{T}[~ D]", "m[~]", "max over e < D", "sum over e < D", "exp", "y[~ d]"):
        assert part in labels
    assert any("->" in line for line in lines)


def test_text_is_a_document():
    assert text(library()["gemm"]).startswith('digraph "gemm" {\n')
