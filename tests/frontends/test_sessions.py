"""Sessions that share weights give the same results as sessions with copies of them."""

import os
import subprocess
import sys

import numpy as np
import pytest

from tests.frontends.large import N, product, small_limits  # noqa: F401  (a fixture)
from workbench.frontends import RuntimeFailure, load_onnx, run_model, save_onnx
from workbench.frontends.onnx import file as onnx_file
from workbench.frontends.onnx import file as onnx_stream
from workbench.frontends.onnx.exporter import to_onnx_apart
from workbench.frontends.onnx.file import Apart
from workbench.frontends.runtime import run_session, session
from workbench.support.mmap import ChangedFile, file_of

FEEDS = {"x": np.random.default_rng(1).standard_normal((2, N)).astype(np.float32)}


@pytest.fixture(autouse=True)
def lower(monkeypatch):
    monkeypatch.setattr(onnx_stream, "APART_BYTES", 1 << 12)


def expected():
    return run_model(product(), FEEDS, threads=1)["y"]


@pytest.mark.parametrize("optimise", [True, False])
@pytest.mark.parametrize("prepack", [True, False])
def test_weights_in_memory_are_shared(optimise, prepack):
    apart = to_onnx_apart(load_onnx(product(), dims={"n": 2}))
    loaded = session(apart, threads=1, optimise=optimise, prepack=prepack)
    del apart  # the session keeps its weights alive
    np.testing.assert_allclose(run_session(loaded, FEEDS)["y"], expected(), rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize("limit", [1000, 1 << 30])
def test_a_saved_file_is_mapped(tmp_path, monkeypatch, limit):
    monkeypatch.setattr(onnx_file, "EXTERNAL_BEYOND", limit)
    path = tmp_path / "m.onnx"
    save_onnx(load_onnx(product(), dims={"n": 2}), path)
    loaded = session(path, threads=1, arena=False, spin=False)
    np.testing.assert_allclose(run_session(loaded, FEEDS)["y"], expected(), rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("small_limits")
def test_mapped_and_computed_weights_go_together(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(product().SerializeToString())
    apart = to_onnx_apart(load_onnx(path, dims={"n": 2}))
    arrays = {**apart.arrays, "w1": apart.arrays["w1"].copy()}
    assert file_of(arrays["w0"]) is not None
    loaded = session(Apart(apart.model, arrays), threads=1)
    np.testing.assert_allclose(run_session(loaded, FEEDS)["y"], expected(), rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("small_limits")
def test_a_file_that_was_replaced_is_still_read_and_one_written_over_is_refused(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(product().SerializeToString())
    graph = load_onnx(path, dims={"n": 2})
    other = tmp_path / "other"
    other.write_bytes(b"another file")
    other.replace(path)
    apart = to_onnx_apart(graph)
    loaded = session(apart, threads=1)
    np.testing.assert_allclose(run_session(loaded, FEEDS)["y"], expected(), rtol=1e-5, atol=1e-6)

    path.write_bytes(product().SerializeToString())
    graph = load_onnx(path, dims={"n": 2})
    path.write_bytes(b"short")
    with pytest.raises(ChangedFile, match="must stay unchanged while its weights are in use"):
        session(to_onnx_apart(graph))


def test_element_types_that_numpy_lacks_are_shared():
    import ml_dtypes
    from onnx import TensorProto, helper, numpy_helper

    weight = np.arange(N * N).reshape(N, N).astype(ml_dtypes.bfloat16)
    m = helper.make_model(
        helper.make_graph(
            [helper.make_node("Cast", ["w"], ["y"], to=TensorProto.FLOAT)],
            "cast",
            [],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [N, N])],
            [onnx_stream.placeholder("w", onnx_stream.TensorType.of(weight))],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    loaded = session(Apart(m, {"w": weight}), threads=1, optimise=False)
    np.testing.assert_array_equal(run_session(loaded, {})["y"], weight.astype(np.float32))
    assert numpy_helper.from_array(weight).data_type == TensorProto.BFLOAT16


def test_what_the_runtime_refuses_is_said(tmp_path):
    apart = to_onnx_apart(load_onnx(product(), dims={"n": 2}))
    with pytest.raises(RuntimeFailure, match="does not load 'chain'"):
        session(Apart(apart.model, {}))
    (tmp_path / "m.onnx").write_text("no model")
    with pytest.raises(RuntimeFailure, match=r"m\.onnx"):
        session(tmp_path / "m.onnx")


_CHILD = """
import sys
import numpy as np
from workbench.frontends.runtime import run_session, session
def held():
    return next(int(l.split()[1]) for l in open("/proc/self/status") if l.startswith("RssAnon")) / 1024
run_session(session(sys.argv[2], threads=1, prepack=False), {"x": np.ones((2, 96), np.float32)})
before = held()
loaded = session(sys.argv[1], threads=1, prepack=False)
run_session(loaded, {"x": np.ones((2, 3072), np.float32)})
print(held() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_session_of_a_large_file_takes_no_memory_for_its_weights(tmp_path, monkeypatch):
    from onnx import helper, numpy_helper

    wide = 3072
    weights = [np.full((wide, wide), 1 / wide, np.float32) for _ in range(3)]
    nodes = [helper.make_node("MatMul", [f"h{i}" if i else "x", f"w{i}"], [f"h{i + 1}"]) for i in range(3)]
    values = [helper.make_tensor_value_info(name, 1, [2, wide]) for name in ("x", "h3")]
    tensors = [numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(weights)]
    graph = helper.make_graph(nodes, "wide", values[:1], values[1:], tensors)
    m = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (tmp_path / "wide.onnx").write_bytes(m.SerializeToString())
    (tmp_path / "m.onnx").write_bytes(product().SerializeToString())
    command = [sys.executable, "-c", _CHILD, str(tmp_path / "wide.onnx"), str(tmp_path / "m.onnx")]
    told = subprocess.run(command, capture_output=True, text=True, env=os.environ, check=True)
    assert float(told.stdout) < 36, "the weights are 108 MiB"
