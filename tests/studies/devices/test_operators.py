import math

import pytest

from tests.costs.networks import ADD, MATMUL, RELU, instance
from tests.devices.graphs import image, products
from tests.sampled import in_turn
from workbench.costs import instances_of
from workbench.costs.keys import instance_key
from workbench.costs.model import OpInstance
from workbench.devices.device import Device
from workbench.ops import TensorType
from workbench.studies.devices import operators
from workbench.studies.devices.operators import CACHES, DeviceLost, Protocol, _measure, measure_instances
from workbench.studies.devices.spec_io import Results, read_results, write_results

QUICK = {c: Protocol(0.5, c) for c in CACHES}
X = TensorType("float32", (64, 64))


def empty(device, protocol=QUICK["weights"]):
    return Results(device.provenance(), protocol.record())


@pytest.mark.parametrize("caches", CACHES)
def test_instances_are_measured_with_spread_and_runs(device, caches):
    found = [*instances_of(products()), *instances_of(image())]
    results = empty(device, QUICK[caches])
    measure_instances(found, device, results, protocol=QUICK[caches])
    assert results.measured
    assert not results.failures
    assert results.left == 0
    for key, measured in results.measured.items():
        assert math.isfinite(measured.median)
        assert measured.runs >= (1 if results.methods[key] == "view" else 7)
        if results.methods[key] != "view" and caches != "cold":
            assert measured.median > 0
    assert set(results.methods.values()) <= ({"graph", "view", "events"} if device.cuda else {"clock"})


def test_what_is_known_is_not_measured_again(cpu):
    results = empty(cpu)
    measure_instances([RELU, ADD, RELU], cpu, results, protocol=QUICK["warm"])
    before = dict(results.measured)
    assert len(before) == 2
    measure_instances([RELU, ADD], cpu, results, protocol=QUICK["warm"])
    assert results.measured == before


def test_weights_are_taken_in_turn_and_other_operands_are_not(cpu, monkeypatch):
    weighted = OpInstance("matmul", ("none",), (X, X), X, (False, True))
    seen = []

    def recorder(device, op, attrs, inputs, out, **options):
        def run(a, b):
            seen.append((a.data_ptr(), b.data_ptr()))
            return a @ b

        return run

    monkeypatch.setattr(operators, "kernel", recorder)
    with cpu.settings():
        _measure(weighted, cpu, QUICK["weights"])
        left, right = ({s[i] for s in seen} for i in (0, 1))
        assert len(left) == 1
        assert len(right) > 10
        seen.clear()
        _measure(weighted, cpu, QUICK["warm"])
        assert len(set(seen)) == 1


def test_what_fails_is_reported_and_the_rest_continues(cpu, monkeypatch):
    opaque = OpInstance("opaque", ("key",), (X,), X, (False,))
    huge = instance("relu", [(1 << 20, 1 << 20)], (1 << 20, 1 << 20))
    results = empty(cpu)
    measure_instances([opaque, huge, RELU], cpu, results, protocol=QUICK["warm"])
    assert list(results.measured) == [instance_key(RELU)]
    assert "no torch form" in results.failures[instance_key(opaque)]
    assert "GiB" in results.failures[instance_key(huge)]
    monkeypatch.setattr(Device, "free_bytes", lambda self: 1e30)
    again = empty(cpu)
    measure_instances([huge, RELU], cpu, again, protocol=QUICK["warm"])
    assert list(again.failures) == [instance_key(huge)], "what the allocator refuses is not an end either"
    assert list(again.measured) == [instance_key(RELU)]


def test_a_device_that_is_lost_ends_it_and_keeps_the_results_so_far(cpu, monkeypatch):
    def measured(found, *rest):
        if found == ADD:
            raise RuntimeError("an illegal memory access was encountered")
        return operators.Measurement(1.0, 0.0, 7), "clock"

    def lost(self):
        raise RuntimeError("an illegal memory access was encountered")

    monkeypatch.setattr(operators, "_measure", measured)
    monkeypatch.setattr(Device, "wait", lost)
    results, kept = empty(cpu), []
    with pytest.raises(DeviceLost, match="no longer answers"):
        measure_instances([RELU, ADD, MATMUL], cpu, results, keep=lambda: kept.append(len(results.measured)))
    assert kept == [1]
    assert results.left == 2
    assert list(results.failures) == [instance_key(ADD)]


