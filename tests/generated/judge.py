"""Judge the program by generated models: optimise each in a process, run original and result at many sizes.

``python -m tests.generated.judge 0 300`` prints a table by family.
"""

import argparse
import contextlib
import multiprocessing
import os
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import onnx

from tests.generated.draft import session
from tests.generated.families import draw

#: Verdicts, the worst first; ``lost`` is a right result in which a symbol is fixed.
VERDICTS = (
    "wrong",
    "fails",
    "crash",
    "endless",
    "refused",
    "false alarm",
    "interface",
    "lost",
    "no reference",
    "right",
)
#: Seconds that a model may take; machines may be busy.
LIMIT = 600.0
#: The largest allowed difference, relative to the largest entry of an output.
TOLERANCE = 1e-3
#: Small limits: many models are worth more than the last per cent of each.
SETTINGS = {
    "cost": "analytic",
    "time": False,
    "saturation_seconds": 2.0,
    "e_nodes": 2000,
    "extraction_seconds": 1.0,
}


def difference(expected, found):
    """Return how two outputs differ, or an empty text."""
    if expected.dtype != found.dtype or expected.shape != found.shape:
        return f"{found.dtype}{list(found.shape)} in place of {expected.dtype}{list(expected.shape)}"
    if expected.dtype.kind != "f":
        wrong = int((expected != found).sum())
        return f"{wrong} of {expected.size} entries" if wrong else ""
    finite = np.isfinite(expected)
    if not np.array_equal(finite, np.isfinite(found)):
        return "other entries are finite"
    a, b = expected[finite].astype(np.float64), found[finite].astype(np.float64)
    gap = float(np.abs(a - b).max(initial=0.0)) / max(1e-3, float(np.abs(a).max(initial=0.0)))
    return f"off by {gap:.2g}" if gap > TOLERANCE else ""


def dims(value):
    """Return the declared sizes of a value: numbers, names or empty texts; None if it has no shape."""
    kind = value.type.tensor_type
    if not kind.HasField("shape"):
        return None
    return [d.dim_value if d.HasField("dim_value") else d.dim_param for d in kind.shape.dim]


def interface(before, after):
    """Return the sizes at which symbols are fixed in a result, and what else is different in its interface."""
    fixed, notes = {}, []
    for kind in ("input", "output"):
        initial = {w.name for w in before.graph.initializer}  # such an input becomes a weight
        old, new = ([v for v in getattr(m.graph, kind) if v.name not in initial] for m in (before, after))
        if [v.name for v in old] != [v.name for v in new]:
            notes.append(f"{kind}s {', '.join(v.name for v in new)} for {', '.join(v.name for v in old)}")
            continue
        for a, b in zip(old, new, strict=True):
            x, y = dims(a), dims(b)
            if a.type.tensor_type.elem_type != b.type.tensor_type.elem_type:
                notes.append(f"{a.name} has another type")
            if x == y or (x is None and kind == "output"):
                continue  # a shape that was not declared before is checked in the runs
            if x is None or y is None or len(x) != len(y):
                notes.append(f"{a.name} is {y} for {x}")
                continue
            for p, q in zip(x, y, strict=True):
                if kind == "input" and isinstance(p, str) and isinstance(q, int):
                    fixed[p] = q
                elif p != q and not (isinstance(p, str) and isinstance(q, int)):
                    notes.append(f"{a.name} is {y} for {x}")
            if (
                kind == "output"
                and not fixed
                and any(isinstance(q, int) and p != q for p, q in zip(x, y, strict=True))
            ):
                notes.append(f"{a.name} is {y} for {x}")
    return fixed, list(dict.fromkeys(notes))


