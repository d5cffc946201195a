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
    """Return the CPU, one thread, or skip where torch is not installed."""
    return opened("cpu")


@pytest.fixture
def gpu():
    """Return the first GPU, or skip."""
    return opened("cuda")


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    """Return the CPU, and the first GPU where there is one."""
    return opened(request.param)