def test_ctrl_c_and_a_limit_keep_the_results_so_far(cpu, monkeypatch):
    results, kept = empty(cpu), []
    measure_instances([RELU, ADD], cpu, results, seconds=-1)
    assert (results.left, results.measured) == (2, {})

    def interrupt(done, of):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure_instances(
            [RELU, ADD], cpu, results, protocol=QUICK["warm"], progress=interrupt, keep=lambda: kept.append(1)
        )
    assert kept == [1]
    assert results.left == 1


@pytest.mark.parametrize(("milliseconds", "caches"), [(0, "warm"), (math.inf, "warm"), (1, "hot")])
def test_a_senseless_protocol_is_refused(milliseconds, caches):
    with pytest.raises(ValueError, match=r"milliseconds|caches"):
        Protocol(milliseconds, caches)


@pytest.mark.parametrize("caches", in_turn(CACHES, 2))
@pytest.mark.slow
def test_runs_are_recorded_and_views_are_free_where_launching_would_count(pretended, monkeypatch, caches):
    monkeypatch.setattr("workbench.torch.kernels._fused", lambda *a: [])
    view = instance("transpose", [(8, 16)], (16, 8), ((1, 0),))
    results = Results({}, QUICK[caches].record())
    measure_instances([MATMUL, RELU, view], pretended, results, protocol=QUICK[caches])
    assert not results.failures
    assert [results.methods[instance_key(i)] for i in (MATMUL, RELU, view)] == ["graph", "graph", "view"]
    assert results.measured[instance_key(view)] == operators.Measurement(0.0, 0.0, 1)
    # With emptied caches the flushes are also recorded alone, and their time is subtracted.
    assert pretended.recorded == (4 if caches == "cold" else 2)


def test_what_cannot_be_recorded_is_timed_run_by_run(pretended, monkeypatch):
    def refuse(self, body, warmup=3):
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(type(pretended), "capture", refuse)
    results = Results({}, {})
    measure_instances([RELU], pretended, results, protocol=QUICK["warm"])
    assert results.methods[instance_key(RELU)] == "events"
    assert results.measured[instance_key(RELU)].median > 0


@pytest.mark.parametrize(
    "error", ["CUDA out of memory. Tried to allocate 2.00 GiB", "CUDA error: out of memory"]
)
def test_a_recording_without_memory_is_a_failure_and_not_timed_otherwise(pretended, monkeypatch, error):
    def refuse(self, body, warmup=3):
        raise (pretended.torch.OutOfMemoryError if "GiB" in error else RuntimeError)(error)

    monkeypatch.setattr(type(pretended), "capture", refuse)
    results = Results({}, {})
    measure_instances([RELU], pretended, results, protocol=QUICK["warm"])
    assert results.failures[instance_key(RELU)].endswith(error)
    assert not results.methods


def test_the_clocks_of_a_gpu_are_raised_and_kept_with_the_results(pretended, monkeypatch, tmp_path):
    done, kept = [], []
    monkeypatch.setattr(type(pretended), "soak", lambda self, seconds: done.append(seconds))
    monkeypatch.setattr(type(pretended), "release", lambda self: done.append("released"))
    monkeypatch.setattr(operators, "_KEEP", 0.0)
    results = Results({}, {})
    measure = lambda: measure_instances(  # noqa: E731
        [RELU, ADD], pretended, results, protocol=QUICK["warm"], keep=lambda: kept.append(len(results.clocks))
    )
    measure()
    assert done == [3.0, "released", "released"]
    assert kept == [2, 3, 3]
    assert [c["clock_sm_mhz"] for c in results.clocks] == ["1980"] * 3
    assert 0 <= results.clocks[0]["at"] <= results.clocks[-1]["at"] < 60
    measure()
    assert len(done) == 3, "nothing is missing, so nothing is to be warmed up"
    write_results(tmp_path / "r.json", results)
    assert read_results(tmp_path / "r.json").clocks == results.clocks


def test_a_cpu_has_no_clocks_to_record(cpu):
    results = empty(cpu)
    measure_instances([RELU], cpu, results, protocol=QUICK["warm"])
    assert results.clocks == []


@pytest.mark.gpu
def test_views_take_no_time_on_a_gpu(gpu):
    with gpu.settings():
        view = instance("transpose", [(8, 16)], (16, 8), ((1, 0),))
        assert _measure(view, gpu, QUICK["warm"])[1] == "view"
        assert _measure(MATMUL, gpu, QUICK["warm"])[1] == "graph"
