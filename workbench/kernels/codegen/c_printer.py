"""The C text of a program under a schedule: scalar and index expressions, and the loops around them."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Final

import numpy as np

from workbench.kernels.codegen import schedule as schedules
from workbench.kernels.composites import expressions as ix
from workbench.kernels.composites.composite import Equation, Tensor

#: The C type of an element type, and the ending of its functions' names.
C_TYPES: Final[Mapping[str, str]] = {
    "float32": "float",
    "float64": "double",
    "float16": "uint16_t",
    "bfloat16": "uint16_t",
    "int8": "int8_t",
    "uint8": "uint8_t",
    "int16": "int16_t",
    "int32": "int32_t",
    "int64": "int64_t",
    "bool": "uint8_t",
}
SUFFIXES: Final = {"float32": "f32", "float64": "f64"}

#: Element types that are stored as bits: the functions that read and write them as float32.
_STORED: Final = {"float16": ("from_f16", "to_f16"), "bfloat16": ("from_bf16", "to_bf16")}

#: Functions as C: ``{0}`` is the first operand, ``{t}`` the ending of a name, ``{f}`` that of the C library.
_FORMS: Final[Mapping[str, str]] = {
    "add": "({0} + {1})",
    "sub": "({0} - {1})",
    "mul": "({0} * {1})",
    "div": "({0} / {1})",
    "fma": "fma{f}({0}, {1}, {2})",
    "pow": "pow{f}({0}, {1})",
    "max": "larger_{t}({0}, {1})",
    "min": "smaller_{t}({0}, {1})",
    "neg": "(-{0})",
    "abs": "fabs{f}({0})",
    "floor": "floor{f}({0})",
    "sqrt": "sqrt{f}({0})",
    "less": "({0} < {1})",
    "atmost": "({0} <= {1})",
    "equal": "({0} == {1})",
    "and": "({0} & {1})",
    "or": "({0} | {1})",
    "not": "(!{0})",
    "where": "({0} ? {1} : {2})",
}

#: Those of whole numbers that are others.
_WHOLE_FORMS: Final[Mapping[str, str]] = {
    "max": "({0} > {1} ? {0} : {1})",
    "min": "({0} < {1} ? {0} : {1})",
    "fma": "({0} * {1} + {2})",
    "abs": "({0} < 0 ? -{0} : {0})",
}

#: Functions whose second operand is a number, not a value that may be NaN; and the operand that does nothing.
_LIMITS: Final[Mapping[str, tuple[str, float]]] = {
    "max": ("at_least_{t}({0}, {1})", math.inf),
    "min": ("at_most_{t}({0}, {1})", -math.inf),
}

#: Powers that are products or roots.
_POWERS: Final[Mapping[float, str]] = {
    2.0: "square_{t}({0})",
    3.0: "cube_{t}({0})",
    0.5: "sqrt{f}({0})",
    -1.0: "(1 / {0})",
    1.0: "{0}",
}

#: Words that a C text uses, which no variable may be called.
_WORDS: Final = """
    auto break case char const continue default do double else enum extern float for goto if inline int long
    register restrict return short signed sizeof static struct switch typedef union unsigned void volatile
    while threads width sums c r NAN INFINITY exp log tanh erf sin cos pow sqrt floor y0 y1 yn j0 j1 jn gamma
    free storage fma powf sqrtf floorf fabs fabsf fmaf memcpy aligned_alloc copysignf floored remainder_of
    INLINE DOMAIN OPERATORS INPUTS REQUIRED NULL size_t uint8_t int8_t int16_t uint16_t int32_t uint32_t
    int64_t
"""
_TAKEN: Final = frozenset(_WORDS.split())

#: How names of functions in a text end, which no variable's does.
_ENDINGS: Final = ("_", "_f32", "_f64", "_f16", "_bf16")


class NoKernel(NotImplementedError):
    """Raised when a composite has no form in C; the message names the element type or the function."""


def named(name: str) -> str:
    """Return the C name of an index, an extent, an attribute or an array; generated names end in _."""
    return f"{name}_" if name in _TAKEN or name.endswith(_ENDINGS) else name


def entry(program: schedules.Program) -> str:
    """Return the name of a program's function in C, which no function of the C library has."""
    return f"{program.name}_kernel"


