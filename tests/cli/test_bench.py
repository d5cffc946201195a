"""``workbench bench``: published networks beside the published figures."""

import json

import pytest


@pytest.mark.slow
def test_a_benchmark_is_shown_with_the_published_figures(run):
    code, out, err = run("bench", "vgg19")
    assert code == 0, err
    assert "Tensat s" in out
    (row,) = [line for line in out.splitlines() if line.startswith("vgg19")]
    assert "0.4" in row.split()
    assert "1.09×" in row.split()
    (record,) = json.loads(run("bench", "vgg19", "--json", "-q")[1])
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
