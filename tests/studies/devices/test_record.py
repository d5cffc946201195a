"""A device's measurements as a recorded cost table."""

from pathlib import Path

import pytest

import workbench
from tests.costs.networks import ADD, RELU
from tests.devices.graphs import products
from workbench.costs.keys import instance_key
from workbench.costs.lookup import RecordedCost
from workbench.costs.store import Measurement
from workbench.rules import rule_set
from workbench.studies.devices.instances import saturated_instances
from workbench.studies.devices.operators import Protocol, measure_instances
from workbench.studies.devices.spec_io import (
    ExchangeError,
    Results,
    merge,
    record_table,
    roofline_of,
    table_name,
    write_results,
)

GPU = {
    "device": "NVIDIA H200, torch 2.8.0, no TF32", "gpu": "NVIDIA H200", "tf32": False, "torch": "2.8.0",
    "driver": "570.1", "cuda": "12.8", "clock_sm_mhz": "1980", "name": "cuda", "l2_bytes": None,
}  # fmt: skip


def results(**measured):
    found = Results(dict(GPU), Protocol().record())
    for op, median in measured.items():
        found.measured[instance_key({"relu": RELU, "add": ADD}[op])] = Measurement(median, 0.12345678, 9)
    return found


def test_a_table_carries_its_provenance_and_prices_anywhere(tmp_path):
    write_results(tmp_path / "a.json", results(relu=2.5))
    write_results(tmp_path / "b.json", results(add=3.5))
    path, merged = record_table([tmp_path / "a.json", tmp_path / "b.json"], tmp_path)
    assert path == tmp_path / "nvidia-h200.parquet"
    assert len(merged.measured) == 2
    model = workbench.cost_model(path)
    assert isinstance(model, RecordedCost)
    assert model.price([RELU, ADD]).tolist() == [2.5, 3.5]
    assert model.device == "NVIDIA H200, torch 2.8.0, no TF32, weights caches"
    assert model.meta["roofline"] == "h200"
    assert model.meta["driver"] == "570.1"
    assert model.meta["clock_sm_mhz"] == "1980"
    assert model.meta["tf32"] == "False"
    assert model.meta["protocol_caches"] == "weights"
    assert "l2_bytes" not in model.meta


@pytest.mark.slow
def test_what_a_device_measured_optimises_elsewhere(tmp_path, cpu):
    protocol = Protocol(0.5)
    listing = saturated_instances({"p": products()}, rules=tuple(rule_set("default")))
    found = Results(cpu.provenance(), protocol.record())
    measure_instances(listing.instances, cpu, found, protocol=protocol)
    write_results(tmp_path / "r.json", found)
    path, _ = record_table([tmp_path / "r.json"], tmp_path / "cpu.parquet")
    result = workbench.optimize(products(), cost=path)
    assert "recorded table: torch" in result.cost_source
    assert "estimated" not in result.cost_source
    assert result.certificate.passed


def test_later_figures_replace_earlier_ones_and_failures():
    first, second = results(relu=2.0), results(relu=1.0, add=4.0)
    first.failures[instance_key(ADD)] = "RuntimeError: out of memory"
    merged = merge([first, second])
    assert merged.measured[instance_key(RELU)].median == 1.0
    assert not merged.failures


def test_results_of_two_devices_do_not_mix(tmp_path):
    other = results(relu=1.0)
    other.device |= {"device": "NVIDIA H200, torch 2.8.0, TF32", "tf32": True}
    with pytest.raises(ExchangeError, match="two devices or protocols"):
        merge([results(relu=1.0), other])
    assert table_name(other) == "nvidia-h200-tf32.parquet"
    with pytest.raises(ExchangeError, match="no results"):
        merge([])


def test_nothing_measured_is_not_a_table(tmp_path):
    write_results(tmp_path / "r.json", results())
    with pytest.raises(ExchangeError, match="nothing was measured"):
        record_table([tmp_path / "r.json"], tmp_path / "t.parquet")
    assert not (tmp_path / "t.parquet").exists()


def test_the_table_goes_where_recorded_tables_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_results("r.json", results(relu=1.0))
    assert str(record_table(["r.json"])[0]) == "results/costs/nvidia-h200.parquet"


@pytest.mark.parametrize(
    ("name", "roofline"),
    [("NVIDIA H200, torch", "h200"), ("Tesla V100-SXM2-16GB", "v100"), ("NVIDIA A100-SXM4-40GB", "a100"),
     ("NVIDIA H100 80GB HBM3, torch 2.14.1+cu130, no TF32", "h100"), ("NVIDIA L4, torch 2.13.0+cpu", "l4"),
     ("NVIDIA L40S", "l40s"),
     ("torch 2.13 CPU, AMD", "cpu"), ("NVIDIA GeForce RTX 4090", "a100")],
)  # fmt: skip
def test_the_roofline_is_that_of_the_device(name, roofline):
    assert roofline_of(name) == roofline


def test_the_tables_that_are_kept_here_are_readable():
    tables = sorted((Path(__file__).parents[3] / "results").glob("*/operators/*.parquet"))
    assert tables
    for path in tables:
        model = RecordedCost.load(path)
        assert path.stat().st_size < 200_000
        assert {"torch", "workbench", "date", "tf32", "roofline", "protocol_version"} <= set(model.meta)
