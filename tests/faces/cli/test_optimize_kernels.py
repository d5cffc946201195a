"""``workbench optimize --kernels``: a program with kernels in C and its library, or the result without."""

import json

import numpy as np
import onnx
import pytest

import workbench
from tests.faces.cli.models import two_matmuls
from tests.kernels.codegen.needs import compiler, expensive, free
from workbench.kernels.codegen.fusion import Bench
from zoo.chains import chain

COMPOSITE = """
# The root mean square norm.
norm_of_mine(eps=1e-5): x{T}[~ D], g{T}[D] -> y{T}[~ D]
    y[~ d] = x[~ d] / sqrt(mean(e) x[~ e]^2 + eps) * g[d]
"""


@pytest.fixture
def model(tmp_path):
    workbench.save_onnx(chain("residual-rms"), tmp_path / "rms.onnx")
    return tmp_path / "rms.onnx"


def optimized(run, model, *more):
    output, figures = model.with_name("out.onnx"), model.with_name("out.json")
    code, out, err = run(
        "optimize", model, "-o", output, "--kernels", "--cost", "analytic", "-q", "--json", figures, *more
    )
    assert code == 0, err
    graph = workbench.load_onnx(model)
    random = np.random.default_rng(0)
    feeds = {n: random.standard_normal(t.shape).astype(np.float32) for n, t in graph.input_types.items()}
    found, expected = workbench.kernels.load_program(output)(feeds), workbench.evaluate(graph, feeds)
    np.testing.assert_allclose(found["y"], expected["y"], rtol=1e-4, atol=1e-5)
    code, _, err = run("certify", model, output)
    assert code == 0, err
    return output, json.loads(figures.read_text())["kernels"], " ".join(out.split())


@pytest.mark.slow
@compiler
def test_a_program_and_its_library_are_written(run, model, monkeypatch):
    monkeypatch.setattr(Bench, "__call__", lambda self, cluster: free(cluster))
    output, figures, said = optimized(run, model, "--no-time")
    assert output.with_suffix(".so").is_file()
    assert figures["kernels"] == 1
    assert figures["certified"]
    assert "out.onnx and out.so" in said
    assert "kernel for" in said


@pytest.mark.slow
@compiler
def test_the_result_is_written_without_kernels_if_none_pays(run, model, monkeypatch):
    monkeypatch.setattr(Bench, "__call__", lambda self, cluster: expensive(cluster))
    output, figures, said = optimized(run, model, "--no-time")
    assert not output.with_suffix(".so").exists()
    assert figures["reason"] == "no cluster pays: the original stays"
    assert "no cluster pays" in said


@compiler
@pytest.mark.slow
def test_composites_and_candidates_timed_with_kernels_take_part(run, model, monkeypatch):
    mine = model.with_name("mine.composite")
    mine.write_text(COMPOSITE)
    monkeypatch.setattr(Bench, "__call__", lambda self, cluster: free(cluster))
    more = ("--composites", mine, "--measure", "2", "--measure-on", "c", "--measure-seconds", "0.5")
    output, figures, _ = optimized(run, model, *more)
    assert output.with_suffix(".so").is_file() == (figures["kernels"] > 0)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ((), "--kernels needs --output FILE.onnx, got none"),
        (("-o", "out.model"), "--kernels needs --output FILE.onnx, got out.model"),
        (("-o", "out.onnx", "--cost", "a100"), "--kernels needs the costs of this machine, got a100"),
    ],
)
def test_what_cannot_be_is_refused(run, model, more, said):
    code, _, err = run("optimize", model, "--kernels", *more)
    assert code == 2
    assert said in err


def test_without_a_compiler_nothing_is_done(run, model, monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    code, _, err = run("optimize", model, "--kernels", "-o", model.with_name("out.onnx"))
    assert code == 1
    assert "no-such-compiler" in err
    assert not model.with_name("out.onnx").exists()


@compiler
def test_with_symbolic_dimensions_the_result_has_no_kernels(run, tmp_path):
    path, output = tmp_path / "symbolic.onnx", tmp_path / "out.onnx"
    onnx.save(two_matmuls(batch="batch"), path)
    given = ("--kernels", "-o", output, "--cost", "analytic", "-q")
    code, out, _ = run("optimize", path, *given)
    assert code == 0
    assert "no kernels: their shapes must be fixed, got symbolic batch (try --dim batch=1)" in " ".join(
        out.split()
    )
    assert onnx.load(output).graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
