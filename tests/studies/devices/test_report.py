import pytest

from workbench.ops import operators, spec_of
from workbench.studies.devices.report import DTYPES, Cell, example, markdown, report


def test_every_operator_with_operands_has_an_example():
    missing = [
        s.name
        for s in operators()
        if s.evaluate is not None and s.min_inputs and all(example(s, d) is None for d in DTYPES)
    ]
    assert missing == []


def test_cells_say_what_a_target_makes_of_an_operator():
    cells = list(report(["onnxruntime"], ops=["exp", "softmax", "gather"], dtypes=["float32", "int64"]))
    found = {(c.op, c.dtype): c.status for c in cells}
    assert found["exp", "float32"] == found["softmax", "float32"] == "supported"
    assert found["exp", "int64"] == "untyped"
    assert all(c.error is not None for c in cells if c.status == "supported")


def test_wrong_outputs_are_found(monkeypatch):
    from workbench.devices.targets import OnnxRuntime

    right = OnnxRuntime.run
    monkeypatch.setattr(
        OnnxRuntime, "run", lambda self, g, feeds: {k: v * 1.5 for k, v in right(self, g, feeds).items()}
    )
    (cell,) = report(["onnxruntime"], ops=["exp"], dtypes=["float32"])
    assert cell.status == "wrong"
    assert "differs by" in cell.reason


def test_a_target_that_fails_is_missing_with_the_reason(monkeypatch):
    from workbench.devices.targets import OnnxRuntime

    def refuse(self, graph, feeds):
        raise RuntimeError("no kernel here")

    monkeypatch.setattr(OnnxRuntime, "run", refuse)
    (cell,) = report(["onnxruntime"], ops=["exp"], dtypes=["float32"])
    assert (cell.status, cell.reason) == ("missing", "no kernel here")


def test_the_table_has_a_row_for_each_operator_and_target():
    cells = [
        Cell("exp", "float32", "c", "supported", 0.0, 3.2),
        Cell("exp", "int64", "c", "untyped"),
        Cell("pow", "float32", "c", "missing", reason="no form"),
    ]
    text = markdown(cells)
    assert "| exp | c | 3 | – |" in text
    assert "c: 1 supported, 0 wrong, 1 missing" in text
    assert "- pow, float32, c: missing: no form" in text


def test_an_example_is_of_the_element_type():
    graph = example(spec_of("add"), "float64")
    assert {str(t.dtype) for t in graph.input_types.values()} == {"float64"}
    with pytest.raises(LookupError):
        list(report(["nowhere"]))