@dataclass(slots=True)
class Scope:
    """The names at one place of a text: values that variables hold, and how arrays are addressed.

    ``values`` maps expressions to variables. ``places`` maps the name of an array to a function of the
    expression that reads it, for arrays that do not lie in memory as declared.
    """

    program: schedules.Program
    values: dict[ix.Scalar, str] = field(default_factory=dict)
    places: dict[str, Callable[[ix.Read], str]] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)

    def inside(self) -> Scope:
        """Return a copy for an inner block."""
        return Scope(self.program, dict(self.values), dict(self.places), dict(self.renamed))

    @property
    def kind(self) -> str:
        """Return the C type in which the program computes."""
        return c_type(self.program.computed)


def c_type(dtype: str) -> str:
    """Return the C type of an element type; raise :class:`NoKernel` if there is none."""
    if dtype not in C_TYPES:
        raise NoKernel(f"kernels in C have the element types {', '.join(C_TYPES)}, got {dtype}")
    return C_TYPES[dtype]


def whole(e: ix.IndexExpr, scope: Scope) -> str:
    """Return an index expression as C."""
    match e:
        case ix.Whole(value):
            return str(value)
        case ix.IndexName(name):
            return scope.renamed.get(name, named(name))
        case ix.ExtentName(name):
            return named(name)
        case ix.IndexArith(op, left, right):
            a, b = whole(left, scope), whole(right, scope)
            if op in ("//", "%"):
                if _positive(left) and _positive(right):
                    return f"({a} {'/' if op == '//' else '%'} {b})"
                return f"{'floored' if op == '//' else 'remainder_of'}({a}, {b})"
            return f"({a} {op} {b})"
        case ix.Read():
            return f"(int64_t){read(e, scope)}"
    raise NoKernel(f"an index must be made of numbers, indices and reads, got {e}")


def _positive(e: ix.IndexExpr) -> bool:
    match e:
        case ix.Whole(value):
            return value >= 0
        case ix.IndexName() | ix.ExtentName():
            return True
        case ix.IndexArith(op, left, right):
            return op != "-" and _positive(left) and _positive(right)
    return False


def flat(dims: tuple[ix.IndexExpr, ...], indices: tuple[ix.IndexExpr, ...]) -> ix.IndexExpr:
    """Return the place of an element in a dense array."""
    place: ix.IndexExpr = indices[0] if indices else ix.Whole(0)
    for dim, index in zip(dims[1:], indices[1:], strict=True):
        place = ix.arith("+", ix.arith("*", place, dim), index)
    return place


def read(e: ix.Read, scope: Scope) -> str:
    """Return a read as C, in the element type of its array."""
    if e.tensor in scope.places:
        return scope.places[e.tensor](e)
    array = scope.program.array(e.tensor)
    return f"{named(e.tensor)}[{bare(whole(flat(array.dims, e.indices), scope))}]"


def loaded(text: str, dtype: str, scope: Scope) -> str:
    """Return an element of an array as a number of the type in which the program computes."""
    if dtype in _STORED:
        text, dtype = f"{_STORED[dtype][0]}({text})", "float32"
    return text if dtype == scope.program.computed else f"({scope.kind}){text}"


def stored(text: str, dtype: str, scope: Scope) -> str:
    """Return a number of the type in which the program computes as an element of an array, rounded once."""
    if dtype == scope.program.computed:
        return bare(text)
    return f"{_STORED[dtype][1]}({bare(text)})" if dtype in _STORED else f"({c_type(dtype)})({bare(text)})"


def bare(text: str) -> str:
    """Return an expression without the brackets around all of it."""
    if not text.startswith("(") or not text.endswith(")"):
        return text
    depth = 0
    for place, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if depth == 0 and place < len(text) - 1:
            return text
    return text[1:-1]


