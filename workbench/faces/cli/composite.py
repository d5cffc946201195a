"""``workbench composite``: the operators of a file of index notation: list, test and show them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workbench.faces.cli.console import FAILED, reporting_errors, show_table, stop
from workbench.faces.cli.options import writing
from workbench.support.files import write_atomic
from workbench.support.messages import unknown

if TYPE_CHECKING:
    import numpy as np

    from workbench.kernels.composites import Composite

#: The largest relative error of float32 results that a test accepts.
_CLOSE = 1e-4


@reporting_errors
def composite(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A .composite or YAML file, or `library`.")],
    sizes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME=NUMBER]...",
            help="Extents, attributes, and OMP, MARCH, OPT, CC, CONTRACT; ~=2x3 for leading axes.",
        ),
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the composites (the default).")] = False,
    test: Annotated[
        str | None, typer.Option(metavar="NAME", help="Run one on drawn numbers in every way that there is.")
    ] = None,
    emit_c: Annotated[str | None, typer.Option("--emit-c", metavar="NAME", help="Write its C text.")] = None,
    emit_onnx: Annotated[
        str | None, typer.Option("--emit-onnx", metavar="NAME", help="Write its ONNX function.")
    ] = None,
    graph: Annotated[
        Path | None, typer.Option(metavar="FILE.dot", help="Draw the last result of --debug.")
    ] = None,
    debug: Annotated[
        int,
        typer.Option(
            min=0, max=4, help="Print 1 the lowered equations, 2 simplified ones, 3 laws and ONNX, 4 C."
        ),
    ] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Write the result of --test as JSON.")] = False,
) -> None:
    """List the composites of a file, test one, or write its C or its ONNX function."""
    from workbench.kernels.composites.files import library

    found = dict(library()) if str(file) == "library" else _loaded(file)
    chosen = test or emit_c or emit_onnx
    given = {name: value for text in sizes or [] for name, value in _pairs(text)}
    if chosen is None:
        if not debug and graph is None:
            _list(found)
            return
        if len(found) != 1:
            raise ValueError("--debug and --graph need a composite (try --test NAME)")
        chosen = next(iter(found))
    if chosen not in found:
        raise LookupError(unknown("composite", chosen, found))
    one = found[chosen]
    last = _show(one, debug, given)
    if graph is not None:
        from workbench.kernels.composites.files import drawing

        writing(lambda: write_atomic(graph, drawing(last)))
    if emit_c is not None:
        typer.echo(_c_text(one, given), nl=False)
    if emit_onnx is not None:
        from workbench.kernels.composites.onnx_function import function_text

        typer.echo(function_text(one))
    if test is not None:
        _test(one, given, as_json)


def _loaded(file: Path) -> dict[str, Composite]:
    from workbench.kernels.composites.files import library, load

    return load(file, library())


def _pairs(text: str) -> list[tuple[str, str]]:
    """Return the names and the value of ``M=100`` or ``M=N=K=100``."""
    *names, value = text.split("=")
    if not names or not all(names) or not value:
        raise ValueError(f"an extent or an attribute must be NAME=NUMBER, got {text!r}")
    return [(name, value) for name in names]


def _list(found: Mapping[str, Composite]) -> None:
    rows = []
    for c in found.values():
        given = ", ".join(f"{a.name}={a.default:g}" for a in c.attributes)
        rows.append((c.name, " ".join(c.signature.split()), given, c.doc))
    show_table(("composite", "declaration", "attributes", "meaning"), rows)


# -- forms ----------------------------------------------------------------------------------------------
def _show(one: Composite, debug: int, given: Mapping[str, str]) -> Composite:
    """Print the forms up to a level, and return the last one that is a composite."""
    last = one
    if debug >= 1:
        typer.echo(f"-- lowered\n{one}")
    if debug >= 2:
        from workbench.kernels.composites.simplify import simplified

        found = simplified(one, contracted=given.get("CONTRACT") == "1")
        typer.echo(f"-- simplified\n{found}")
        last = found.composite
    if debug >= 3:
        from workbench.kernels.composites.lowering import NoLaw, laws
        from workbench.kernels.composites.onnx_function import function_text

        try:
            typer.echo(f"-- laws\n{laws(one)}", nl=False)
        except NoLaw as error:
            typer.echo(f"-- laws\nnone: {error}")
        typer.echo(f"-- ONNX\n{function_text(one)}")
    if debug >= 4:
        typer.echo(f"-- C\n{_c_text(last, given)}", nl=False)
    return last


def _c_text(one: Composite, given: Mapping[str, str]) -> str:
    from workbench.kernels.codegen.kernel import emitted
    from workbench.ops.types import TensorType

    operands, attributes = _drawn(one, {**_usual(one), **given})
    return emitted(one, [TensorType.of(x) for x in operands], attributes)


def _usual(one: Composite) -> dict[str, str]:
    """Return an extent for every name: the text does not depend on it."""
    from workbench.kernels.composites.index import extent_names

    names = {n for t in one.inputs for d in t.dims for n in extent_names(d)} - set(one.defaults)
    return dict.fromkeys(sorted(names), "16") | {"~": "4"}


# -- a test -----------------------------------------------------------------------------------------------
#: Each way is timed this often.
_ROUNDS = 7

#: The way of a kernel on one thread, next to several.
_SINGLE = "C, 1 thread"

_OPTIONS = ("OMP", "MARCH", "OPT", "CC", "CONTRACT")


def _drawn(one: Composite, given: Mapping[str, str]) -> tuple[list[np.ndarray], dict[str, int | float]]:
    """Return operands of drawn numbers, and the attributes."""
    import numpy as np

    from workbench.kernels.composites.index import computed, extent_names

    attributes: dict[str, int | float] = dict(one.defaults)
    extents: dict[str, int] = {}
    leading: tuple[int, ...] = (2,)
    known = {n for t in one.inputs for d in t.dims for n in extent_names(d)}
    for name, value in given.items():
        if name == "~":
            leading = tuple(_whole(name, v) for v in value.split("x"))
        elif name in attributes:
            attributes[name] = (
                _whole(name, value) if isinstance(attributes[name], int) else _real(name, value)
            )
        elif name in known:
            extents[name] = _whole(name, value)
        elif name not in _OPTIONS:
            raise LookupError(unknown("extent or attribute", name, [*sorted(known), *attributes, "~"]))
    extents |= {n: int(v) for n, v in attributes.items() if isinstance(v, int)}
    missing = sorted(known - set(extents))
    if missing:
        raise ValueError(f"{one.name} needs the extents {', '.join(missing)} (try {missing[0]}=16)")
    rng = np.random.default_rng(0)
    least = min((computed(d, extents) for t in one.inputs for d in t.dims), default=1)
    operands: list[np.ndarray] = []
    for t in one.inputs:
        shape = (leading if t.leading else ()) + tuple(computed(d, extents) for d in t.dims)
        if "int" in t.dtype:
            operands.append(rng.integers(0, least, shape, dtype=t.dtype))
        else:
            dtype = "float32" if t.dtype[0].isupper() else t.dtype
            operands.append(rng.uniform(-1, 1, shape).astype(dtype))
    return operands, attributes


def _whole(name: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise ValueError(f"{name} must be a whole number, got {value!r}") from None


def _real(name: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise ValueError(f"{name} must be a number, got {value!r}") from None


def _test(one: Composite, given: Mapping[str, str], as_json: bool) -> None:
    import numpy as np

    from workbench.kernels.composites import bind
    from workbench.kernels.composites.evaluate import evaluate, operations
    from workbench.ops.types import TensorType, TypeMismatch

    operands, attributes = _drawn(one, given)
    exact = [x.astype(np.float64) if x.dtype == np.float32 else x for x in operands]
    try:
        binding = bind(one, [TensorType.of(x) for x in operands], attributes)
    except TypeMismatch as misfit:
        raise ValueError(str(misfit)) from None
    try:
        wanted = np.asarray(evaluate(one, exact, **attributes), np.float64)
    except TypeError:  # an operand is declared in float32
        wanted = np.asarray(evaluate(one, operands, **attributes), np.float64)
    rows: list[dict[str, Any]] = []
    runs: dict[str, Callable[[], Any]] = {}
    for way, run in _ways(one, operands, attributes, given):
        if isinstance(run, str):
            rows.append({"way": way, "error": None, "seconds": None, "note": run})
            continue
        found = np.asarray(run(), np.float64)
        scale = max(float(np.max(np.abs(wanted), initial=0.0)), 1e-30)
        fits = found.shape == wanted.shape
        error = float(np.max(np.abs(found - wanted), initial=0.0)) / scale if fits else np.inf
        rows.append({"way": way, "error": error, "seconds": None, "note": ""})
        runs[way] = run
    seconds = _seconds(runs)
    for row in rows:
        if row["way"] in seconds:
            row["seconds"] = seconds[row["way"]]
            row["note"] = _speed(row["way"], seconds, operations(binding))
    if as_json:
        shapes = {t.name: list(x.shape) for t, x in zip(one.inputs, operands, strict=True)}
        typer.echo(json.dumps({"composite": one.name, "operands": shapes, "ways": rows}))
    else:
        show_table(
            ("way", "relative error to float64", "seconds", "speed or reason"),
            [
                (
                    r["way"],
                    "-" if r["error"] is None else f"{r['error']:.2g}",
                    "-" if r["seconds"] is None else f"{r['seconds']:.3g}",
                    r["note"],
                )
                for r in rows
            ],
        )
    wrong = [r["way"] for r in rows if r["error"] is not None and not r["error"] <= _CLOSE]
    if wrong:
        stop(FAILED, f"{one.name} is wrong in {', '.join(wrong)}")


def _seconds(runs: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """Return the least time of each way; the ways run in alternation, the products of numpy on one thread."""
    from workbench.support.machine import blas_threads

    taken: dict[str, list[float]] = {way: [] for way in runs}
    with blas_threads(1):
        for _ in range(_ROUNDS):
            for way, run in runs.items():
                taken[way].append(_timed(run))
    return {way: min(times) for way, times in taken.items()}


def _speed(way: str, seconds: Mapping[str, float], work: float) -> str:
    """Return the speed of a way, of C also relative to numpy and of several threads to one."""
    own = max(seconds[way], 1e-12)
    said = f"{work / own / 1e9:.3g} GFLOP/s"
    if way in ("C", _SINGLE):
        said += f", {seconds['numpy'] / own:.0%} of numpy's speed"
    if way == "C" and _SINGLE in seconds:
        said += f", {seconds[_SINGLE] / own:.2f}× of one thread"
    return said


def _timed(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def _ways(
    one: Composite, operands: list[np.ndarray], attributes: Mapping[str, Any], given: Mapping[str, str]
) -> Iterator[tuple[str, Callable[[], Any] | str]]:
    """Yield the ways to compute a composite: a function each, or the reason why there is none."""
    from workbench.kernels.codegen.c_expressions import NoKernel
    from workbench.kernels.codegen.compiler import CompilationFailed, CompilerMissing, build_from
    from workbench.kernels.codegen.kernel import kernel
    from workbench.kernels.composites.evaluate import evaluate
    from workbench.kernels.composites.onnx_function import session
    from workbench.ops.types import TensorType

    options = {name: given[name] for name in _OPTIONS if name in given}
    threads = _whole("OMP", options.get("OMP", "1"))
    yield "numpy", lambda: evaluate(one, operands, **attributes)
    try:
        yield "ONNX Runtime", session(one, operands, attributes, max(threads, 1))
    except Exception as error:  # the runtime's message about a kernel that it lacks
        yield "ONNX Runtime", shorten(str(error).partition("\n")[0], 120, placeholder=" …")
    try:
        types = [TensorType.of(x) for x in operands]
        if "OMP" in options:
            options["OMP"] = str(int(threads > 0))
        built = kernel(one, types, attributes, build=build_from(options or None))
        if threads > 1:
            yield _SINGLE, lambda: built(*operands, threads=1)[0]
        yield "C", lambda: built(*operands, threads=max(threads, 1))[0]
    except (CompilerMissing, CompilationFailed, NoKernel) as error:
        yield "C", shorten(str(error).partition("\n")[0], 120, placeholder=" …")
