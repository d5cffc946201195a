"""``workbench demo``: a real architecture the whole way."""


def test_the_demonstration_leaves_model_figures_and_report(run, tmp_path):
    code, out, err = run(
        "demo", "squeezenet", "--folder", tmp_path / "new", "--cost", "analytic", "--time", 0.05
    )
    assert code == 0, err
    names = sorted(p.name for p in (tmp_path / "new").iterdir())
    assert names == ["squeezenet-optimised.onnx", "squeezenet.html", "squeezenet.json", "squeezenet.onnx"]
    assert "medians of" in out
    assert run("demo", "squeeze", "--folder", tmp_path)[0] == 2
