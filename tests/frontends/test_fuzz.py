"""Random models: the import and the export of each give the values of ONNX Runtime."""

import warnings
from collections import Counter

import numpy as np
import onnx
import pytest

from tests.frontends.fuzz import draw
from tests.sampled import rotating
from workbench.frontends import ModelError, RuntimeFailure, load_onnx, to_onnx
from workbench.frontends.runtime import run_session, session

#: The largest allowed difference of outputs, relative to the largest finite entry of each.
TOLERANCE = {"float64": 1e-9, "float32": 2e-5, "float16": 5e-2}


def differs(expected, found, tolerance):
    """Return how two arrays differ by more than a tolerance, or an empty text."""
    if expected.dtype != found.dtype or expected.shape != found.shape:
        return f"{found.dtype}{found.shape} in place of {expected.dtype}{expected.shape}"
    if expected.dtype.kind != "f":
        wrong = int((expected != found).sum())
        return f"{wrong} of {expected.size} entries" if wrong else ""
    finite = np.isfinite(expected)
    if not np.array_equal(finite, np.isfinite(found)) or not np.array_equal(
        expected[~finite], found[~finite], equal_nan=True
    ):
        return "other entries are infinite or no numbers"
    a, b = expected[finite].astype(np.float64), found[finite].astype(np.float64)
    gap = float(np.abs(a - b).max(initial=0)) / max(1.0, float(np.abs(a).max(initial=0)))
    return f"off by {gap:.2g}" if gap > tolerance[str(expected.dtype)] else ""


def judge(seed, counts, transform=lambda graph: graph):
    """Import, transform and export a model; return the fault of the outcome, or an empty text."""
    model, feeds = draw(seed)
    try:
        original = session(model, threads=1, optimise=False)
    except RuntimeFailure as refusal:
        counts["no reference"] += 1
        counts[str(refusal)[:150]] += 1
        return ""
    try:
        written = to_onnx(transform(load_onnx(model)))
        result = session(written, threads=1, optimise=False)
    except (ModelError, RuntimeFailure) as failure:
        return f"{type(failure).__name__}: {failure}"
    tolerance = dict(TOLERANCE)
    if any(t.data_type == onnx.TensorProto.FLOAT16 for t in model.graph.initializer):
        # ONNX Runtime computes in float32 between two conversions of float16.
        tolerance |= {"float32": 5e-2, "float64": 5e-2}
    for number in range(3):
        try:
            expected = run_session(original, feeds(number))
        except RuntimeFailure:
            counts["fails"] += 1
            continue
        for name, value in run_session(result, feeds(number)).items():
            problem = differs(expected[name], value, tolerance)
            if problem:
                return f"inputs {number}, output {name}: {problem}"
        counts["same"] += 1
    return ""


def run(seeds, **options):
    counts, failures = Counter(), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in seeds:
            try:
                problem = judge(seed, counts, **options)
            except Exception as error:
                problem = repr(error)
            if problem:
                failures.append(f"{seed}: {problem}")
    assert not failures, f"{len(failures)} of {len(seeds)}\n" + "\n".join(failures[:40])
    return counts


@pytest.mark.slow
def test_random_models_compute_the_same_after_import_and_export():
    counts = run(rotating(11_000, 400))
    assert counts["same"] > 900
    assert counts["no reference"] < 50


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("part", range(11))
def test_many_random_models(part):
    counts = run(range(1000 * part, 1000 + 1000 * part))
    assert counts["same"] > 2500
