"""Devices: graphs run in torch, operators and whole graphs measured, on a CPU and on CUDA GPUs.

The part that measures needs torch, numpy and the standard library alone, so that it runs on a machine
that has nothing else: ``python -m workbench.devices.measure SPEC.json RESULTS.json``. What is measured
there comes back as a recorded cost table (:mod:`workbench.devices.record`), usable anywhere.
"""
