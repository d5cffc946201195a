"""``workbench bench`` and ``demo``: published networks next to the published figures, real architectures."""

import json

import pytest


@pytest.mark.slow
def test_a_benchmark_is_shown_with_the_published_figures(run, tmp_path):
    code, out, err = run("bench", "vgg19", "--json", tmp_path / "figures.json")
    assert code == 0, err
    assert "Tensat s" in out
    (row,) = [line for line in out.splitlines() if line.startswith("vgg19")]
    assert "0.4" in row.split()
    assert "1.09×" in row.split()
    (record,) = json.loads((tmp_path / "figures.json").read_text())
    assert record["network"] == "vgg19"
    assert record["exact"] <= record["original"]


def test_a_benchmark_has_to_be_named(run):
    code, _, err = run("bench")
    assert code == 2
    assert "nasrnn" in err
    code, _, err = run("bench", "nasrn")
    assert code == 2
    assert "did you mean nasrnn?" in err
    code, _, err = run("bench", "nasrnn", "--all")
    assert code == 2
    assert "--all and nasrnn contradict each other" in err


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

    from zoo.branches import networks

    monkeypatch.setattr(networks, "repvgg_a0", partial(networks.repvgg_a0, size=32))
    code, out, err = run("demo", "--folder", tmp_path, "--cost", "analytic", "--time", 0.05)
    assert code == 0, err
    assert "batchnorm 61 → 0, conv2d 44 → 22" in out
    assert (tmp_path / "repvgg-optimised.onnx").exists()
