"""All of onnx's own backend tests: each model is imported, evaluated, exported and run.

There are about 2 000 models of one or a few nodes with stored outputs. Each commit runs a quarter of those
of single operators.
"""

import contextlib
import warnings
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import onnx.version_converter
import pytest
from onnx import TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator

from tests.sampled import marks_of
from workbench.frontends import ModelError, RuntimeFailure, import_onnx, opaque_runner, run_model, to_onnx
from workbench.graph import evaluate

#: The only accepted reasons why a model cannot become a graph of tensors of static shape.
REFUSALS = (
    "must use an operator set from",
    "must be a positive integer, got 0",
    "Input to 'Range' op should be scalars",  # one model passes a vector of one element
)


#: The number of parts in which the models of single operators run.
PARTS = 4


@cache
def cases(kind):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.loader import load_model_tests

        return load_model_tests(kind=kind)


def as_array(content):
    if isinstance(content, list) or content is None:
        return [as_array(c) for c in content] if content is not None else None
    return numpy_helper.to_array(content) if isinstance(content, TensorProto) else np.asarray(content)


def stored(folder, kind):
    files = [folder / f"{kind}_{i}.pb" for i in range(len(list(folder.glob(f"{kind}_*.pb"))))]
    return [numpy_helper.to_array(TensorProto.FromString(f.read_bytes())) for f in files]


def loaded(case):
    """Return a case's model and its data sets: inputs and expected outputs by name."""
    if case.model is not None:
        m = case.model
        sets = [([as_array(v) for v in a], [as_array(v) for v in b]) for a, b in case.data_sets]
    else:
        folder = Path(case.model_dir)
        m = onnx.load(str(folder / "model.onnx"))
        if m.opset_import[0].version < 9:
            m = onnx.version_converter.convert_version(m, 9)
        sets = [(stored(f, "input"), stored(f, "output")) for f in sorted(folder.glob("test_data_set_*"))]
    weights = {t.name for t in m.graph.initializer}
    inputs = [v.name for v in m.graph.input if v.name not in weights]
    outputs = [v.name for v in m.graph.output]
    return m, [(dict(zip(inputs, a, strict=False)), dict(zip(outputs, b, strict=False))) for a, b in sets]


def close(found, expected, case):
    """Return whether two values are equal, including type and shape; lists are sequences."""
    if expected is None or isinstance(expected, list):
        return type(found) is type(expected) and (
            expected is None
            or (
                len(found) == len(expected)
                and all(close(f, e, case) for f, e in zip(found, expected, strict=True))
            )
        )
    found = np.asarray(found)
    if found.shape != expected.shape:
        return False
    if expected.dtype.kind in "OUS":
        return found.dtype.kind in "OUS" and bool((found == expected).all())
    coarse = {"float16": 1e-3, "bfloat16": 2**-6}.get(str(expected.dtype), 0)
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    rtol, atol = max(case.rtol, coarse), max(case.atol, 1e-6, coarse)
    return found.dtype == expected.dtype and np.allclose(
        found.astype(wide), expected.astype(wide), rtol=rtol, atol=atol, equal_nan=True
    )


def same(found, expected, case):
    return all(close(found[name], array, case) for name, array in expected.items())


def others(m, feeds):
    """Yield the results of the runtimes that support the original: runtimes differ from each other."""
    names = [o.name for o in m.graph.output]
    with contextlib.suppress(RuntimeFailure):
        yield run_model(m, feeds)
    try:
        yield dict(zip(names, ReferenceEvaluator(m).run(None, feeds), strict=True))
    except Exception:
        return


def is_open(m, name):
    """Return whether an input has an unstated dimension."""
    (declared,) = (v for v in m.graph.input if v.name == name)
    return any(d.dim_param for d in declared.type.tensor_type.shape.dim)


def try_case(case, counts):
    """Return the fault found with a case, or an empty text."""
    m, sets = loaded(case)
    try:
        first = sets[0][0] if sets else {}
        imported = import_onnx(m, dims={k: np.shape(v) for k, v in first.items() if is_open(m, k)})
    except ModelError as refusal:
        counts["refused"] += 1
        return "" if any(r in str(refusal) for r in REFUSALS) else f"refused: {refusal}"
    graph = imported.graph
    counts["opaque" if graph.opaques else "modelled"] += 1
    counts["nodes modelled"] += sum(imported.coverage.modelled.values())
    written = to_onnx(graph)
    deterministic = all(r.deterministic for r in graph.opaques.values())
    for feeds, expected in sets:
        found = {}
        try:
            found["evaluated"] = evaluate(graph, feeds, opaque=opaque_runner())
        except RuntimeFailure:
            counts["not evaluated"] += 1
        try:
            found["run"] = run_model(written, feeds)
        except RuntimeFailure as failure:
            # ONNX Runtime lacks some kernels, for the original as well.
            with pytest.raises(RuntimeFailure):
                run_model(m, feeds)
            counts["not run"] += 1
            if not graph.opaques and not graph.info.tail and "NOT_IMPLEMENTED" not in str(failure):
                return f"does not run: {failure}"
        for label, values in found.items():
            counts[label] += 1
            known = {n: v for n, v in expected.items() if label == "run" or n in graph.output_types}
            if deterministic and not same(values, known, case):
                # A modelled operator must give the stored outputs, an opaque one those of the runtimes.
                modelled = not graph.opaques and not graph.info.tail
                if modelled or not any(same(values, other, case) for other in others(m, feeds)):
                    return f"{label} otherwise than stored"
                counts["runtime deviates"] += 1
    return ""


def run(kind, part=slice(None)):
    counts, failures = Counter(), []
    for case in cases(kind)[part]:
        try:
            problem = try_case(case, counts)
        except Exception as error:
            problem = repr(error)
        if problem:
            failures.append(f"{case.name}: {problem}")
    print(kind, dict(counts))
    assert not failures, "\n".join(failures[:20])
    return counts


@pytest.mark.slow
@pytest.mark.parametrize("part", [pytest.param(n, marks=marks_of(n, PARTS)) for n in range(PARTS)])
def test_single_operators(part):
    counts = run("node", slice(part, None, PARTS))
    assert counts["modelled"] > 50
    assert counts["opaque"] > 230
    assert counts["evaluated"] > 300
    assert counts["run"] > 230
    assert counts["refused"] < 10
    assert counts["runtime deviates"] < 40


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "least"), [("pytorch-operator", 15), ("pytorch-converted", 25), ("simple", 5)]
)
def test_stored_models(kind, least):
    assert run(kind)["modelled"] >= least
