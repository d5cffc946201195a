"""The devices that tests run on."""

from tests.devices.conftest import cpu, device, gpu, pretended

__all__ = ["cpu", "device", "gpu", "pretended"]
