"""Certificate of two model files of any origin: from the files to the first tensor that differs."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from onnx import FunctionProto, ModelProto, TensorProto, helper

from workbench.certification import inputs, tolerance, unrunnable_ops
from workbench.certification.bisect import Located, Region, Side, locate
from workbench.certification.certificate import Certificate, Difference, Piece
from workbench.certification.inputs import Draw
from workbench.certification.model import BINDINGS, Interface, Model, bindings, bound, compare, type_of
from workbench.certification.runner import Loaded, Runner, machine_memory
from workbench.certification.tolerance import Mismatch
from workbench.frontends.model import ModelError
from workbench.frontends.onnx.file import MAP_BEYOND, Source, taken_apart, write_apart
from workbench.frontends.onnx.opaque import rename
from workbench.frontends.onnx.prepare import read_by
from workbench.frontends.runtime import RuntimeFailure
from workbench.ops.types import DTYPE_CODES, DTYPE_NAMES, FLOAT_DTYPES, TensorType
from workbench.support.deadline import OutOfTime
from workbench.support.files import check_writable

#: The time limits of the whole comparison and of one run of a model, in seconds.
SECONDS: Final = 600.0
RUN_SECONDS: Final = 120.0

Progress = Callable[[str], None]


def certify_files(
    a: Source,
    b: Source,
    *,
    dims: Mapping[str, int] | None = None,
    draws: int = len(inputs.KINDS),
    seed: int = 0,
    seconds: float = SECONDS,
    run_seconds: float = RUN_SECONDS,
    memory: int | None = None,
    repro: str | Path | None = None,
    inside: bool = True,
    progress: Progress | None = None,
) -> Certificate:
    """Compare model B with its original A on random inputs; no operator is translated.

    Both models run in ONNX Runtime with its optimiser off, in a separate process. Outputs may differ by as
    much as the original's own rounding explains. If they differ by more, the first tensor that differs is
    located.

    Args:
        a: The original model.
        b: The model that is compared with it.
        dims: Sizes of symbolic dimensions; each other one is bound to several sizes in turn.
        draws: The number of random inputs for the first binding of the dimensions, at least 1.
        seed: The seed of the random inputs.
        seconds: The time limit of the whole comparison.
        run_seconds: The time limit of one run.
        memory: The memory limit of the process in bytes; by default three quarters of the machine's.
        repro: A file for a small model that shows the difference.
        inside: Whether inner values are compared even if the outputs agree, since saturated outputs can
            hide differences.
        progress: Called with a line of text before each step.

    Raises:
        OSError: A file cannot be read or written.
        ModelError: The models cannot be compared: a file is not an ONNX model, the original does not run,
            or a limit was exceeded. (:class:`~workbench.frontends.model.ModelError`)
        ValueError: A limit is not positive, ``draws`` is below 1, or ``dims`` names an unknown dimension.
    """
    if draws < 1:
        raise ValueError(f"draws must be at least 1, got {draws}")
    if seconds <= 0 or run_seconds <= 0:
        raise ValueError(f"time limits must be positive, got {min(seconds, run_seconds):g}")
    began = time.monotonic()
    target = check_writable(repro) if repro is not None else None
    say = progress or (lambda _: None)
    say("reading both models")
    with (
        tempfile.TemporaryDirectory(prefix="workbench-certify-") as folder,
        Runner(
            seconds=run_seconds,
            memory=machine_memory() if memory is None else memory,
            deadline=began + seconds,
        ) as runner,
    ):
        first = _read(a, Path(folder) / "a.onnx")
        second = _read(b, Path(folder) / "b.onnx")
        try:
            found = _Task(first, second, dims, draws, seed, runner, target, inside, say).run()
        except OutOfTime:
            raise ModelError(f"the comparison did not finish within {seconds:g} s; allow more time") from None
    return replace(found, seconds=time.monotonic() - began)


def _read(source: Source, path: Path) -> Model:
    """Read a model; write a large one that is in memory to ``path`` first, so that its weights stay there."""
    if isinstance(source, ModelProto) and source.ByteSize() >= MAP_BEYOND:
        source = source.SerializeToString()
    if not isinstance(source, bytes) or len(source) < MAP_BEYOND:
        return Model.read(source)
    path.write_bytes(source)
    model = Model.read(path)
    model.name = "the model"
    return model


@dataclass(eq=False)
class _Task:
    """One comparison of two files: its settings and its findings so far."""

    a: Model
    b: Model
    dims: Mapping[str, int] | None
    count: int
    seed: int
    runner: Runner
    repro: Path | None
    inside: bool
    say: Progress
    done: list[Draw] = field(default_factory=list)
    #: Draws of extreme values, each with runs of A, of which the first is of A as it is.
    far: list[tuple[Draw, list[dict[str, Any]]]] = field(default_factory=list)
    extreme: str = ""
    error: float = 0.0
    own: float = 0.0
    noise: list[str] = field(default_factory=list)
    tolerance: str = ""
    apart: unrunnable_ops.Apart = field(default_factory=unrunnable_ops.Apart)

    def __post_init__(self) -> None:
        self.names = self.a.name, self.b.name
        self.interface: Interface = compare(self.a, self.b)
        self.near = inputs.thresholds_of(self.a)
        self.bindings, self.large, self.beside = bindings(self.interface, self.dims, self.near)
        self.notes: list[str] = list(self.interface.notes)

    def run(self) -> Certificate:
        """Compare the interfaces, then the outputs, and locate the first difference."""
        if self.interface.problems:
            return self._result("; ".join(self.interface.problems))
        self.say("loading both models")
        operators = self._loaded()
        try:
            self.apart = unrunnable_ops.set_apart(self.a, self.b, operators)
        except unrunnable_ops.CannotPair as why:
            return self._result(str(why))
        self.notes += self.apart.notes
        self._take_apart()
        expected = self._originals()
        moved = self._moved(expected)
        return self._compared(expected, moved)

    def _loaded(self) -> set[tuple[str, str]]:
        operators: set[tuple[str, str]] = set()
        for label, model in (("A", self.a), ("B", self.b)):
            try:
                operators |= unrunnable_ops.unrunnable(model, self.runner)
            except RuntimeFailure as failure:
                raise ModelError(f"{label} ({model.name}) does not load in ONNX Runtime: {failure}") from None
        return operators

    def _take_apart(self) -> None:
        """Make the results of nodes that are not run inputs of both models, and their operands outputs."""
        self.watched = [(n, n) for n in self.a.outputs if n in self.b.outputs]
        self.watched += [pair for pair in self.apart.read if pair not in self.watched]
        if self.apart.pairs:
            shapes = {n: bound(self.interface.shapes.get(n), self.bindings[0]) for n in self.a.inputs}
            given = unrunnable_ops.drawn_results(self.apart, self.a, shapes, "normal", self.seed)
            theirs = {self.apart.given[n]: v for n, v in given.items()}
            ours = [x for x, _ in self.watched]
            self.whole = self.a
            self.a = Model.of(self.a.cut(ours, given), self.a.folder, self.a.name)
            self.b = Model.of(self.b.cut([y for _, y in self.watched], theirs), self.b.folder, self.b.name)

    # -- running ----------------------------------------------------------------------------------
    def _draw(self, binding: Mapping[str, int], number: int, kind: str, limits: Mapping[str, int]) -> Draw:
        model = self.whole if self.apart.pairs else self.a
        known, seed, near = self.interface.shapes, self.seed, self.near
        found = inputs.draw(model, known, binding, limits, number=number, kind=kind, seed=seed, near=near)
        if not self.apart.pairs:
            return found
        shapes = {n: np.shape(v) for n, v in found.feeds.items() if not isinstance(v, list)}
        given = unrunnable_ops.drawn_results(self.apart, self.whole, shapes, kind, self.seed + number)
        return replace(found, feeds={**found.feeds, **given})

    def _originals(self) -> list[dict[str, Any]]:
        """Run A on every draw; if it fails on a draw, repeat that draw with a gentler distribution."""
        outputs = [x for x, _ in self.watched]
        loaded = self.runner.load(self.a.cut(outputs), self.a.folder)
        results: list[dict[str, Any]] = []
        why = ""
        running = 0
        for binding in (*self.bindings, *self.large, *self.beside):
            if running >= BINDINGS and binding not in self.beside:
                continue
            if binding in self.large and any(drawn.binding in self.bindings for drawn in self.done):
                continue
            shapes = {n: bound(self.interface.shapes.get(n), binding) for n in self.a.inputs}
            limits = inputs.index_limits_of(self.a, shapes)
            planned = (inputs.KINDS[i % len(inputs.KINDS)] for i in range(self.count if not running else 1))
            before = len(results)
            for kind in planned:
                for attempt in (kind, *inputs.GENTLER):
                    drawn = self._draw(binding, len(self.done), attempt, limits)
                    self.say(f"running A on {drawn}")
                    try:
                        results.append(self.runner.run(loaded, self._fed(self.a, drawn)))
                    except RuntimeFailure as failure:
                        if failure.late:
                            raise ModelError(f"A ({self.names[0]}) {failure} on {drawn}") from None
                        why = f"on {drawn}: {failure}"
                        continue
                    if attempt != kind:
                        self.notes.append(
                            f"A fails on {kind} inputs ({why}); {attempt} ones were drawn instead"
                        )
                    self.done.append(drawn)
                    break
                else:
                    break
            if len(results) > before:
                running += 1
            elif binding and binding not in self.beside:
                sizes = ", ".join(f"{n}={s}" for n, s in binding.items())
                self.notes.append(f"A does not run with {sizes}")
        for kind in inputs.EXTREME if results else ():
            drawn = self._draw(self.done[0].binding, len(self.done) + len(self.far), kind, {})
            with contextlib.suppress(RuntimeFailure):
                self.far.append((drawn, [self.runner.run(loaded, self._fed(self.a, drawn))]))
        self.runner.drop(loaded)
        if not results:
            raise ModelError(f"A ({self.names[0]}) does not run on any inputs that were drawn: {why}")
        return results

    def _fed(self, model: Model, drawn: Draw) -> dict[str, Any]:
        if model is self.a:
            return {n: drawn.feeds[n] for n in model.inputs}
        back = {theirs: ours for ours, theirs in self.apart.given.items()}
        return {n: drawn.feeds[back.get(n, n)] for n in model.inputs}

    def _moved(self, expected: Sequence[Mapping[str, Any]]) -> list[list[dict[str, Any]]]:
        """Run copies of A whose operands are changed by units of their last place."""
        runs: list[list[dict[str, Any]]] = [[] for _ in expected]
        outputs = [x for x, _ in self.watched]
        small = min((np.size(v) for v in expected[0].values() if not isinstance(v, list)), default=0) < 64
        self.types = self._types()
        why = ""
        for turn in range(6 if small else 2):
            model = tolerance.moved_model(self.a, self.types, outputs, self.seed + 1 + 1000 * turn)
            if model is None:
                break
            try:
                loaded = self.runner.load(model, self.a.folder)
                for run, drawn in zip(runs, self.done, strict=True):
                    self.say(f"measuring A's own rounding on {drawn}")
                    run.append(self.runner.run(loaded, self._fed(self.a, drawn)))
                for drawn, far in self.far:
                    far.append(self.runner.run(loaded, self._fed(self.a, drawn)))
                self.runner.drop(loaded)
            except RuntimeFailure as failure:
                why = str(failure)
                runs = [[] for _ in expected]
                break
        self.tolerance = "the movement of A's outputs when its operands move by units of their last place"
        if not runs[0]:
            used = (f"{tolerance.STATED[d]:g} in {d}" for d in sorted({*self.types.values()} & FLOAT_DTYPES))
            self.tolerance = f"relative to rows and columns: {', '.join(used) or 'none'}"
            if why:
                self.notes.append(
                    f"A's own rounding could not be measured ({why}): the stated tolerance holds"
                )
        return runs

    def _types(self) -> dict[str, str]:
        """Return the known element types of A's values, by name."""
        drawn = self.done[0].feeds
        shapes = {n: np.shape(v) for n, v in drawn.items() if not isinstance(v, list)}
        types = {n: t for n, (t, _) in inputs.inferred(self.a, shapes).items()}
        for value in self.a.proto.graph.value_info:
            if value.type.WhichOneof("value") == "tensor_type":
                types.setdefault(value.name, DTYPE_NAMES.get(value.type.tensor_type.elem_type, ""))
        return types

    # -- comparing --------------------------------------------------------------------------------
    def _compared(
        self, expected: Sequence[Mapping[str, Any]], moved: Sequence[Sequence[Mapping[str, Any]]]
    ) -> Certificate:
        names = [y for _, y in self.watched]
        loaded = self.runner.load(self.b.cut(names), self.b.folder)
        shown: list[tuple[int, str, str, Mismatch]] = []
        shares = {
            x: tolerance.shares_of([e[x] for e in expected], [[r[x] for r in runs] for runs in moved])
            for x, _ in self.watched
        }
        for number, drawn in enumerate(self.done):
            self.say(f"running B on {drawn}")
            try:
                found = self.runner.run(loaded, self._fed(self.b, drawn))
            except RuntimeFailure as failure:
                return self._result(f"B ({self.names[1]}) fails on {drawn}, A does not: {failure}")
            for ours, theirs in self.watched:
                values = [run[ours] for run in moved[number]]
                at = tolerance.mismatch(expected[number][ours], found[theirs], values, shares[ours])
                if at is not None:
                    shown.append((number, ours, theirs, at))
                    continue
                self.error = max(self.error, _apart(expected[number][ours], found[theirs]))
                self.own = max([self.own, *(_apart(expected[number][ours], v) for v in values)])
                entry = expected[number][ours], found[theirs], values
                coarse = tolerance.is_coarse(self.a, ours)
                if ours not in self.noise and tolerance.is_noise(*entry, coarse=coarse):
                    self.noise.append(ours)
            if shown:
                break
        for drawn, (value, *runs) in () if shown or self.noise else self.far:
            self.say(f"running B on {drawn}")
            self.extreme = self.extreme or self._lost(loaded, drawn, value, runs)
        self.runner.drop(loaded)
        if shown:
            return self._located(shown)
        if self.noise:
            why = "moves by as much as it is large when A's operands move by units of their last place"
            noisy = ", ".join(map(repr, self.noise[:3]))
            return self._result(f"{noisy} of A {why}, and of B differs by more than rounding", undecided=True)
        return self._inside() if self.inside else self._result("")

    def _lost(
        self, loaded: Loaded, drawn: Draw, expected: Mapping[str, Any], moved: Sequence[Mapping[str, Any]]
    ) -> str:
        """Return what B loses on extreme values and A does not, in words."""
        try:
            found = self.runner.run(loaded, self._fed(self.b, drawn))
        except RuntimeFailure as failure:
            return f"B ({self.names[1]}) fails on {drawn}, A does not: {failure}"
        for ours, theirs in self.watched:
            at = tolerance.lost(expected[ours], found[theirs], [run[ours] for run in moved])
            if at is not None:
                values = at.what or f"{at.expected:.9g} in A, {at.found:.9g} in B at {list(at.index)}"
                return f"{ours!r}: {values}; {drawn}"
        return ""

    def _inside(self) -> Certificate:
        """Compare the values inside the models, after their outputs agreed."""
        self.say("the outputs agree: looking inside")
        sides = self._sides([0], *(list(names) for names in zip(*self.watched, strict=True)))
        try:
            located = self._search(*sides, hidden=True)
        except (RuntimeFailure, OutOfTime) as failure:
            self.notes.append(f"the values inside the models were not compared: {failure}")
            return self._result("")
        if located is None:
            return self._result("")
        return self._told(located, [0], (), "the outputs agree on these draws; ")

    def _search(self, a: Side, b: Side, *, hidden: bool = False) -> Located | None:
        return locate(a, b, self.runner, types=self.types, seed=self.seed, progress=self.say, hidden=hidden)

    def _sides(self, draws: Sequence[int], ours: Sequence[str], theirs: Sequence[str]) -> tuple[Side, Side]:
        a, b = (
            Side(model, tuple(self._fed(model, self.done[i]) for i in draws), names[0], tuple(names[1:]))
            for model, names in ((self.a, ours), (self.b, theirs))
        )
        return a, b

    def _located(self, shown: Sequence[tuple[int, str, str, Mismatch]]) -> Certificate:
        number, ours, theirs, at = shown[0]
        self.say("the outputs differ: looking for the first tensor that does")
        chosen = [number, *(i for i in range(len(self.done)) if i != number)][:2]
        same = [i for i in chosen if self.done[i].binding == self.done[number].binding]
        sides = self._sides(same, [ours], [theirs])
        located: Located | None = None
        try:
            located = self._search(*sides)
        except RuntimeFailure as failure:
            self.notes.append(f"the values inside the models could not be compared: {failure}")
        outputs = tuple(dict.fromkeys(name for _, name, _, _ in shown))
        if located is None:
            entry = at.index, at.expected, at.found, at.tolerance
            difference = Difference(ours, theirs, *entry, str(self.done[number]), outputs, at.what)
            return self._result(_reason(difference), difference)
        return self._told(located, same, outputs)

    def _told(
        self, located: Located, draws: Sequence[int], outputs: tuple[str, ...], before: str = ""
    ) -> Certificate:
        """Return the outcome for a located difference, and write the small model that shows it if asked."""
        found, matched = located.at, located.confirmed or located.a.output in outputs
        difference = Difference(
            tensor=located.a.output,
            counterpart=located.b.output,
            index=found.index,
            expected=found.expected,
            found=found.found,
            tolerance=found.tolerance,
            draw=str(self.done[draws[located.draw]]),
            outputs=outputs,
            what=found.what,
            a=_piece(located.a),
            b=_piece(located.b),
            weights=tuple(differing_weights(located)),
            located="" if matched else "no value inside the region could be matched with one of B",
        )
        files: list[str] = []
        if self.repro is not None:
            files, said = write_repro(located, self.repro, self.runner)
            self.notes.append(f"{' and '.join(files)}: {said}")
        return self._result(before + _reason(difference), difference, tuple(files))

    def _result(
        self,
        reason: str,
        difference: Difference | None = None,
        repro: tuple[str, ...] = (),
        *,
        undecided: bool = False,
    ) -> Certificate:
        import onnxruntime

        return Certificate(
            passed=not reason,
            undecided=undecided,
            draws=len(self.done),
            seed=self.seed,
            arithmetic="as saved",
            error=self.error,
            deployed_error=self.error,
            outputs=tuple(self.a.outputs),
            reason=reason,
            own_rounding=self.own,
            whole=f"onnxruntime {onnxruntime.__version__}, optimiser off",
            files=self.names,
            drawn=tuple(map(str, self.done)),
            allowed=self.tolerance,
            notes=tuple(self.notes),
            extreme=self.extreme,
            difference=difference,
            repro=repro,
        )


