import pytest

from workbench.graph.typed import result_type
from workbench.ops import TensorType, TypeMismatch, spec_of
from workbench.ops.spec import OpSpec

X = TensorType("float32", (2, 3))


def test_the_type_is_that_of_the_operator():
    w = TensorType("float32", (3, 5))
    attrs = spec_of("matmul").pack({"act": "none"})
    for _ in range(2):
        assert result_type("matmul", [X, w], attrs) == TensorType("float32", (2, 5))


def test_an_error_is_raised_each_time():
    for _ in range(2):
        with pytest.raises(TypeMismatch, match="inner extents differ"):
            result_type("matmul", [X, X], ("none",))


def test_an_attribute_without_a_hash_is_inferred_anew():
    with pytest.raises(TypeMismatch, match="attributes none, got 1"):
        result_type("relu", [X], [["a list"]])


def test_a_replaced_operator_is_inferred_anew(monkeypatch):
    from workbench.ops import registry

    assert result_type("relu", [X], ()) == X
    other = OpSpec("relu", 1, 1, lambda t, xs, attrs: TensorType("float32", (7,)), None)
    monkeypatch.setitem(registry._TABLE, "relu", other)
    monkeypatch.setattr(registry, "_replaced", registry.replacements() + 1)
    assert result_type("relu", [X], ()) == TensorType("float32", (7,))
