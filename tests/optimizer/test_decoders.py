"""A decoder with caches and a tied head goes through with its weights mapped and stored once."""

import json
import subprocess
import sys
import tracemalloc

import onnx
import pytest

import workbench
from tests.optimizer.decoders import LLAMA_1B, QWEN_4B, Widths, write_decoder
from workbench.certification import graphs
from workbench.frontends import model as model_module
from workbench.graph import dataflow
from workbench.optimizer import candidates

#: Two layers whose head takes most of the bytes.
SMALL = Widths(layers=2, model=256, heads=8, keys=2, head=32, inner=512, words=32000)


@pytest.mark.slow
def test_a_decoder_s_weights_stay_mapped_and_its_head_is_stored_once(tmp_path, monkeypatch):
    monkeypatch.setattr(dataflow, "TIED", 1 << 20)
    monkeypatch.setattr(graphs, "MOST_WEIGHTS", 1 << 20)
    path = write_decoder(tmp_path / "decoder.onnx", SMALL)
    weights = path.with_suffix(".data").stat().st_size
    tracemalloc.start()
    try:
        result = workbench.optimize(path, cost="analytic", seconds=600)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert result.certificate is not None
    assert result.certificate.passed
    saved = tmp_path / "result.onnx"
    result.save(saved)
    kept = onnx.load(saved)
    stored = sum(t.raw_data.__sizeof__() for t in kept.graph.initializer)
    assert stored < 1.2 * weights, "the embedding is the head too, and stored once"
    assert peak < 3 * weights, f"{peak / weights:.2f}"
    assert result.dynamic.kept == ("past",)


@pytest.mark.parametrize("tied", [1, 1 << 60])
def test_a_matrix_that_is_read_both_ways_is_stored_once_if_it_is_large(monkeypatch, tied):
    monkeypatch.setattr(dataflow, "TIED", tied)
    b = workbench.GraphBuilder()
    table = b.weight((64, 16))
    x = b.input("x", (1, 3, 64))
    y = b.op("matmul", b.op("matmul", x, table), b.op("transpose", table, perm=(1, 0)))
    graph = b.graph({"y": y})
    assert len(dataflow.kept_transposed(graph)) == (tied == 1)


#: One narrow layer.
NARROW = Widths(layers=1, model=64, heads=4, keys=2, head=16, inner=128, words=1000)


@pytest.mark.slow
@pytest.mark.parametrize("cost", ["analytic", "cpu"])
def test_of_a_vast_model_what_is_rewritten_is_timed_alone(tmp_path, monkeypatch, cost):
    monkeypatch.setattr(candidates, "VAST", 1 << 16)
    path = write_decoder(tmp_path / "decoder.onnx", NARROW)
    result = workbench.optimize(path, cost=cost, time=True)
    assert result.certificate.passed
    assert not result.measured.failure
    if result.measured.candidates:
        assert "rewritten places alone" in result.measured.target
        assert result.measured.places >= 1
        assert len(result.measured.candidates) == 1
    if cost == "analytic":  # the times are for information
        assert "merge-matmuls" in result.rules
        assert result.certificate.regions
        assert [dict(c.sizes) for c in result.dynamic.checked] == [{"past": 1}], "at one other size"
        assert result.certificate.whole_ran
    elif result.graph is result.original:
        assert not result.certificate.whole_ran, "the file stays as it was given"
    result.save(tmp_path / "result.onnx")
    assert workbench.certify(path, tmp_path / "result.onnx", draws=1).passed


def test_a_matrix_that_is_transposed_once_is_not_a_value_that_sizes_are_chosen_for(tmp_path, monkeypatch):
    monkeypatch.setattr(model_module, "_ELEMENTS", 60_000)
    path = write_decoder(tmp_path / "decoder.onnx", NARROW)
    result = workbench.optimize(path, cost="analytic", certify=False)
    assert result.dynamic.sizes == {"past": 128}


CHILD = """
import json, sys, threading, time, workbench

peak = 0
def watch():
    global peak
    while True:
        lines = open("/proc/self/status").read().splitlines()
        peak = max(peak, *(int(l.split()[1]) for l in lines if l.startswith("RssAnon")))
        time.sleep(0.02)

threading.Thread(target=watch, daemon=True).start()
source, target, cost = sys.argv[1:]
result = workbench.optimize(source, cost=cost)
result.save(target)
found = workbench.certify(source, target, draws=1)
print(json.dumps({"peak": peak / 2**20, "passed": [result.certificate.passed, found.passed], "files": found.reason,
                  "kept": result.dynamic.kept, "rules": result.rules, "seconds": result.seconds}))
"""


@pytest.mark.nightly
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("widths", [LLAMA_1B, QWEN_4B], ids=["llama 1b", "qwen 4b"])
@pytest.mark.parametrize("cost", ["cpu", "analytic"])
def test_billions_of_weights_go_through_in_little_memory(tmp_path, widths, cost):
    path = write_decoder(tmp_path / "decoder.onnx", widths)
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(path), str(tmp_path / "result.onnx"), cost],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["passed"] == [True, True], found
    assert found["peak"] < 1.5, found
    assert found["kept"] == ["past"]