def _reason(difference: Difference) -> str:
    first, values, *_ = difference.lines()
    return f"{first.removeprefix('first tensor that differs: ')}: {values.strip()}"


def _apart(expected: Any, found: Any) -> float:
    """Return the largest difference of two values relative to the largest entry; 0 if they are not floats."""
    if not isinstance(expected, np.ndarray) or TensorType.of(expected).dtype not in FLOAT_DTYPES:
        return 0.0
    x, y = expected.astype(np.float64), np.asarray(found).astype(np.float64)
    usable = np.isfinite(x) & np.isfinite(y)
    return tolerance.difference(np.where(usable, x, 0.0), np.where(usable, y, 0.0))[0]


def _piece(region: Region) -> Piece:
    operators = tuple(map(unrunnable_ops.operator_name, region.nodes))
    return Piece(operators, tuple(n.name for n in region.nodes), region.inputs, region.output)


# -- small models that show a difference: the pieces of A and of B side by side on the same values -----
def write_repro(located: Located, path: Path, runner: Runner) -> tuple[list[str], str]:
    """Write the differing pieces to one file, or to two if their operator sets are incompatible.

    The values that show the difference are defaults of the inputs, so the file runs without inputs. The
    outputs are called ``a`` and ``b``. Return the files and a sentence on the result of running them. Raise
    OSError if they cannot be written.
    """
    a = _cut(located.a, "a", {n: n for n in located.a.inputs})
    b = _cut(located.b, "b", dict(located.equal))
    models = {path: [a, b]}
    if not _together(a, b):
        models = {path.with_name(f"{path.stem}.{n}{path.suffix}"): [p] for n, p in (("a", a), ("b", b))}
    found: dict[str, Any] = {}
    said = "run by itself it shows the difference"
    for target, pieces in models.items():
        model = _model(pieces, located.values)
        try:
            found |= runner.once(model, None, {}, [o.name for o in model.graph.output])
        except RuntimeFailure as failure:
            said = f"run by itself it fails: {failure}"
        write_apart(taken_apart(model), target)
    if found.keys() >= {"a", "b"} and tolerance.mismatch(found["a"], found["b"], ()) is None:
        said = "run by itself its outputs agree within the stated tolerance: the models differ by less"
    return [str(target) for target in models], said


