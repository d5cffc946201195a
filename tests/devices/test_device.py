import operator
import subprocess
import time
from types import SimpleNamespace

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


def switches_of(torch):
    """Return how float32 is computed, by the newer switches and by the older ones, which may refuse to be read."""
    backends, found = torch.backends, []
    old = (lambda: backends.cuda.matmul.allow_tf32, lambda: backends.cudnn.allow_tf32)
    for read in (*old, torch.get_float32_matmul_precision):
        try:
            found.append(read())
        except RuntimeError:
            found.append("refused")
    parts = (backends.cuda.matmul, backends.cudnn.conv, backends.cudnn.rnn, backends.mkldnn.matmul)
    return [s.fp32_precision for s in (backends, backends.cudnn, *parts)], found


#: What a user may have set, below ``torch.backends`` or as the precision of products.
GIVEN = [
    {},
    {"cuda.matmul.fp32_precision": "tf32"},
    {"cuda.matmul.fp32_precision": "ieee", "cudnn.conv.fp32_precision": "ieee"},
    {"cuda.matmul.allow_tf32": True},
    {"cudnn.allow_tf32": False},
    {"fp32_precision": "tf32"},
    {"fp32_precision": "ieee", "cudnn.conv.fp32_precision": "tf32"},
    {"cudnn.fp32_precision": "ieee", "cuda.matmul.allow_tf32": True},
    {"fp32_precision": "tf32", "cudnn.allow_tf32": False, "cuda.matmul.allow_tf32": False},
    {"mkldnn.matmul.fp32_precision": "bf16"},
    {"precision": "medium"},
    {"precision": "medium", "cuda.matmul.fp32_precision": "ieee"},
    {"precision": "high", "fp32_precision": "ieee"},
]


@pytest.mark.parametrize(
    "given", GIVEN, ids=lambda g: ", ".join(f"{k}={v}" for k, v in g.items()) or "nothing"
)
@pytest.mark.parametrize("tf32", [False, True])
def test_tf32_is_set_and_restored_whichever_switches_were_used(cpu, given, tf32):
    torch = cpu.torch
    backends = torch.backends
    if not hasattr(backends, "fp32_precision"):
        pytest.skip("this version of torch has only the older switches")
    try:
        for path, value in given.items():
            if path == "precision":
                torch.set_float32_matmul_precision(value)
            else:
                place, _, name = path.rpartition(".")
                setattr(operator.attrgetter(place)(backends) if place else backends, name, value)
        before = switches_of(torch)
        with Device("cpu", tf32=tf32, threads=1).settings():
            new, old = switches_of(torch)
        assert old == [tf32, tf32, "high" if tf32 else "highest"], "torch.compile reads them"
        assert set(new[2:]) == {"tf32" if tf32 else "ieee"}
        assert switches_of(torch) == before
    finally:
        torch.set_float32_matmul_precision("highest")
        backends.cudnn.allow_tf32 = True
        for part in (backends, backends.cudnn, backends.mkldnn, backends.cuda.matmul, backends.mkldnn.matmul):
            part.fp32_precision = "none"


def test_what_is_set_for_all_operations_later_holds_for_each(cpu):
    torch = cpu.torch
    if not hasattr(torch.backends, "fp32_precision"):
        pytest.skip("this version of torch has only the older switches")
    try:
        torch.backends.fp32_precision = "tf32"
        with cpu.settings():
            assert torch.backends.cuda.matmul.fp32_precision == "ieee"
        torch.backends.fp32_precision = "ieee"
        assert torch.backends.cuda.matmul.fp32_precision == "ieee", "it is not held at what it was"
    finally:
        torch.backends.fp32_precision = "none"
        torch.backends.cudnn.allow_tf32 = True  # the default, which has no name


def test_an_older_torch_has_the_older_switches_alone(cpu, monkeypatch):
    from workbench.devices import device

    monkeypatch.setattr(device, "_SWITCHES", ())
    before = settings_of(cpu.torch)
    with Device("cpu", tf32=True, threads=1).settings():
        assert settings_of(cpu.torch)[2:4] == (True, True)
    assert settings_of(cpu.torch) == before


def test_all_algorithms_of_convolutions_are_tried(cpu):
    cudnn = cpu.torch.backends.cudnn
    before = cudnn.benchmark_limit
    with cpu.settings():
        assert cudnn.benchmark_limit == 0
    assert cudnn.benchmark_limit == before


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


def test_a_field_that_the_driver_does_not_know_loses_no_others(pretended, monkeypatch):
    def answer(words, **named):
        fields = words[1].partition("=")[2].split(",")[1:]
        if "clocks_event_reasons.active" in fields:
            raise subprocess.CalledProcessError(2, words)
        return subprocess.CompletedProcess(words, 0, stdout=f"GPU-aa, {', '.join(fields)}\n")

    monkeypatch.setattr(subprocess, "run", answer)
    monkeypatch.setattr(
        pretended.torch.cuda, "get_device_properties", lambda name: SimpleNamespace(uuid="aa")
    )
    assert Device.clocks(pretended) == {
        "clock_sm_mhz": "clocks.current.sm",
        "clock_memory_mhz": "clocks.current.memory",
        "temperature_c": "temperature.gpu",
        "power_draw_w": "power.draw",
        "clock_reasons": "clocks_throttle_reasons.active",
    }
    assert Device("cpu").clocks() == {}


def test_a_gpu_works_for_as_long_as_asked_and_a_cpu_does_not(pretended):
    products = []
    vars(pretended)["torch"] = SimpleNamespace(
        rand=lambda *shape, device: device, mm=lambda a, b: products.append(a)
    )
    began = time.perf_counter()
    Device.soak(pretended, 0.02)
    assert time.perf_counter() - began >= 0.02
    assert set(products) == {"cpu"}
    began = time.perf_counter()
    Device("cpu").soak(60.0)
    assert time.perf_counter() - began < 1.0


def test_a_gpu_that_is_not_the_current_one_is_asked_for_itself(cpu, monkeypatch):
    asked = []
    answers = {"synchronize": None, "mem_get_info": (5, 9), "memory_reserved": 7, "memory_allocated": 3}
    for name, value in answers.items():
        monkeypatch.setattr(cpu.torch.cuda, name, lambda d=None, v=value: asked.append(d) or v)
    second = Device("cuda:1")
    second.wait()
    assert second.free_bytes() == 5 + 7 - 3
    assert asked == ["cuda:1"] * 4


@pytest.mark.gpu
def test_a_gpu_says_its_clocks_and_raises_them(gpu):
    gpu.soak(0.5)
    assert float(gpu.clocks()["clock_sm_mhz"]) > 0
    assert gpu.provenance()["cudnn_benchmark"] is True


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
