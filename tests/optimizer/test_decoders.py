"""A decoder with caches and a tied head goes through with its weights mapped and stored once."""

import tracemalloc

import onnx
import pytest

import workbench
from tests.optimizer.decoders import Widths, write_decoder
from workbench.certification import graphs
from workbench.graph import dataflow

#: Two layers whose head takes most of the bytes.
SMALL = Widths(layers=2, model=256, heads=8, keys=2, head=32, inner=512, words=32000)


def test_a_decoder_s_weights_stay_mapped_and_its_head_is_stored_once(tmp_path, monkeypatch):
    monkeypatch.setattr(dataflow, "TIED", 1 << 20)
    monkeypatch.setattr(graphs, "MOST_WEIGHTS", 1 << 20)
    path = write_decoder(tmp_path / "decoder.onnx", SMALL)
    weights = path.with_suffix(".data").stat().st_size
    tracemalloc.start()
    try:
        result = workbench.optimize(path, cost="analytic", seconds=60)
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
