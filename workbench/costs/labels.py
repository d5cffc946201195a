"""Descriptions of cost sources for readers of a figure: the device, and whether it is this machine."""

from __future__ import annotations

from typing import Final

#: Descriptions of the analytic devices.
TITLES: Final = {
    "cpu": "a two-core server CPU",
    "t4": "an NVIDIA T4",
    "v100": "an NVIDIA V100",
    "a100": "an NVIDIA A100",
    "h200": "an NVIDIA H200",
}


def described(source: str) -> str:
    """Return a cost source as the end of a sentence about a cost; it names any machine other than this one.

    >>> described("analytic roofline, t4")
    'by a roofline of an NVIDIA T4, not this machine'
    >>> described("my own")
    'by my own'
    """
    from workbench.support.machine import machine

    kind, comma, device = source.partition("analytic roofline, ")
    if not kind and comma:
        device, more, sizes = device.partition(", ")
        return f"by a roofline of {TITLES.get(device, device)}, not this machine{more}{sizes}"
    where = "on this machine" if machine() in source else "not on this machine"
    for verb in ("measured", "recorded table"):
        if source.startswith(f"{verb}: "):
            return f"by operators {verb.partition(' ')[0]} {where}: {source.removeprefix(f'{verb}: ')}"
    return f"by {source}"


def is_this_machine(source: str) -> bool:
    """Return whether a cost source measured ONNX Runtime on this machine.

    >>> is_this_machine("analytic roofline, t4")
    False
    """
    from workbench.support.machine import machine

    measured = source.startswith(("measured: ONNX Runtime", "recorded table: ONNX Runtime"))
    return measured and machine() in source
