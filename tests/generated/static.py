"""Judge the program by random models of fixed shapes: import, optimise, export, run both.

``python -m tests.generated.static 0 10000`` prints a table; the seeds are those of ``tests/frontends/fuzz.py``.
Models of one operator set are joined to one file, so that most files are rewritten; if anything is wrong
with a file, each of its models is judged alone.
"""

import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
from onnx import compose

from tests.frontends.fuzz import Maker, draw
from tests.generated.draft import session
from tests.generated.judge import VERDICTS, difference, interface, main, optimised, outcome

#: How much more than the original moves by a rounding of its inputs a result may be away from it.
SLACK = 4.0
#: Models in a file, and draws of inputs.
JOINED, DRAWS = 20, 3
#: Seeds that are judged before the next ones are begun; groups of one operator set are of one block.
BLOCK = 1000


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

    def moved(a):
        if a.dtype.kind != "f":
            return a
        return (a * (1 + step * rng.uniform(-2, 2, a.shape)) + step * rng.uniform(-1, 1, a.shape)).astype(
            a.dtype
        )

    return {name: moved(a) for name, a in feeds.items()}


class Given:
    """A model of a seed, loaded, with its inputs and outputs; ``failure`` says why it does not run."""

    def __init__(self, seed):
        self.seed, (self.model, self.feeds) = seed, draw(seed)
        self.half = any(t.data_type == onnx.TensorProto.FLOAT16 for t in self.model.graph.initializer)
        self.failure = ""
        try:
            self.session = session(self.model)
            self.expected = [self.session.run(None, self.feeds(n)) for n in range(DRAWS)]
        except Exception as error:  # ONNX Runtime has no common base of its errors
            self.failure = str(error)[:200].replace("\n", " ")

    def wrong(self, number, found):
        """Return how values differ by more than the original moves if its inputs are rounded otherwise."""
        expected = self.expected[number]
        off = gap(expected, found)
        if off <= (5e-2 if self.half else 1e-3):
            return ""
        feeds = self.feeds(number)
        moved = max(gap(expected, self.session.run(None, nearby(feeds, n, self.half))) for n in range(8))
        if np.isinf(moved) or off <= SLACK * moved:
            return ""
        texts = [t for a, b in zip(expected, found, strict=True) if (t := difference(a, b))]
        return f"inputs {number}: {texts[:1]}, the original itself moves by {moved:.2g}"


def prefix(given):
    return f"m{given.seed}_"


def renamed(model, start):
    """Return a copy of a model in which every name begins with a text, those that branches read too."""
    copy = compose.add_prefix(model, start)

    def branches(graph, known):
        for node in graph.node:
            for inner in (a.g for a in node.attribute if a.HasField("g")):
                for reader in inner.node:
                    reader.input[:] = [start + n if n in known else n for n in reader.input]
                branches(inner, known)

    outer = {n for node in model.graph.node for n in node.output}
    branches(copy.graph, outer | {v.name for v in (*model.graph.input, *model.graph.initializer)})
    return copy


def joined(models):
    """Return models of one operator set as one, their names prefixed."""
    if len(models) == 1:
        return models[0].model
    parts = [renamed(m.model, prefix(m)) for m in models]
    whole = parts[0]
    for part in parts[1:]:
        for field in ("node", "initializer", "input", "output", "value_info"):
            getattr(whole.graph, field).extend(getattr(part.graph, field))
    return whole


def compared(models, source, result):
    """Run originals and result on all draws; return verdict and message."""
    _, notes = interface(source, result)
    try:
        after = session(result)
    except Exception as error:
        return "fails", f"the result does not load: {str(error)[:200]}"
    several = len(models) > 1
    for number in range(DRAWS):
        feeds = {prefix(m) * several + k: a for m in models for k, a in m.feeds(number).items()}
        try:
            found = dict(zip([v.name for v in source.graph.output], after.run(None, feeds), strict=True))
        except Exception as error:
            return "fails", f"inputs {number}: {str(error)[-200:]}".replace("\n", " ")
        for m in models:
            values = [found[prefix(m) * several + v.name] for v in m.model.graph.output]
            if text := m.wrong(number, values):
                return "wrong", text
    return ("interface", "; ".join(notes)) if notes else ("right", "")


def judged_together(models, keep):
    """Optimise models as one file; return verdict, message and facts."""
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder, "model.onnx"), Path(folder, "out.onnx")
        source = joined(models)
        onnx.save(source, path)
        verdict, message, facts = optimised(path, out, e_nodes=2000 * len(models), saturation_seconds=20.0)
        if verdict in ("right", "false alarm"):
            second, more = compared(models, source, onnx.load(out))
            if VERDICTS.index(second) < VERDICTS.index(verdict):
                verdict, message = second, more
        if keep and verdict != "right" and len(models) == 1:
            onnx.save(source, Path(keep, f"static_{models[0].seed:05d}.onnx"))
    return verdict, message, facts


def judge(seeds, keep=None):
    """Return what became of the models of some seeds, as plain data; they have one operator set."""
    models = [Given(s) for s in seeds]
    running = [m for m in models if not m.failure]
    found = [outcome(m.seed, "static", "no reference", m.failure) for m in models if m.failure]
    groups = [running] if running else []
    while groups:
        group, began = groups.pop(), time.perf_counter()
        verdict, message, facts = judged_together(group, keep)
        seconds = (time.perf_counter() - began) / len(group)
        if verdict != "right" and len(group) > 1:
            groups += [[m] for m in group]
            continue
        found += [outcome(m.seed, "static", verdict, message, seconds, sizes=DRAWS, **facts) for m in group]
    return found


def files(seeds):
    """Return the seeds in groups of one operator set."""
    found = []
    for block in (seeds[i : i + BLOCK] for i in range(0, len(seeds), BLOCK)):
        by_set = {}
        for seed in block:
            by_set.setdefault(Maker(seed).opset, []).append(seed)
        found += [
            tuple(mine[i : i + JOINED]) for mine in by_set.values() for i in range(0, len(mine), JOINED)
        ]
    return found


if __name__ == "__main__":
    from tests.generated.static import judge as named  # a worker imports the module by this name

    main(__doc__, named, files)
