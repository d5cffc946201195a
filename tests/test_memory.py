"""Large models go through in at most twice the memory of their weights, and a constant."""

import json
import os
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.sampled import in_turn

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")

WIDTH, BLOCKS = 2048, 16
WEIGHTS = WIDTH * WIDTH * 4 * BLOCKS / 2**20

#: MiB of Python, its libraries and what the values of a small batch take.
CONSTANT = 220

CHILD = """
import json, sys
import workbench
from workbench.frontends import import_onnx, save_onnx

def status():
    lines = open("/proc/self/status").read().splitlines()
    return {k: int(v.split()[0]) / 1024 for k, _, v in (l.partition(":") for l in lines) if "kB" in v}

source, target, what = sys.argv[1:]
if what == "pass":
    graph = import_onnx(source).graph
    read = status()
    save_onnx(graph, target)
else:
    settings = {"optimise": {"cost": "analytic"}, "time": {"cost": "analytic", "time": True}}
    result = workbench.optimize(source, **settings.get(what, {}))
    read = status()
    assert result.certificate.passed, result.certificate
    assert what == "default" or "merge-matmuls" in result.rules, result.rules
    assert what == "optimise" or result.measured is not None
    result.save(target)
print(json.dumps({"read": read, "end": status()}))
"""


def write(path, *, external=False):
    """Write gated blocks: in every other one both products read the same, and the search merges them."""
    random = np.random.default_rng(0)
    nodes, tensors = [], []
    scale = np.float32(1 / WIDTH**0.5)
    for i in range(BLOCKS):
        data = random.standard_normal((WIDTH, WIDTH), dtype=np.float32) * scale
        tensors.append(onnx.numpy_helper.from_array(data, f"w{i}"))
    for i in range(0, BLOCKS, 2):
        x = f"h{i}" if i else "x"
        nodes.append(helper.make_node("MatMul", [x, f"w{i}"], [f"a{i}"]))
        nodes.append(helper.make_node("Softmax", [f"a{i}"], [f"s{i}"]))
        nodes.append(helper.make_node("MatMul", [x if i % 4 else f"s{i}", f"w{i + 1}"], [f"b{i}"]))
        nodes.append(helper.make_node("Softmax", [f"b{i}"], [f"t{i}"]))
        nodes.append(helper.make_node("Mul", [f"s{i}", f"t{i}"], [f"h{i + 2}" if i + 2 < BLOCKS else "y"]))
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [4, WIDTH]) for n in ("x", "y")]
    graph = helper.make_graph(nodes, "gated", values[:1], values[1:], tensors)
    m = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save_model(m, path, save_as_external_data=external, location="weights.bin", size_threshold=1024)


def told(source, target, what):
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(source), str(target), what],
        capture_output=True, text=True, env=os.environ, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("external", in_turn([False, True], 2), ids=["one file", "external data"])
@pytest.mark.slow
def test_weights_that_are_passed_on_are_not_in_memory(tmp_path, external):
    write(tmp_path / "m.onnx", external=external)
    found = told(tmp_path / "m.onnx", tmp_path / "out.onnx", "pass")
    assert found["read"]["VmHWM"] < CONSTANT, "importing reads no weights"
    assert found["end"]["RssAnon"] < CONSTANT, "writing copies no weights"
    assert found["end"]["VmHWM"] < WEIGHTS + CONSTANT
    written, given = (onnx.load(tmp_path / name) for name in ("out.onnx", "m.onnx"))
    expected = {t.name: t.raw_data for t in given.graph.initializer}
    assert {t.name: t.raw_data for t in written.graph.initializer} == expected


@pytest.mark.parametrize("what", in_turn(["optimise", "default"], 2))
@pytest.mark.slow
def test_a_large_model_is_optimised_in_twice_the_memory_of_its_weights(tmp_path, monkeypatch, what):
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "cache"))  # operators are measured anew
    write(tmp_path / "m.onnx")
    found = told(tmp_path / "m.onnx", tmp_path / "out.onnx", what)
    assert found["end"]["VmHWM"] < 2 * WEIGHTS + CONSTANT


@pytest.mark.slow
def test_timing_holds_two_sessions_of_the_original_one_of_the_result_and_merged_weights(tmp_path):
    write(tmp_path / "m.onnx")
    found = told(tmp_path / "m.onnx", tmp_path / "out.onnx", "time")
    merged = WEIGHTS / 2
    # The original has two sessions, the result one.
    assert found["end"]["VmHWM"] < 3 * WEIGHTS + merged + CONSTANT