def _cut(region: Region, side: str, names: Mapping[str, str]) -> ModelProto:
    """Return a region as a model with inner names prefixed by the side and an output called like the side."""
    source = region.side.model
    feeds = region.side.feeds[0]
    given = {n: feeds.get(n, np.zeros(1, np.float32)) for n in region.inputs}
    piece = source.cut([region.output], given, nodes=region.nodes)
    graph = piece.graph
    inside = {o for n in graph.node for o in n.output if o} | {t.name for t in graph.initializer}
    inside |= {t.values.name for t in graph.sparse_initializer}
    renamed = {n: f"{side}/{n}" for n in inside} | dict(names)
    for node in graph.node:
        rename(node, renamed)
        node.name = f"{side}/{node.name}" if node.name else ""
    for tensor in graph.initializer:
        if tensor.data_location == TensorProto.EXTERNAL:
            array = source.weight(tensor.name)
            assert array is not None
            tensor.CopyFrom(onnx.numpy_helper.from_array(np.array(array), tensor.name))
        tensor.name = renamed[tensor.name]
    for sparse in graph.sparse_initializer:
        sparse.values.name = renamed[sparse.values.name]
    graph.node.append(helper.make_node("Identity", [renamed.get(region.output, region.output)], [side]))
    del graph.input[:]
    del graph.output[:]
    graph.output.append(onnx.ValueInfoProto(name=side))
    return piece


