"""``workbench certify``: equal or not, where, and with which exit code."""

import json

import numpy as np
import onnx
import onnxruntime
import pytest

from tests.certification.models import network


@pytest.fixture
def files(tmp_path):
    paths = {}
    for name, change in (("a", {}), ("same", {}), ("wrong", {"epsilon": 1e-2})):
        paths[name] = tmp_path / f"{name}.onnx"
        onnx.save(network(**change), paths[name])
    return paths


def test_models_that_agree_are_0(run, files):
    code, out, _ = run("certify", files["a"], files["same"], "-q")
    assert code == 0
    assert out.startswith("equal on 8 draws")


@pytest.mark.slow
def test_models_that_differ_are_1_and_the_difference_is_written(run, files, tmp_path):
    target, small = tmp_path / "out.json", tmp_path / "small.onnx"
    code, out, err = run("certify", files["a"], files["wrong"], "--json", target, "--repro", small)
    assert code == 1
    assert "first tensor that differs: 'b'" in out
    assert "computed in A by BatchNormalization (norm) from 'c'" in out
    assert "it shows the difference" in out
    assert "comparing the models" in err
    record = json.loads(target.read_text())
    assert (record["equal"], record["difference"]["tensor"]) == (False, "b")
    assert record["difference"]["a"]["nodes"] == [{"operator": "BatchNormalization", "name": "norm"}]
    # The small model runs without inputs and shows both values at that entry.
    session = onnxruntime.InferenceSession(small, providers=["CPUExecutionProvider"])
    a, b = session.run(["a", "b"], {})
    index = tuple(record["difference"]["index"])
    assert a[index] == pytest.approx(record["difference"]["expected"], rel=1e-6)
    assert b[index] == pytest.approx(record["difference"]["found"], rel=1e-6)
    assert [n.op_type for n in onnx.load(small).graph.node].count("BatchNormalization") == 2
    assert not np.allclose(a, b)


@pytest.mark.slow
def test_pieces_of_other_operator_sets_are_two_files(run, files, tmp_path):
    other = network(epsilon=1e-2)
    other.opset_import[0].version = 16
    onnx.save(other, files["wrong"])
    code, out, _ = run("certify", files["a"], files["wrong"], "--repro", tmp_path / "small.onnx", "-q")
    assert code == 1
    assert sorted(p.name for p in tmp_path.glob("small*")) == ["small.a.onnx", "small.b.onnx"]
    assert "it shows the difference" in out


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"", "contain no graph"), (b"\xff\xff", "not an ONNX model"), (None, "no such file")],
)
def test_what_cannot_be_read_is_2_in_one_line(run, files, content, said):
    files["same"].unlink()
    if content is not None:
        files["same"].write_bytes(content)
    code, out, err = run("certify", files["a"], files["same"], "-q")
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


@pytest.mark.slow
def test_what_does_not_load_is_2(run, files):
    broken = network()
    broken.graph.node[0].input[0] = "nowhere"
    onnx.save(broken, files["same"])
    code, _, err = run("certify", files["a"], files["same"], "-q")
    assert code == 2
    assert "does not load" in err
    assert err.count("\n") == 1


def test_a_place_that_cannot_be_written_is_3(run, files, tmp_path):
    code, _, err = run("certify", files["a"], files["same"], "--repro", tmp_path / "no" / "x.onnx", "-q")
    assert code == 3
    assert "does not exist" in err


def test_a_misspelt_dimension_is_2(run, files):
    code, _, err = run("certify", files["a"], files["same"], "--dim", "batch=3", "-q")
    assert code == 2
    assert "there are: n" in err
