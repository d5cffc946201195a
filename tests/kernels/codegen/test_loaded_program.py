"""Tests of what `kernels.codegen.partitioned` has from `loaded_program`."""

import numpy as np
import pytest

import workbench
from tests.kernels.codegen.needs import compiler, free
from tests.kernels.codegen.test_partitioned import Expensive, block
from workbench.graph import evaluate
from workbench.kernels.codegen.partitioned import Mixed, plan_of

X = {"x": np.random.default_rng(0).standard_normal((1, 32, 64)).astype(np.float32)}


@compiler
def test_a_saved_program_is_loaded_with_its_kernels(tmp_path, monkeypatch):
    graph = block()
    Mixed(plan_of(graph, Expensive(), measure=free)).save(tmp_path / "block.onnx")
    monkeypatch.chdir(tmp_path)
    program = workbench.kernels.load_program("block.onnx")
    assert program.library == tmp_path / "block.so"
    assert "kernels from block.so" in repr(program)
    found, expected = program(X), evaluate(graph, X)
    for name in ("y", "h"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-3, atol=1e-4)


@compiler
def test_without_its_library_a_program_computes_the_same(tmp_path):
    graph = block()
    Mixed(plan_of(graph, Expensive(), measure=free)).save(tmp_path / "block.onnx")
    (tmp_path / "block.so").unlink()
    program = workbench.kernels.load_program(tmp_path / "block.onnx")
    assert program.library is None
    assert "no kernels" in repr(program)
    np.testing.assert_allclose(program(X)["y"], evaluate(graph, X)["y"], rtol=1e-3, atol=1e-4)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError):
        workbench.kernels.load_program(tmp_path / "none.onnx")


@compiler
def test_a_library_in_use_can_be_written_again(tmp_path):
    program = Mixed(plan_of(block(), Expensive(), measure=free))
    program.save(tmp_path / "block.onnx")
    loaded = workbench.kernels.load_program(tmp_path / "block.onnx")
    before = loaded(X)["y"]
    program.save(tmp_path / "block.onnx")
    np.testing.assert_array_equal(loaded(X)["y"], before)


@compiler
def test_a_link_is_not_replaced_and_nothing_else_is_left_behind(tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "block.so").symlink_to(tmp_path / "kept" / "kernels.so")
    Mixed(plan_of(block(), Expensive(), measure=free)).save(tmp_path / "block.onnx")
    assert (tmp_path / "block.so").is_symlink()
    assert (tmp_path / "kept" / "kernels.so").stat().st_size > 0
    assert sorted(f.name for f in tmp_path.iterdir()) == ["block.onnx", "block.so", "kept"]
    np.testing.assert_allclose(
        workbench.kernels.load_program(tmp_path / "block.onnx")(X)["y"],
        evaluate(block(), X)["y"],
        rtol=1e-3,
        atol=1e-4,
    )