def _domains(model: ModelProto) -> dict[str, int]:
    nodes = chain(model.graph.node, *(f.node for f in model.functions))
    used = {_short(n.domain) for n in nodes} | {""}
    return {_short(o.domain): o.version for o in model.opset_import if o.domain in used}


def _short(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def _named(model: ModelProto) -> dict[tuple[str, str, str], FunctionProto]:
    return {(f.domain, f.name, f.overload): f for f in model.functions}


def _together(a: ModelProto, b: ModelProto) -> bool:
    """Return whether two pieces fit into one file: equal operator sets and no functions that clash."""
    first, second = _domains(a), _domains(b)
    if any(first[d] != second[d] for d in first.keys() & second.keys()):
        return False
    ours, theirs = _named(a), _named(b)
    return all(ours[name] == theirs[name] for name in ours.keys() & theirs.keys())


def _model(pieces: list[ModelProto], values: Mapping[str, Any]) -> ModelProto:
    """Return pieces as one model; the values that show the difference are the defaults of its inputs."""
    model = ModelProto()
    model.ir_version = max(p.ir_version for p in pieces)
    versions: dict[str, int] = {}
    for piece in pieces:
        versions |= _domains(piece)
        known = _named(model)
        model.functions.extend(f for name, f in _named(piece).items() if name not in known)
    model.opset_import.extend(helper.make_opsetid(d, v) for d, v in versions.items())
    model.producer_name = "tamago workbench"
    model.doc_string = (
        "The place at which two models diverge: output a as in A, output b as in B, on the same values."
    )
    graph = model.graph
    graph.name = "difference"
    reads: set[str] = set()
    for piece in pieces:
        graph.node.extend(piece.graph.node)
        graph.initializer.extend(piece.graph.initializer)
        graph.sparse_initializer.extend(piece.graph.sparse_initializer)
        graph.output.extend(piece.graph.output)
        reads |= {name for node in piece.graph.node for name in read_by(node)}
    for name, value in values.items():
        if name in reads:
            kind = type_of(value)
            if not isinstance(value, list):
                array = np.asarray(value)
                kind = helper.make_tensor_type_proto(DTYPE_CODES[TensorType.of(array).dtype], array.shape)
                graph.initializer.append(onnx.numpy_helper.from_array(array, name))
            graph.input.append(helper.make_value_info(name, kind))
    return model


def differing_weights(located: Located) -> list[str]:
    """Return one line for each weight that both pieces read under the same name and that differs."""
    lines = []
    first = {n for node in located.a.nodes for n in read_by(node)} & set(located.a.side.model.weights)
    second = {n for node in located.b.nodes for n in read_by(node)} & set(located.b.side.model.weights)
    for name in sorted(first & second):
        x, y = located.a.side.model.weight(name), located.b.side.model.weight(name)
        if x is None or y is None:
            continue
        if TensorType.of(x) != TensorType.of(y):
            lines.append(f"weight {name!r} is {TensorType.of(x)} in A, {TensorType.of(y)} in B")
            continue
        with np.errstate(all="ignore"):
            wrong = np.argwhere((x != y) & ~((x != x) & (y != y)))
        if len(wrong):
            at = tuple(int(i) for i in wrong[0])
            more = f", and {len(wrong) - 1} more of {x.size}" if len(wrong) > 1 else ""
            lines.append(f"weight {name!r} is {x[at]:.9g} in A, {y[at]:.9g} in B at {list(at)}{more}")
    return lines
