import pytest

from workbench.devices.device import Device, DeviceMissing, open_device


def test_a_device_says_what_its_figures_depend_on(device):
    with device.settings():
        found = device.provenance()
    assert {"device", "tf32", "torch", "numpy", "python", "workbench", "date"} <= set(found)
    assert found["device"] == device.title
    assert found["torch"] in device.title
    if device.cuda:
        assert {"gpu", "capability", "cuda", "cudnn", "memory_bytes"} <= set(found)
    else:
        assert found["threads"] == 1


def settings_of(torch):
    return (
        torch.get_num_threads(),
        torch.backends.cudnn.benchmark,
        torch.backends.cudnn.allow_tf32,
        torch.backends.cuda.matmul.allow_tf32,
        torch.is_grad_enabled(),
    )


def test_settings_hold_inside_and_are_as_before_outside(device):
    before = settings_of(device.torch)

    def fail():
        with device.settings():
            assert settings_of(device.torch)[1:] == (True, False, False, False)
            raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside"):
        fail()
    assert settings_of(device.torch) == before
    with Device(device.name, tf32=True, threads=1).settings():
        assert settings_of(device.torch) == (1, True, True, True, False)
    assert settings_of(device.torch) == before


def test_time_is_per_run(device):
    with device.settings():
        x = device.torch.ones(1000, device=device.name)
        calls = []
        taken = device.time(lambda: calls.append(x + 1), 7)
    assert len(calls) == 7
    assert taken > 0
    assert device.free_bytes() > 1 << 20
    assert device.cache_bytes() > 1 << 16


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "cpu:0", "", "cuda-1"])
def test_another_name_is_refused(cpu, name):
    with pytest.raises(ValueError, match="device must be cpu, cuda or cuda:N, got"):
        open_device(name)


def test_a_device_that_is_not_there_is_reported(cpu, monkeypatch):
    monkeypatch.setattr(cpu.torch.cuda, "is_available", lambda: False)
    with pytest.raises(DeviceMissing, match=r"finds no GPU \(try cpu\)"):
        open_device("cuda")
    with pytest.raises(ValueError, match="threads must be at least 1, got"):
        open_device("cpu", threads=0)


def test_without_torch_the_message_says_what_to_install(monkeypatch):
    import builtins

    real = builtins.__import__

    def without(name, *rest, **named):
        if name == "torch":
            raise ImportError("no torch here")
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(DeviceMissing, match=r"pip install 'tamago-workbench\[torch\]'"):
        open_device("cpu")


def test_the_driver_is_asked_by_the_gpus_own_name(monkeypatch):
    import subprocess

    from workbench.devices import device

    lines = "GPU-aa, 1.2, 700.00, 1980, [N/A], 1980, 40\nGPU-bb, 1.2, 350.00, 1000, 2600, 1500, 41\n"
    answer = lambda *a, **k: subprocess.CompletedProcess(a, 0, stdout=lines)  # noqa: E731
    monkeypatch.setattr(subprocess, "run", answer)
    found = device._nvidia_smi("bb")
    assert found["driver"] == "1.2"
    assert found["power_limit_w"] == "350.00"
    assert "clock_memory_mhz" not in device._nvidia_smi("GPU-aa"), "what the driver does not know is left out"
    assert device._nvidia_smi("cc") == {}
    assert device._nvidia_smi("") == {}


@pytest.mark.gpu
def test_what_is_recorded_computes_when_it_is_replayed(gpu):
    torch = gpu.torch
    with gpu.settings():
        x, y = torch.zeros(8, device=gpu.name), torch.zeros(8, device=gpu.name)
        replay = gpu.capture(lambda: y.copy_(x + 1))
        x.fill_(4)
        replay()
        assert y.tolist() == [5.0] * 8
        assert all(t > 0 for t in gpu.times_back_to_back([replay] * 3))