def value(e: ix.Scalar, scope: Scope) -> str:
    """Return a scalar expression as C; reductions must be in the scope's values."""
    if e in scope.values:
        return scope.values[e]
    match e:
        case ix.Number(number):
            return literal(number, scope.program.computed)
        case ix.Parameter(name):
            return named(name)
        case ix.IndexValue(index):
            return f"({scope.kind}){whole(index, scope)}"
        case ix.Read(tensor):
            return loaded(read(e, scope), scope.program.array(tensor).dtype, scope)
        case ix.Apply(
            "div",
            (ix.Number(1.0), ix.Apply("add", (ix.Number(1.0), ix.Apply("exp", (ix.Apply("neg", (x,)),))))),
        ) if scope.program.computed == "float32":
            return f"sigmoid_f32({bare(value(x, scope))})"
        case ix.Apply(function, operands):
            wholes = [w for o in operands if (w := _as_whole(o, scope)) is not None]
            compared = ix.FUNCTIONS[function].truth and len(wholes) == len(operands)
            given = wholes if compared else [value(o, scope) for o in operands]
            suffix = SUFFIXES.get(scope.program.computed, "")
            form = _FORMS.get(function, f"{function}_{{t}}({{0}})")
            if function == "pow" and isinstance(operands[1], ix.Number):
                form = _POWERS.get(operands[1].value, form)
            if function in _LIMITS and isinstance(operands[1], ix.Number | ix.Parameter):
                if operands[1] == ix.Number(-_LIMITS[function][1]):
                    return given[0]
                form = _LIMITS[function][0]
            if not suffix and ("{t}" in form or "{f}" in form):
                if function not in _WHOLE_FORMS:
                    raise NoKernel(f"{function} needs floating-point numbers, got {scope.program.computed}")
                form = _WHOLE_FORMS[function]
            return form.format(*given, t=suffix, f="f" if suffix == "f32" else "")
        case ix.Reduce():
            raise NoKernel(f"a reduction is not at a place at which it can be computed: {e}")
    raise NoKernel(f"no form in C for {e}")


def _as_whole(e: ix.Scalar, scope: Scope) -> str | None:
    """Return a place, or an element of a tensor of whole numbers, as it is; None if it is neither."""
    if isinstance(e, ix.IndexValue):
        return whole(e.value, scope)
    if isinstance(e, ix.Read) and "int" in scope.program.array(e.tensor).dtype:
        return f"(int64_t){read(e, scope)}"
    return None


def literal(number: float, dtype: str) -> str:
    """Return a number as C, rounded to the element type.

    >>> literal(0.1, "float32"), literal(3, "float64"), literal(float("-inf"), "float32")
    ('0.1f', '3.0', '(-INFINITY)')
    """
    if dtype not in SUFFIXES:
        return str(int(number))
    if math.isnan(number):
        return "NAN"
    if math.isinf(number):
        return "INFINITY" if number > 0 else "(-INFINITY)"
    text = str(np.float32(number)) if dtype == "float32" else repr(float(number))
    if math.isinf(float(text)):
        return literal(float(text), dtype)
    text = text if any(c in text for c in ".e") else f"{text}.0"
    text = f"{text}f" if dtype == "float32" else text
    return f"({text})" if text.startswith("-") else text


# -- kernels -------------------------------------------------------------------------------------------
_FUNCTIONS: Final = Path(__file__).with_name("functions.c")

#: The step of a reduction, by the ending of the functions' names.
_FOLDS: Final = {
    "sum": "{0} += {1};",
    "prod": "{0} *= {1};",
    "max": "{0} = larger_{t}({0}, {1});",
    "min": "{0} = smaller_{t}({0}, {1});",
}
_WHOLE_FOLDS: Final = _FOLDS | {
    "max": "{0} = {1} > {0} ? {1} : {0};",
    "min": "{0} = {1} < {0} ? {1} : {0};",
}
_SIGNS: Final = {"sum": "+", "prod": "*", "max": "larger_{t}", "min": "smaller_{t}"}
_WHOLE_SIGNS: Final = _SIGNS | {"max": "max", "min": "min"}


@lru_cache(maxsize=512)
def c_text(program: schedules.Program, schedule: schedules.Schedule) -> str:
    """Return the C text of a program: the functions that it needs, and one function with its name.

    Raise NoKernel if an element type or a function has no form in C.
    """
    body = c_function(program, schedule)
    return f"{prelude(body)}\n{body}"


def c_function(program: schedules.Program, schedule: schedules.Schedule) -> str:
    """Return the one function of a program as C text; see :func:`c_text`."""
    changed = schedules.keeping(program) if schedule.kept else program
    writer = _Writer(schedules.staging(changed) if schedule.staged else changed, schedule)
    writer.kernel()
    lines = "\n".join(writer.lines)
    return f"/* {program.name}: {schedule}. */\n{lines}\n"


