"""Judge the program by random models of fixed shapes: import, optimise, export, run both.

``python -m tests.generated.static 0 10000`` prints a table; the seeds are those of ``tests/frontends/fuzz.py``.
"""

import tempfile
import time
from pathlib import Path

import numpy as np
import onnx

from tests.frontends.fuzz import draw
from tests.generated.draft import session
from tests.generated.judge import VERDICTS, difference, interface, main, optimised

#: How much more than the original moves by a rounding of its inputs a result may be away from it.
SLACK = 4.0


def gap(expected, found):
    """Return the largest difference of two lists of outputs, relative to the largest entry of each."""
    worst = 0.0
    for a, b in zip(expected, found, strict=True):
        if a.dtype != b.dtype or a.shape != b.shape:
            return np.inf
        x, y = a.astype(np.float64), b.astype(np.float64)
        both = np.isfinite(x) & np.isfinite(y)
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        if not (both | same).all():
            return np.inf
        scale = max(1e-3, float(np.abs(x[both]).max(initial=0.0)))
        worst = max(worst, float(np.abs(x[both] - y[both]).max(initial=0.0)) / scale)
    return worst


def nearby(feeds, seed, half):
    """Return inputs that differ by about a rounding."""
    rng = np.random.default_rng(seed)
    step = 2.0**-11 if half else 2.0**-23
    return {
        name: (a * (1 + step * rng.uniform(-2, 2, a.shape)) + step * rng.uniform(-1, 1, a.shape)).astype(
            a.dtype
        )
        if a.dtype.kind == "f"
        else a
        for name, a in feeds.items()
    }


def compared(model, feeds, result):
    """Run original and result on three draws; return verdict and message.

    A difference counts if it is more than the original itself moves if its inputs are rounded otherwise.
    """
    _, notes = interface(model, result)
    before = session(model)
    try:
        after = session(result)
    except Exception as error:
        return "fails", f"the result does not load: {str(error)[:200]}"
    half = any(t.data_type == onnx.TensorProto.FLOAT16 for t in model.graph.initializer)
    ran = 0
    for number in range(3):
        given = feeds(number)
        try:
            expected = before.run(None, given)
        except Exception:
            continue
        ran += 1
        try:
            found = after.run(None, given)
        except Exception as error:
            return "fails", f"inputs {number}: {str(error)[-200:]}".replace("\n", " ")
        off = gap(expected, found)
        if off <= (5e-2 if half else 1e-3):
            continue
        moved = max(gap(expected, before.run(None, nearby(given, n, half))) for n in range(8))
        if off > SLACK * moved or (np.isinf(off) and not np.isinf(moved)):
            texts = [t for a, b in zip(expected, found, strict=True) if (t := difference(a, b))]
            return "wrong", f"inputs {number}: {texts[:1]}, the original itself moves by {moved:.2g}"
    if not ran:
        return "no reference", ""
    return ("interface", "; ".join(notes)) if notes else ("right", "")


def judge(seed, keep=None):
    """Return what became of the model of a seed, as plain data."""
    began = time.perf_counter()
    model, feeds = draw(seed)
    facts = {"rewritten": False, "fixed": []}
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder, "model.onnx"), Path(folder, "out.onnx")
        onnx.save(model, path)
        try:
            session(model)
        except Exception as error:
            verdict, message = "no reference", str(error)[:200].replace("\n", " ")
        else:
            verdict, message, facts = optimised(path, out)
            if verdict in ("right", "false alarm"):
                second, more = compared(model, feeds, onnx.load(out))
                if VERDICTS.index(second) < VERDICTS.index(verdict):
                    verdict, message = second, more
    if keep and verdict not in ("right", "no reference"):
        onnx.save(model, Path(keep, f"static_{seed:05d}.onnx"))
    seconds = time.perf_counter() - began
    facts |= {"sizes": 3, "seconds": seconds}
    return {"seed": seed, "family": "static", "verdict": verdict, "message": message, **facts}


if __name__ == "__main__":
    from tests.generated.static import judge as named  # a worker imports the module by this name

    main(__doc__, named)
