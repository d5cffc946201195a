"""The machine's limits are those of its largest products, and are measured once."""

import json

import numpy as np
import pytest

from workbench.studies.devices import peak as measuring
from workbench.studies.devices.peak import Peak, peak
from workbench.support.machine import blas_threads, microseconds


@pytest.fixture(scope="module")
def found():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.getloadavg", lambda: (0.5, 0.5, 0.5))
        return peak()


@pytest.mark.nightly
def test_the_peak_is_the_rate_of_a_large_product(found):
    # Nightly, since it compares clocks: a neighbour that takes half the core in one of the two moments fails it.
    a = np.ones((768, 768), "f4")
    with blas_threads(1) as possible:
        if not possible:
            pytest.skip("numpy's products cannot be set to one thread here")
        least = min(microseconds(lambda: a @ a, 1) for _ in range(100))
    # Two libraries on one core.
    assert 0.5 < found.flops / (2e6 * 768**3 / least) < 2


def test_the_rate_is_two_operations_a_multiplication(monkeypatch):
    monkeypatch.setattr(measuring, "_least", lambda run: run() and 1000.0)
    assert measuring._multiplied(8, 1) == 2 * 8**3 / 1e-3


def test_bandwidths_are_those_of_a_machine(found):
    assert 1e8 < min(found.cache_bandwidth, found.bandwidth) < 1e13


def test_the_second_call_measures_nothing(found, monkeypatch):
    monkeypatch.setattr(measuring, "_multiplied", lambda *given: pytest.fail("measured again"))
    assert peak() == found


def test_figures_of_a_busy_machine_are_told_and_not_kept_for_long(monkeypatch):
    monkeypatch.setattr(measuring, "machine", lambda: "a busy machine")
    monkeypatch.setattr(measuring, "SECONDS", 0.01)
    now = 0.0
    monkeypatch.setattr(measuring.time, "time", lambda: now)
    for load, anew, hours, told in (
        (7.0, False, 0, 7.0),
        (6.0, False, 0, 7.0),
        (5.0, True, 0, 5.0),
        (4.0, False, 1, 4.0),
        (0.5, True, 1, 0.5),
        (9.0, False, 1, 0.5),
    ):
        monkeypatch.setattr("os.getloadavg", lambda load=load: (load, load, load))
        now = 3600.0 * hours
        found = peak(anew=anew)
        assert (found.load, found.quiet) == (told, told < 1)
        assert ("too low" in str(found)) is (told > 1)


def test_the_limits_are_a_device_without_launches(found):
    device = found.device()
    assert (device.launch, device.efficiency, device.peak("float32")) == (0, 1, found.flops)
    assert device.peak("float64") < found.flops < device.peak("float16")


def test_figures_are_plain_data(found):
    assert Peak(**json.loads(json.dumps(found.summary()))) == found
    assert "Gflop/s" in str(found)


@pytest.mark.parametrize("threads", [0, 10_000])
def test_threads_that_are_not_there_are_refused(threads):
    with pytest.raises(ValueError, match="threads must be from 1 to"):
        peak(threads)
