"""The devices that tests run on."""

import pytest


def opened(name):
    pytest.importorskip("torch", reason="torch is not installed")
    from workbench.devices.device import DeviceMissing, open_device

    try:
        return open_device(name, threads=1 if name == "cpu" else None)
    except DeviceMissing as missing:
        pytest.skip(str(missing))


@pytest.fixture
def cpu():
    """Return the CPU, one thread, or skip if torch is not installed."""
    return opened("cpu")


@pytest.fixture
def gpu():
    """Return the first GPU, or skip if there is none."""
    return opened("cuda")


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    """Return the CPU, and the first GPU if there is one."""
    return opened(request.param)


@pytest.fixture
def pretended(cpu):
    """Return a device with a GPU's interface that computes on the CPU; replays run the calls again."""
    from workbench.devices.device import Device

    class Pretended(Device):
        recorded = 0

        @property
        def cuda(self):
            return True

        def settings(self):
            return Device("cpu", threads=1).settings()

        def wait(self):
            pass

        def release(self):
            pass

        def soak(self, seconds):
            pass

        def clocks(self):
            return {"clock_sm_mhz": "1980"}

        def free_bytes(self):
            return 1e9

        def cache_bytes(self):
            return 1 << 20

        def time(self, run, times=1):
            return Device("cpu").time(run, times)

        def times_back_to_back(self, replays):
            return [self.time(replay) for replay in replays]

        def capture(self, body, warmup=3):
            type(self).recorded += 1
            body()
            return body

    return Pretended("cpu")