class _Writer:
    """The lines of one kernel."""

    def __init__(self, program: schedules.Program, schedule: schedules.Schedule) -> None:
        self.program, self.schedule = program, schedule
        self.lines: list[str] = []
        self._indent = 0
        self._fresh = 0
        self.suffix = SUFFIXES.get(program.computed, "")

    # -- lines ------------------------------------------------------------------------------------
    def line(self, text: str) -> None:
        self.lines.append("  " * self._indent + text)

    @contextlib.contextmanager
    def block(self, head: str = "") -> Iterator[None]:
        self.line(f"{head} {{" if head else "{")
        self._indent += 1
        yield
        self._indent -= 1
        self.line("}")

    def block_if(self, wanted: object, head: str = "") -> contextlib.AbstractContextManager[None]:
        return self.block(head) if wanted else contextlib.nullcontext()

    def loop(self, bound: ix.Bound, scope: Scope) -> contextlib.AbstractContextManager[None]:
        name = named(bound.name)
        return self.block(f"for (int64_t {name} = 0; {name} < {whole(bound.extent, scope)}; {name}++)")

    @contextlib.contextmanager
    def nested(self, bounds: Sequence[ix.Bound], scope: Scope) -> Iterator[None]:
        with contextlib.ExitStack() as loops:
            for b in bounds:
                loops.enter_context(self.loop(b, scope))
            yield

    def fresh(self, stem: str) -> str:
        self._fresh += 1
        return f"{stem}{self._fresh}_"

    # -- the kernel -------------------------------------------------------------------------------
    def kernel(self) -> None:
        program, scope = self.program, Scope(self.program)
        kind = scope.kind
        arguments = ["int threads", *(f"int64_t {named(e)}" for e in program.extents)]
        arguments += [f"{kind} {named(p)}" for p in program.parameters]
        arguments += [f"const {c_type(a.dtype)} *restrict {named(a.name)}" for a in program.inputs]
        arguments += [f"{c_type(a.dtype)} *restrict {named(a.name)}" for a in program.outputs]
        nests = schedules.nests_of(program)
        own = frozenset[str]().union(*(n.own for n in nests))
        with self.block(f"void {entry(program)}({', '.join(arguments)})"):
            held = [a for a in program.inner if a.name not in own]
            for a in held:
                self.allocate(a, scope)
            for nest in nests:
                self.nest(nest, scope.inside())
            for a in held:
                self.line(f"free({named(a.name)});")
        if "threads" not in "\n".join(self.lines[1:]):
            self.lines.insert(1, "  (void)threads;")

    def allocate(self, array: Tensor, scope: Scope, depth: int = 0) -> None:
        kind, size = c_type(array.dtype), whole(ix.product(list(array.dims[depth:])), scope)
        self.line(f"{kind} *restrict {named(array.name)} = storage({size}, sizeof({kind}));")

    def nest(self, nest: schedules.Nest, scope: Scope) -> None:
        found = schedules.contraction(self.program) if self.schedule.tiled else None
        if len(nest.steps) == 1 and found is not None and self.program.steps[found.step] == nest.steps[0]:
            self.tiles(nest.steps[0], found, scope)
        elif len(nest.steps) == 1:
            self.loops(nest.steps[0], 0, scope, outermost=True)
        else:
            self.shared(nest, scope)

    # -- steps that share loops -------------------------------------------------------------------
    def shared(self, nest: schedules.Nest, scope: Scope, start: int = 0) -> None:
        """Write steps that share their loops from number ``start`` on; the outermost may run on threads."""
        # A reduction is computed outside of loops that it ignores.
        names, threaded = nest.steps[0].names[: nest.depth], self.schedule.threaded and start == 0
        totals = [ix.free_indices(r) & set(names) for s in nest.steps for r in _open(s.value, scope)]
        needed = (max((names.index(n) + 1 for n in free), default=0) for free in totals)
        depth = min((level for level in needed if level > start), default=nest.depth)
        within = schedules.nests_of(self.program, nest.steps, depth)
        deeper = frozenset[str]().union(*(n.own for n in within if n.depth > depth))
        own = sorted(nest.own - deeper - set(scope.places))
        arrays = [self.program.array(name) for name in own]
        for a in arrays:
            scope.places[a.name] = partial(_place_in_row, a, depth, scope)
        rows = [a for a in arrays if a.dims[depth:]]
        bounds = nest.steps[0].indices[start:depth]
        for step in nest.steps:
            self.hoist(step.value, nest.steps[0].names[:start], scope)
        pointwise = all(len(s.indices) == depth and not _open(s.value, scope) for s in nest.steps)
        if pointwise and bounds and self.schedule.staged:
            self.strips(nest, arrays, bounds, scope, threaded=threaded)
            return
        if threaded and rows:
            self.line("#pragma omp parallel num_threads(threads)")
        with self.block_if(threaded and rows):
            for a in rows:
                self.allocate(a, scope, depth)
            with contextlib.ExitStack() as loops:
                if threaded:
                    outer = len(bounds) - 1 if pointwise and len(bounds) > 1 else len(bounds)
                    simd = " simd" if pointwise and len(bounds) == 1 else ""
                    collapse = f" collapse({outer})" if outer > 1 else ""
                    head = f"for{simd}" if rows else f"parallel for{simd} num_threads(threads)"
                    self.line(f"#pragma omp {head} schedule(static){collapse}")
                for place, b in enumerate(bounds):
                    if pointwise and place == len(bounds) - 1 and (place or not threaded):
                        self.line("#pragma omp simd")
                    loops.enter_context(self.loop(b, scope))
                for a in arrays:
                    if a not in rows:
                        self.line(f"{c_type(a.dtype)} {named(a.name)};")
                for inner in within:
                    if inner.depth > depth:
                        self.shared(inner, scope.inside(), depth)
                        continue
                    for step in inner.steps:
                        self.loops(step, depth, scope)
            for a in rows:
                self.line(f"free({named(a.name)});")

    def strips(
        self,
        nest: schedules.Nest,
        arrays: Sequence[Tensor],
        bounds: Sequence[ix.Bound],
        scope: Scope,
        *,
        threaded: bool,
    ) -> None:
        """Write steps of single elements as one short loop each, over strips of the last index."""
        name, extent = named(bounds[-1].name), whole(bounds[-1].extent, scope)
        first, end, strip = f"{name}_from_", f"{name}_to_", schedules.STRIP
        if threaded:
            collapse = f" collapse({len(bounds)})" if len(bounds) > 1 else ""
            self.line(f"#pragma omp parallel for num_threads(threads) schedule(static){collapse}")
        head = f"for (int64_t {first} = 0; {first} < {extent}; {first} += {strip})"
        with self.nested(bounds[:-1], scope), self.block(head):
            self.line(f"const int64_t {end} = {extent} - {first} < {strip} ? {extent} : {first} + {strip};")
            for a in arrays:
                self.line(f"{c_type(a.dtype)} {named(a.name)}[{strip}];")
                place = f"{named(a.name)}[{name} - {first}]"
                scope.places[a.name] = lambda e, place=place: place  # type: ignore[misc]
            for stage in self.stages(nest.steps):
                self.line("#pragma omp simd")
                with self.block(f"for (int64_t {name} = {first}; {name} < {end}; {name}++)"):
                    for step in stage:
                        self.store(step, scope)

    def stages(self, steps: Sequence[Equation]) -> list[list[Equation]]:
        """Return steps in groups with at most one long function each; rounding to 16 bits is one."""
        found: list[list[Equation]] = []
        count = 0
        for step in steps:
            rounded = self.program.array(step.target).dtype != self.program.computed
            more = schedules.long_functions(step) + rounded
            if not found or count + more > 1:
                found.append([])
                count = 0
            found[-1].append(step)
            count += more
        return found

    # -- plain loops ------------------------------------------------------------------------------
    def loops(self, step: Equation, depth: int, scope: Scope, *, outermost: bool = False) -> None:
        """Write the loops of a step from its index number ``depth`` on."""
        bound = step.names[:depth]
        self.hoist(step.value, bound, scope)
        if depth == len(step.indices):
            self.store(step, scope)
            return
        last = depth == len(step.indices) - 1 and not _open(step.value, scope)
        if outermost and self.schedule.threaded:
            self.line(
                f"#pragma omp parallel for{' simd' if last else ''} num_threads(threads) schedule(static)"
            )
        elif last:
            self.line("#pragma omp simd")
        with self.loop(step.indices[depth], scope):
            self.loops(step, depth + 1, scope.inside())

    def store(self, step: Equation, scope: Scope) -> None:
        target = self.program.array(step.target)
        place = read(ix.Read(step.target, False, tuple(ix.IndexName(n) for n in step.names)), scope)
        found = value(step.value, scope)
        self.line(f"{place} = {stored(found, target.dtype, scope)};")

    def hoist(self, e: ix.Scalar, bound: Sequence[str], scope: Scope) -> None:
        """Write the reductions in an expression that depend on open loops alone."""
        for total in _open(e, scope):
            if ix.free_indices(total) <= set(bound):
                scope.values[total] = self.reduction(total, bound, scope)
            else:
                self.hoist(total.body, bound, scope)

    def reduction(self, e: ix.Reduce, bound: Sequence[str], scope: Scope) -> str:
        name, inner = self.fresh(e.function), scope.inside()
        signs, folds = (_SIGNS, _FOLDS) if self.suffix else (_WHOLE_SIGNS, _WHOLE_FOLDS)
        self.line(f"{scope.kind} {name} = {self.start(e)};")
        with contextlib.ExitStack() as loops:
            for place, b in enumerate(e.over):
                here = (*bound, *(o.name for o in e.over[:place]))
                self.hoist(e.body, here, inner)
                if place == len(e.over) - 1 and not _open(e.body, inner):
                    self.line(
                        f"#pragma omp simd reduction({signs[e.function].format(t=self.suffix)} : {name})"
                    )
                loops.enter_context(self.loop(b, inner))
            self.hoist(e.body, (*bound, *(o.name for o in e.over)), inner)
            self.line(folds[e.function].format(name, bare(value(e.body, inner)), t=self.suffix))
        return name

    def start(self, e: ix.Reduce) -> str:
        if not self.suffix and e.function in ("max", "min"):
            limit = self.program.dtype.upper()
            return f"{limit}_{'MIN' if e.function == 'max' else 'MAX'}"
        return literal(ix.NEUTRAL[e.function], self.program.computed)

    # -- tiles ------------------------------------------------------------------------------------
    def tiles(self, step: Equation, found: schedules.Contraction, scope: Scope) -> None:
        """Write a step whose sums are computed in tiles that stay in registers."""
        schedule, row, column = self.schedule, self.schedule.row, found.column
        width = schedule.columns
        bounds = {b.name: b for b in step.indices}
        outer = [b for b in step.indices if b.name not in (row, column)]
        packed = schedules.packable(found, row) if schedule.packed else ()
        panels = {r: f"panel{k}_" for k, r in enumerate(packed)}
        columns, rows = whole(bounds[column].extent, scope), whole(bounds[row].extent, scope)
        kind, depth = scope.kind, whole(ix.product([b.extent for b in found.total.over]), scope)
        if schedule.threaded:
            self.line("#pragma omp parallel num_threads(threads)")
        with self.block_if(schedule.threaded):
            for panel in panels.values():
                self.line(f"{kind} *restrict {panel} = storage({depth} * {width}, sizeof({kind}));")
            if schedule.threaded:
                collapse = f" collapse({len(outer) + 1})" if outer else ""
                self.line(f"#pragma omp for schedule(static){collapse}")
            start = f"{named(column)}_at_"
            head = f"for (int64_t {start} = 0; {start} < {columns}; {start} += {width})"
            with self.nested(outer, scope), self.block(head):
                left = f"{columns} - {start}"
                self.line(f"const int64_t width = {left} < {width} ? {left} : {width};")
                for total in _open(step.value, scope):  # those that depend on the outer loops alone
                    if total != found.total and ix.free_indices(total) <= {b.name for b in outer}:
                        scope.values[total] = self.reduction(total, [b.name for b in outer], scope)
                for r, panel in panels.items():
                    self.pack(r, panel, found, scope)
                first = f"{named(row)}_at_"
                self.line(f"int64_t {first} = 0;")
                whole_tile = f"for (; {first} + {schedule.rows} <= {rows}; {first} += {schedule.rows})"
                rest = f"for (; {first} < {rows}; {first}++)"
                free = any(
                    column in ix.free_indices(r) and r not in panels for r in ix.reads(found.total.body)
                )
                with self.block_if(free, f"if (width == {width})"), self.block(whole_tile):
                    self.tile(step, found, schedule.rows, str(width), panels, scope)
                with self.block(rest):
                    self.tile(step, found, 1, "width" if free else str(width), panels, scope)
            for panel in panels.values():
                self.line(f"free({panel});")

    def pack(self, r: ix.Read, panel: str, found: schedules.Contraction, scope: Scope) -> None:
        width, inner = self.schedule.columns, scope.inside()
        inner.renamed[found.column] = f"({named(found.column)}_at_ + c)"
        over = found.total.over
        place = whole(flat(tuple(b.extent for b in over), tuple(ix.IndexName(b.name) for b in over)), inner)
        with self.nested(over, inner):
            there = f"{panel}[{place} * {width} + c]"
            self.line(f"for (int64_t c = 0; c < width; c++) {there} = {value(r, inner)};")
            self.line(f"for (int64_t c = width; c < {width}; c++) {there} = 0;")

    def tile(
        self,
        step: Equation,
        found: schedules.Contraction,
        rows: int,
        across: str,
        panels: dict[ix.Read, str],
        scope: Scope,
    ) -> None:
        width, inner = self.schedule.columns, scope.inside()
        row, column, over = self.schedule.row, found.column, found.total.over
        inner.renamed[row] = f"({named(row)}_at_ + r)" if rows > 1 else f"{named(row)}_at_"
        inner.renamed[column] = f"({named(column)}_at_ + c)"
        within = inner.inside()
        place = whole(flat(tuple(b.extent for b in over), tuple(ix.IndexName(b.name) for b in over)), within)
        for r, panel in panels.items():
            within.values[r] = f"{panel}[{place} * {width} + c]"
        sums = f"sums[{'r' if rows > 1 else '0'}][c]"
        self.line(f"{scope.kind} sums[{rows}][{width}] = {{{{0}}}};")
        down = f"for (int r = 0; r < {rows}; r++)"
        with self.nested(over, within):
            if rows > 1:
                self.line(f"#pragma GCC unroll {rows}")
            with self.block_if(rows > 1, down):
                term = bare(value(found.total.body, within))
                self.line("#pragma omp simd")
                self.line(f"for (int c = 0; c < {across}; c++) {sums} += {term};")
        inner.values[found.total] = sums
        with self.block_if(rows > 1, down):
            if not _open(step.value, inner):
                self.line("#pragma omp simd")
            with self.block("for (int c = 0; c < width; c++)"):
                self.hoist(step.value, step.names, inner)
                self.store(step, inner)