def undeclared(before, after, values, sizes):
    """Return what a result says wrongly about the shapes of outputs, of which the original says nothing."""
    notes = []
    for a, b, value in zip(before.graph.output, after.graph.output, values, strict=True):
        declared = dims(b)
        if declared is None or dims(a) is not None:
            continue
        known = [sizes.get(d) if isinstance(d, str) else d for d in declared]
        if len(known) != value.ndim or any(
            k not in (None, e) for k, e in zip(known, value.shape, strict=True)
        ):
            notes.append(f"{a.name} is declared {declared}, which is wrong")
    return notes


def optimised(path, out, **settings):
    """Optimise a file as the command line does; return verdict, message and facts."""
    import workbench
    from workbench.frontends import ModelError

    facts = {"rewritten": False, "fixed": []}
    try:
        result = workbench.optimize(path, **SETTINGS | settings)
        result.save(out)
    except Exception as error:
        verdict = "refused" if isinstance(error, ModelError) else "crash"
        return verdict, f"{type(error).__name__}: {error}".replace("\n", " ")[:300], facts
    facts["rewritten"] = result.graph is not result.original
    if result.dynamic is not None:
        facts["fixed"] = [str(f) for f in result.dynamic.fixed]
    if result.certificate is None or not result.certificate.passed:
        return (
            "false alarm",
            str(result.certificate and result.certificate.reason).replace("\n", " ")[:300],
            facts,
        )
    return "right", "", facts


def compared(draft, model, valid, result):
    """Run original and result at all sizes; return verdict and message."""
    fixed, notes = interface(model, result)
    try:
        before, after = session(model), session(result)
    except Exception as error:
        return "fails", f"the result does not load: {str(error)[:200]}"
    for sizes in [*valid, *({**v, **fixed} for v in valid if fixed)]:
        if any(sizes[s] != n for s, n in fixed.items() if s in sizes):
            continue
        seeds = []
        for seed in range(3):
            feeds = draft.feeds(sizes, seed)
            try:
                expected = before.run(None, feeds)
            except Exception as error:
                if fixed:
                    return "wrong", f"fixed at {fixed}, at which the original fails: {str(error)[-120:]}"
                raise
            try:
                found = after.run(None, feeds)
            except Exception as error:
                return "fails", f"at {sizes}: {str(error)[-200:]}".replace("\n", " ")
            gaps = [
                f"{n}: {g}"
                for n, a, b in zip(draft.outputs, expected, found, strict=False)
                if (g := difference(a, b))
            ]
            notes += undeclared(model, result, found, sizes)
            if not gaps:
                break  # a difference counts if three draws show it: a rounding may move a comparison
            seeds.append(f"at {sizes}: {gaps[0]}")
        if len(seeds) == 3:
            return "wrong", seeds[0]
    if fixed:
        return "lost", str(fixed)
    return ("interface", "; ".join(dict.fromkeys(notes))) if notes else ("right", "")


def judge(seed, keep=None):
    """Return what became of the model of a seed."""
    began = time.perf_counter()
    family, draft, model, valid = draw(seed)
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder, "model.onnx"), Path(folder, "out.onnx")
        onnx.save(model, path)
        verdict, message, facts = optimised(path, out)
        if verdict in ("right", "false alarm"):
            second, more = compared(draft, model, valid, onnx.load(out))
            if VERDICTS.index(second) < VERDICTS.index(verdict):
                verdict, message = second, more
    if facts["fixed"] and verdict == "lost":
        message = "; ".join(facts["fixed"])[:300]
    if keep and verdict != "right":
        onnx.save(model, Path(keep, f"{seed:05d}_{family}.onnx"))
    return [outcome(seed, family, verdict, message, time.perf_counter() - began, sizes=len(valid), **facts)]


def work(pipe, judge, keep):
    """Judge seeds that come through a pipe until it is closed."""
    warnings.simplefilter("ignore")
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 1)
    with contextlib.suppress(EOFError):
        while True:
            seed = pipe.recv()
            try:
                pipe.send(judge(seed, keep))
            except Exception as error:
                pipe.send(unfinished(seed, "crash", f"harness: {type(error).__name__}: {error}"))


