"""The devices that tests of torch run on."""

from tests.devices.conftest import cpu, device, gpu, pretended

__all__ = ["cpu", "device", "gpu", "pretended"]
