"""``workbench show`` and ``diff``: pages that stand alone."""

import json

import onnx

from tests.faces.cli.models import two_matmuls

EGRAPH = {
    "nodes": {
        "a": {"op": "mul", "children": ["b"], "eclass": "one", "cost": 2.5},
        "b": {"op": "leaf", "children": [], "eclass": "two", "cost": 1.0},
    },
    "root_eclasses": ["one"],
}


def test_a_model_of_any_size_becomes_a_page(run, tmp_path):
    model, page = tmp_path / "model.onnx", tmp_path / "page.html"
    onnx.save(two_matmuls(batch="rows"), model)
    code, out, _ = run("show", model, "-o", page, "--size", "rows=3")
    assert (code, out.strip()) == (0, str(page))
    text = page.read_text()
    assert "matmul" in text
    assert "[3, 16]" in text
    assert "http://" not in text.replace("http://www.w3.org", "")
    assert "https://" not in text


def test_an_e_graph_of_another_program_becomes_a_page_with_its_costs(run, tmp_path):
    egraph, page = tmp_path / "egraph.json", tmp_path / "page.html"
    egraph.write_text(json.dumps(EGRAPH))
    assert run("show", egraph, "-o", page)[0] == 0
    text = page.read_text()
    assert "leaf" in text
    assert "least tree cost" in text
    assert "3.5" in text


def test_two_models_become_a_page_related_by_value(run, tmp_path):
    a, b, page = tmp_path / "a.onnx", tmp_path / "b.onnx", tmp_path / "page.html"
    onnx.save(two_matmuls(), a)
    onnx.save(two_matmuls(), b)
    code, out, _ = run("diff", a, b, "-o", page)
    assert code == 0
    assert "by value" in out
    assert "removed" not in out
    assert "a.onnx" in page.read_text()
    assert "b.onnx" in page.read_text()
    code, _, said = run("diff", a, tmp_path / "none.onnx", "-o", tmp_path / "other.html")
    assert code == 2
    assert "none.onnx" in said
    assert not (tmp_path / "other.html").exists()


def test_without_a_file_the_page_is_opened(run, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    model = tmp_path / "model.onnx"
    onnx.save(two_matmuls(), model)
    code, out, _ = run("show", model)
    assert code == 0
    assert opened == ["file://" + out.strip()]


def test_a_broken_file_leaves_no_page(run, tmp_path):
    for name, content in (("egraph.json", "{"), ("model.onnx", "no model")):
        (tmp_path / name).write_text(content)
        code, _, err = run("show", tmp_path / name, "-o", tmp_path / "page.html")
        assert code == 2
        assert err.count("\n") == 1
    assert not (tmp_path / "page.html").exists()
