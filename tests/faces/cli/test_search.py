"""``workbench search``."""

import json

import onnx
import pytest


@pytest.mark.slow
def test_search_writes_what_it_found(run, model, tmp_path):
    places = [tmp_path / name for name in ("out.onnx", "out.json", "out.html")]
    code, out, err = run("search", model, "-o", places[0], "--json", places[1], "--report", places[2])
    assert code == 0, err
    assert "graphs expanded" in out
    assert "certificate" in out
    figures = json.loads(places[1].read_text())
    assert figures["cost_after"] < figures["cost_before"]
    assert figures["certificate"]["passed"] is True
    assert onnx.load(places[0]).graph.output[0].name == "y"
    assert places[2].read_text().startswith("<!DOCTYPE html>")
    assert "searching" in err


def test_search_says_what_is_wrong(run, model, tmp_path):
    code, _, err = run("search", model, "--mode", "taso-release", "-q")
    assert (code, "graph_subst.pb" in err) == (2, True)
    code, _, err = run("search", model, "--alpha", "0.5")
    assert code == 2
    code, _, err = run("search", tmp_path / "missing.onnx")
    assert (code, "no such file" in err) == (2, True)
    code, _, err = run("search", model, "-o", tmp_path / "a", "--json", tmp_path / "a")
    assert (code, "must be written to different files" in err) == (2, True)
    assert not (tmp_path / "a").exists()


def test_search_keeps_the_original_where_the_certificate_fails(run, model, tmp_path):
    (tmp_path / "wrong.rules").write_text("wrong: add(x, y) => x\n")
    output = tmp_path / "out.onnx"
    code, _, err = run(
        "search", model, "--rules", tmp_path / "wrong.rules", "--keep-refuted", "-o", output, "-q"
    )
    assert code == 1
    assert "the certificate failed (wrong): the original stays; the original was written" in err
    assert [n.op_type for n in onnx.load(output).graph.node].count("Add") == 1


def test_the_model_itself_is_not_replaced(run, model):
    given = model.read_bytes()
    code, _, err = run("search", model, "-o", model, "-q")
    assert code == 2
    assert "must not replace" in err
    assert model.read_bytes() == given
