"""Devices: running graphs in torch and measuring operators and whole graphs, on a CPU and on CUDA GPUs.

The measuring part needs only torch, numpy and the standard library, so that it runs on a machine without
other packages: ``python -m workbench.devices.measure SPEC.json RESULTS.json``. Its results are then turned
into a recorded cost table (:mod:`workbench.devices.record`), usable anywhere.
"""
