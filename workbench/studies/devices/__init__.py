"""Costs of operators on a device: what to measure, the measurement, and the recorded cost table that comes of it.

The measuring part needs only torch, numpy and the standard library, so that it runs on a machine without other
packages: ``python -m workbench.studies.devices.measure SPEC.json RESULTS.json``. Its results are then turned into
a recorded cost table (:mod:`workbench.studies.devices.spec_io`), usable anywhere.
"""
