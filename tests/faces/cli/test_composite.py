"""`workbench composite`: list, test, write and show."""

import json
import re

import pytest
from typer.testing import CliRunner

from tests.kernels.codegen.needs import compiler
from workbench.faces.cli import app


def call(*words, code=0):
    found = CliRunner().invoke(app, [str(w) for w in words])
    assert found.exit_code == code, found.output
    return found


@pytest.fixture
def mine(tmp_path):
    path = tmp_path / "mine.composite"
    path.write_text(
        "# A product.\ngemm2: A{T}[M K], B{T}[K N] -> C{T}[M N]\n    C[i j] = sum(k) A[i k] * B[k j]\n"
    )
    return path


def test_the_library_is_listed():
    output = call("composite", "library", "--list").output
    assert "attention" in output
    assert "im2col" in output


def test_a_test_of_a_product(mine):
    found = json.loads(call("composite", mine, "--test", "gemm2", "M=N=20", "K=30", "--json", "-").output)
    assert found["operands"] == {"A": [20, 30], "B": [30, 20]}
    errors = {w["way"]: w["error"] for w in found["ways"]}
    assert errors["numpy"] < 1e-6
    assert errors["ONNX Runtime"] < 1e-6


def test_a_table_for_people(mine):
    output = call("composite", mine, "--test", "gemm2", "M=N=K=5").output
    assert "relative error to float64" in output
    assert "GFLOP/s" in output


def test_leading_axes_and_attributes():
    found = json.loads(
        call("composite", "library", "--test", "rms", "D=5", "~=2x3", "eps=0.5", "--json", "-").output
    )
    assert found["operands"] == {"x": [2, 3, 5], "g": [5]}


@pytest.mark.slow
def test_debug_levels_and_a_drawing(mine, tmp_path):
    drawing = tmp_path / "gemm.dot"
    output = call("composite", mine, "--debug", "3", "--graph", drawing).output
    for part in (
        "-- lowered",
        "-- simplified",
        "-- laws",
        "gemm2-is: gemm2(a, b) => matmul(a, b)",
        "-- ONNX",
    ):
        assert part in output
    assert drawing.read_text().startswith("digraph")


def test_c_and_onnx_are_written(mine):
    assert "for (" in call("composite", mine, "--emit-c", "gemm2").output
    assert "MatMul (A, B)" in call("composite", mine, "--emit-onnx", "gemm2").output


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--test", "gem2"), "did you mean gemm2?"),
        (("--test", "gemm2", "M=3"), "needs the extents K, N"),
        (("--test", "gemm2", "Q=3"), "no extent or attribute is called 'Q'"),
        (("--test", "gemm2", "M=a"), "M must be a whole number, got 'a'"),
        (("--test", "gemm2", "M=2", "N=2", "K=2", "OMP=x"), "OMP must be a whole number, got 'x'"),
        (("--test", "gemm2", "M"), "must be NAME=NUMBER"),
    ],
)
def test_wrong_calls(mine, words, reason):
    assert reason in call("composite", mine, *words, code=2).output


def test_an_error_of_the_notation_is_one_line_with_its_column(tmp_path):
    file = tmp_path / "wrong.composite"
    file.write_text("a: x{T}[~] -> y{T}[~]\n    y = x ^^ 2\n")
    said = " ".join(call("composite", file, "--list", code=2).output.split())
    assert "line 1: a: a value must be a name, got '^' (column 8 of 'y = x ^^ 2')" in said
    assert "^ ^" not in said


def test_extents_that_do_not_fit_are_bad_input(tmp_path):
    file = tmp_path / "groups.composite"
    file.write_text("groups(G=2): x{T}[G*S] -> y{T}[G*S]\n    y[d] = x[d]\n")
    said = " ".join(call("composite", file, "--test", "groups", "G=0", "S=2", code=2).output.split())
    assert "G must not be 0" in said


def test_a_missing_file_is_named(tmp_path):
    said = " ".join(call("composite", tmp_path / "gone.composite", "--list", code=2).output.split())
    assert "no such file" in said
    assert "Errno" not in said


@compiler
def test_two_threads_are_compared_with_one_and_with_numpy():
    out = call("composite", "library", "--test", "gemm", "M=N=K=40", "OMP=2", "--json", "-").output
    rows = {row["way"]: row for row in json.loads(out)["ways"]}
    assert {"numpy", "C, 1 thread", "C"} <= set(rows)
    assert re.search(r"\d% of numpy's speed, [\d.]+× of one thread", rows["C"]["note"])
    assert "of one thread" not in rows["C, 1 thread"]["note"]