def _place_in_row(array: Tensor, depth: int, scope: Scope, e: ix.Read) -> str:
    """Return an element of an array of which one row at a time is kept, behind the outer loops."""
    index = whole(flat(array.dims[depth:], e.indices[depth:]), scope)
    return f"{named(array.name)}[{bare(index)}]" if array.dims[depth:] else named(array.name)


def _open(e: ix.Scalar, scope: Scope) -> list[ix.Reduce]:
    """Return the outermost reductions of an expression that no variable holds yet."""
    if e in scope.values:
        return []
    if isinstance(e, ix.Reduce):
        return [e]
    if isinstance(e, ix.Apply):
        return list(dict.fromkeys(r for operand in e.operands for r in _open(operand, scope)))
    return []


_PRAGMAS: Final = """\
#pragma omp declare reduction(larger_{t} : {kind} : omp_out = larger_{t}(omp_out, omp_in)) \\
    initializer(omp_priv = -INFINITY)
#pragma omp declare reduction(smaller_{t} : {kind} : omp_out = smaller_{t}(omp_out, omp_in)) \\
    initializer(omp_priv = INFINITY)
"""


def prelude(body: str) -> str:
    """Return the includes and the functions that a text needs, in their order."""
    head, functions = _functions()
    needed: set[str] = set()
    queue = [body]
    while queue:
        text = queue.pop()
        words = set(re.findall(r"[A-Za-z_]\w*", text))
        for name, definition in functions.items():
            if name in words and name not in needed:
                needed.add(name)
                queue.append(definition)
    parts = [head, *(text for name, text in functions.items() if name in needed)]
    for suffix, kind in (("f32", "float"), ("f64", "double")):
        if re.search(rf"reduction\((larger|smaller)_{suffix} ", body):
            pair = (f"larger_{suffix}", f"smaller_{suffix}")
            parts += [functions[name] for name in pair if name not in needed]
            parts.append(_PRAGMAS.format(t=suffix, kind=kind))
    return "\n".join(part.rstrip() + "\n" for part in parts)


@lru_cache(maxsize=1)
def _functions() -> tuple[str, dict[str, str]]:
    """Return the includes of the file of functions, and its functions by name."""
    pieces = _FUNCTIONS.read_text().strip().split("\n\n")
    head = "\n\n".join(p for p in pieces if p.startswith("#include") or "#define" in p)
    names = [re.search(r"^INLINE [\w ]*?\*?(\w+)\(", piece, re.MULTILINE) for piece in pieces]
    return head, {name[1]: piece for name, piece in zip(names, pieces, strict=True) if name}
