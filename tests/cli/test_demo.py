"""``workbench demo``: a real architecture the whole way."""

import pytest


@pytest.mark.slow
def test_the_demonstration_leaves_model_figures_and_report(run, tmp_path):
    code, out, err = run(
        "demo", "squeezenet", "--folder", tmp_path / "new", "--cost", "analytic", "--time", 0.05
    )
    assert code == 0, err
    names = sorted(p.name for p in (tmp_path / "new").iterdir())
    assert names == ["squeezenet-optimised.onnx", "squeezenet.html", "squeezenet.json", "squeezenet.onnx"]
    assert "which decided nothing" in out
    code, _, err = run("demo", "squeeze", "--folder", tmp_path)
    assert code == 2
    assert "did you mean squeezenet" in err


@pytest.mark.slow
def test_without_a_name_it_is_a_network_with_branches_as_it_is_trained(run, tmp_path, monkeypatch):
    from functools import partial

    from workbench.benchmarks import demonstration
    from workbench.benchmarks.branches.networks import repvgg_a0

    small = partial(repvgg_a0, size=32)
    monkeypatch.setitem(demonstration.WHOLE, "repvgg", small)
    code, out, err = run("demo", "--folder", tmp_path, "--cost", "analytic", "--time", 0.05)
    assert code == 0, err
    assert "batchnorm 61 → 0, conv2d 44 → 22" in out
    assert (tmp_path / "repvgg-optimised.onnx").exists()
