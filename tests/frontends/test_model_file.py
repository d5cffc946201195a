"""A file's extension decides between TASO text and ONNX, for reading and for writing."""

from pathlib import Path

import onnx
import pytest

import workbench
from workbench.frontends import ModelError, import_model, load_model, save_model
from workbench.graph import GraphBuilder


@pytest.fixture
def graph():
    b = GraphBuilder("net")
    x = b.input("x", (2, 8))
    return b.graph(
        {"y": b.op("add", b.op("matmul", x, b.weight((8, 4))), b.op("matmul", x, b.weight((8, 4))))}
    )


@pytest.mark.parametrize("name", ["net.model", "net.onnx", "net"])
@pytest.mark.parametrize("form", [str, Path])
def test_a_graph_is_saved_and_loaded_by_the_extension(graph, tmp_path, name, form):
    path = form(tmp_path / name)
    save_model(graph, path)
    copy = load_model(path)
    assert copy.operators() == graph.operators()
    if name == "net.model":
        assert Path(path).read_text().startswith("100\n0\n10:0\n2,8\n")
        assert list(copy.input_types) == ["data"]
    else:
        assert next(iter(onnx.load(path).graph.input)).name == "x"
        assert list(copy.input_types) == ["x"]


def test_a_text_has_a_coverage_report_and_no_dimension_to_bind(graph, tmp_path):
    save_model(graph, tmp_path / "net.model")
    found = import_model(tmp_path / "net.model")
    assert found.coverage.modelled == {"matmul": 2, "add": 1}
    assert any("no data of weights" in note for note in found.coverage.notes)
    with pytest.raises(ModelError, match=r"net\.model has no symbolic dimensions \(try without batch\)"):
        load_model(tmp_path / "net.model", dims={"batch": 1})


def test_the_way_through_takes_and_writes_both(graph, tmp_path):
    save_model(graph, tmp_path / "in.model")
    result = workbench.optimize(tmp_path / "in.model", cost="analytic", time=False)
    assert result.certificate.passed
    assert result.coverage.modelled == {"matmul": 2, "add": 1}
    for name in ("out.model", "out.onnx"):
        result.save(tmp_path / name)
        assert load_model(tmp_path / name).operators()["matmul"] == 1