def outcome(seed, family, verdict, message, seconds=0.0, *, sizes=0, rewritten=False, fixed=()):
    """Return what became of the model of a seed, as plain data."""
    return {
        "seed": seed, "family": family, "verdict": verdict, "message": message, "seconds": seconds,
        "sizes": sizes, "rewritten": rewritten, "fixed": list(fixed),
    }  # fmt: skip


def unfinished(seed, verdict, message):
    """Return the outcome of what was not judged to the end."""
    return [outcome(seed, "unfinished", verdict, message, LIMIT)]


class Worker:
    """A process that judges one model at a time."""

    def __init__(self, judge, keep):
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=work, args=(other, judge, keep))
        self.process.start()
        other.close()
        self.seed, self.began = None, 0.0

    def give(self, seed):
        self.seed, self.began = seed, time.monotonic()
        self.pipe.send(seed)

    def result(self):
        """Return the outcome of the seed, or None while it is judged."""
        try:
            if self.pipe.poll(0.05):
                return self.pipe.recv()
        except (EOFError, ConnectionError):
            self.process.join()
            return unfinished(self.seed, "crash", f"the process ended with {self.process.exitcode}")
        if time.monotonic() - self.began > LIMIT:
            return unfinished(self.seed, "endless", f"no result after {LIMIT:.0f} s")
        return None

    def end(self):
        self.pipe.close()
        self.process.kill()
        self.process.join()


def judged(seeds, workers=1, keep=None, judge=judge):
    """Yield the outcome of each seed as it comes; a process that dies or takes too long is replaced."""
    waiting, crew = list(reversed(list(seeds))), [Worker(judge, keep) for _ in range(workers)]
    try:
        while waiting or any(w.seed is not None for w in crew):
            for i, worker in enumerate(crew):
                if worker.seed is None:
                    if waiting:
                        worker.give(waiting.pop())
                    continue
                found = worker.result()
                if found is None:
                    continue
                if not worker.process.is_alive() or found[0]["verdict"] == "endless":
                    worker.end()
                    crew[i] = Worker(judge, keep)
                worker.seed = None
                yield from found
    finally:
        for worker in crew:
            worker.end()


def table(outcomes):
    """Return the verdicts by family as lines."""
    lines = [
        f"{'family':18s}"
        + "".join(f"{v:>12s}" for v in reversed(VERDICTS))
        + f"{'rewritten':>11s}{'seconds':>9s}"
    ]
    for family in [
        *dict.fromkeys(o["family"] for o in sorted(outcomes, key=lambda o: str(o["seed"]).zfill(9))),
        "all",
    ]:
        mine = [o for o in outcomes if family in ("all", o["family"])]
        counts = Counter(o["verdict"] for o in mine)
        seconds = sum(o["seconds"] for o in mine) / len(mine)
        rewritten = sum(o["rewritten"] for o in mine)
        lines.append(
            f"{family:18s}"
            + "".join(f"{counts[v] or '':>12}" for v in reversed(VERDICTS))
            + f"{rewritten:>11}{seconds:>9.1f}"
        )
    return lines


def line(o):
    """Return an outcome as a line."""
    return f"{o['seed']}\t{o['family']}\t{o['verdict']}\t{o['message']}"


def main(about=__doc__, judge=judge, groups=list):
    """Judge the seeds that the command line names, and print an outcome a line and the table."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("first", type=int)
    parser.add_argument("end", type=int)
    parser.add_argument("--step", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--keep", help="a folder for the models that are not right")
    parser.add_argument("--lines", help="a file to which a line is added for every model")
    given = parser.parse_args()
    outcomes = []
    for found in judged(groups(range(given.first, given.end, given.step)), given.workers, given.keep, judge):
        outcomes.append(found)
        print(line(found), f"{found['seconds']:.1f} s", sep="\t", flush=True)
        if given.lines:
            with Path(given.lines).open("a") as file:
                print(line(found), file=file)
    print("\n".join(table(outcomes)))


if __name__ == "__main__":
    main()
