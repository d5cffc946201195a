"""Read equations: ``y[~ d] = x[~ d] / sum(e) x[~ e]``, one per line or with semicolons between them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import Final

from workbench.kernels.composites import expressions as ix
from workbench.kernels.composites.composite import (
    Attribute,
    Composite,
    Condition,
    Equation,
    NotationError,
    Tensor,
    matched,
)
from workbench.kernels.composites.signature import Cursor, Token, declared, expression
from workbench.support.messages import unknown


# -- calls of composites -------------------------------------------------------------------------------
def _inlined_scalar(
    called: Composite, operands: Sequence[ix.Scalar], given: Mapping[str, ix.Scalar]
) -> ix.Scalar:
    """Return the value of an elementwise composite of scalars; attributes that are not given have their defaults."""
    values = {t.name: e for t, e in zip(called.inputs, operands, strict=True)}
    parameters, extents = _attributes(called, given)
    [equation] = called.equations
    return inlined(ix.scalar_reindexed(equation.value, _named(extents)), values, parameters)


def inlined(e: ix.Scalar, values: Mapping[str, ix.Scalar], parameters: Mapping[str, ix.Scalar]) -> ix.Scalar:
    """Return an expression with values in the place of tensors and of attributes."""
    if isinstance(e, ix.Read) and e.tensor in values:
        return values[e.tensor]
    if isinstance(e, ix.Parameter):
        return parameters.get(e.name, e)
    return ix.rebuilt(e, lambda child: inlined(child, values, parameters))


def _named(extents: Mapping[str, ix.IndexExpr]) -> Callable[[ix.IndexExpr], ix.IndexExpr | None]:
    return lambda e: extents.get(e.name) if isinstance(e, ix.ExtentName) else None


def _attributes(
    called: Composite, given: Mapping[str, ix.Scalar]
) -> tuple[dict[str, ix.Scalar], dict[str, ix.IndexExpr]]:
    """Return the values of attributes: floating-point ones, and whole numbers."""
    parameters: dict[str, ix.Scalar] = {}
    extents: dict[str, ix.IndexExpr] = {}
    for a in called.attributes:
        value = given.get(a.name, ix.Number(a.default))
        if not a.whole:
            parameters[a.name] = value
        elif isinstance(value, ix.IndexValue):
            extents[a.name] = value.value
        elif isinstance(value, ix.Number) and float(value.value).is_integer():
            extents[a.name] = ix.Whole(int(value.value))
        else:
            raise NotationError(f"attribute {a.name} of {called.name} must be a whole number, got {value}")
    return parameters, extents


def _inlined_tensors(
    called: Composite, operands: Sequence[Tensor], given: Mapping[str, ix.Scalar], taken: Container[str]
) -> tuple[str, list[Equation], list[Condition]]:
    """Return the result of a call on tensors by its name, the equations, and the conditions on extents.

    New tensors have no names that are ``taken``. Raise NotationError if the operands do not fit.
    """
    if len(called.outputs) > 1:
        raise NotationError(f"{called.name} must have one result to be called, got {len(called.outputs)}")
    parameters, extents = _attributes(called, given)
    has_leading, more = _group(called, operands)
    conditions, known = _unified(called, operands, extents), _named(extents)
    extra = tuple(f"{called.name}_{k}" for k in range(len(more)))
    names = {t.name: a for t, a in zip(called.inputs, operands, strict=True)}
    result: list[Equation] = []

    def own(i: ix.IndexExpr) -> ix.IndexExpr | None:
        """Return what an extent stands for, and the read of a tensor of the call."""
        if not isinstance(i, ix.Read):
            return known(i)
        tensor, inner = names[i.tensor], tuple(ix.reindexed(j, own) for j in i.indices)
        outer = extra[len(extra) + len(inner) - len(tensor.dims) :]
        return ix.Read(tensor.name, tensor.leading, (*map(ix.IndexName, outer), *inner))

    for e in called.equations:
        name = stem = f"{called.name}_{e.target}"
        numbers = itertools.count(2)
        while name in taken or name in {made.target for made in result}:
            name = f"{stem}_{next(numbers)}"
        leading = has_leading and e.leading
        indices = list(map(ix.Bound, extra, more)) if e.leading else []
        indices += [ix.Bound(b.name, ix.reindexed(b.extent, known)) for b in e.indices]
        value = inlined(ix.scalar_reindexed(e.value, own), {}, parameters)
        result.append(Equation(name, leading, tuple(indices), value))
        names[e.target] = Tensor(name, "", leading, tuple(b.extent for b in indices))
    return result[-1].target, result, conditions


def _group(called: Composite, operands: Sequence[Tensor]) -> tuple[bool, tuple[ix.IndexExpr, ...]]:
    """Return the axes for which a called composite's ``~`` stands: whether leading ones are among them, and others."""
    groups = []
    for t, a in zip(called.inputs, operands, strict=True):
        more = len(a.dims) - len(t.dims)
        if more < 0 or (not t.leading and (more or a.leading)):
            raise NotationError(f"{called.name} takes {t}, got {a}")
        if t.leading:
            groups.append((a.leading, a.dims[:more]))
    _, longest = max(groups, key=lambda g: (len(g[1]), g[0]), default=(False, ()))
    for leading, dims in groups:
        if dims != longest[len(longest) - len(dims) :] or (leading and dims != longest):
            raise NotationError(f"the leading axes of the operands of {called.name} differ")
    return any(leading for leading, _ in groups), longest


def _unified(
    called: Composite, operands: Sequence[Tensor], extents: dict[str, ix.IndexExpr]
) -> list[Condition]:
    """Add the extents of a called composite to ``extents``, and return the equalities that remain."""
    sides: list[tuple[ix.IndexExpr, ix.IndexExpr, str]] = []
    for t, a in zip(called.inputs, operands, strict=True):
        own = a.dims[len(a.dims) - len(t.dims) :]
        sides += [(d, other, f"{called.name} takes {t}") for d, other in zip(t.dims, own, strict=True)]
    known = _named(extents)
    later = matched(sides, called.conditions, extents, lambda e: ix.reindexed(e, known))
    found = [Condition(ix.reindexed(d, known), other, reason) for d, other, reason in later]
    found += [
        Condition(ix.reindexed(w.left, known), ix.reindexed(w.right, known), w.reason)
        for w in called.conditions
    ]
    dims = [d for t in called.outputs for d in t.dims]
    missing = sorted({n for d in dims for n in ix.extent_names(d)} - set(extents))
    if missing:
        raise NotationError(f"the extent {missing[0]} of {called.name} does not follow from the operands")
    return [w for w in found if w.left != w.right]


# -- equations -----------------------------------------------------------------------------------------
_REDUCTIONS: Final = (*ix.FOLDS, "mean")
_WORDS: Final = frozenset({"and", "or", "not", "where"})
_COMPARED: Final = {
    "<": ("less", False),
    "<=": ("atmost", False),
    ">": ("less", True),
    ">=": ("atmost", True),
    "==": ("equal", False),
    "!=": ("equal", False),
}
_SIGNS: Final = {"+": "add", "-": "sub", "*": "mul", "/": "div"}
#: Signs between two values, from the weakest; ``not`` and comparisons are between the second level and the third.
_LEVELS: Final = (("or",), ("and",), ("+", "-"), ("*", "/", "//", "%"))
#: Whole powers up to this one are products.
_POWERS: Final = 16


class _Equations:
    """The equations of one composite without any yet, read from text; they may call ``composites``."""

    def __init__(self, text: str, one: Composite, composites: Mapping[str, Composite]) -> None:
        self.c = Cursor(text)
        self.outputs = {t.name: t for t in one.outputs}
        self.tensors = {t.name: t for t in one.inputs}
        self.dtype = one.output.dtype
        self.attributes = {a.name: a for a in one.attributes}
        self.composites = composites
        dims = [d for t in (*one.inputs, *one.outputs) for d in t.dims]
        dims += [side for w in one.conditions for side in (w.left, w.right)]
        whole = {a.name for a in one.attributes if a.whole}
        self.extents = {n for d in dims for n in ix.extent_names(d)} | whole
        self.conditions: list[Condition] = list(one.conditions)
        self.found: list[Equation] = []
        #: The indices in scope with their extents, None until one is known.
        self.scope: dict[str, ix.IndexExpr | None] = {}
        self.leading = False

    def read(self) -> tuple[Equation, ...]:
        """Return the equations in order, those of called composites among them."""
        c = self.c
        while c.next.kind != "stop":
            if c.next.kind == "end":
                c.take()
                continue
            self._equation()
            if c.next.kind not in ("end", "stop"):
                c.fail(f"the equation must end here, got {c.shown()}")
        for name in self.outputs:
            if name not in self.tensors:
                c.fail(f"the result {name} must have an equation, got none (try {name}[…] = …)")
        return _without_copies(self.found, set(self.outputs))

    # -- one equation ---------------------------------------------------------------------------------
    def _equation(self) -> None:
        c = self.c
        target = c.name("the left-hand side of an equation")
        if target.text in self.tensors:
            c.fail(f"{target.text} has its values already, from an operand or an earlier equation", target)
        if target.text in self.attributes or target.text in self.extents:
            c.fail(f"{target.text} is an attribute or an extent, so no equation can define it", target)
        self.scope = {}
        output = self.outputs.get(target.text)
        names = self._places(target, output)
        c.expect("=", "an equation")
        first, value = c.next, self._joined(0)
        if _is_truth(value):
            c.fail("the value must be a number, got a condition (try where(condition, 1, 0))", first)
        indices = []
        for token in names:
            extent = self.scope[token.text]
            if extent is None:
                c.fail(f"the extent of {token.text} must follow from a read (try {token.text} < N)", token)
            indices.append(ix.Bound(token.text, extent))
        self.found.append(Equation(target.text, self.leading, tuple(indices), value))
        dims = tuple(b.extent for b in indices)
        self.tensors[target.text] = output or Tensor(target.text, self.dtype, self.leading, dims)

    def _places(self, target: Token, output: Tensor | None) -> list[Token]:
        c = self.c
        self.leading = output.leading if output is not None else False
        if not c.accept("["):
            if output is not None and output.dims:
                c.fail(f"{target.text} must be written with its indices, as in {_example(output)}", target)
            return []
        self.leading = c.accept("~") is not None
        if output is not None and self.leading != output.leading:
            c.fail(f"{target.text} must be written as it is declared, as in {_example(output)}", target)
        names, close = self._indices("an index on the left", "]")
        if output is not None:
            if len(names) != len(output.dims):
                c.fail(f"{target.text} must have {len(output.dims)} indices, got {len(names)}", close)
            for token, dim in zip(names, output.dims, strict=True):
                self.scope[token.text] = dim
        return names

    def _indices(self, what: str, end: str) -> tuple[list[Token], Token]:
        """Read new indices, some with their extents, up to a bracket, and return them and the bracket."""
        names: list[Token] = []
        while not self.c.at(end):
            self.c.accept(",")
            names.append(token := self.c.name(what))
            if token.text in self.scope:
                self.c.fail(f"the index {token.text} is in use already (try another name)", token)
            if token.text in {*self.extents, *self.attributes, *self.tensors, *_WORDS}:
                self.c.fail(f"{what} must have a name of its own, got {token.text}", token)
            self.scope[token.text] = None
            if self.c.accept("<"):
                self.scope[token.text] = expression(self.c, self._whole, "an extent")
        return names, self.c.take()

    # -- scalars, from the weakest sign to the strongest ------------------------------------------------
    def _joined(self, level: int) -> ix.Scalar:
        """Return a value whose signs are at least as strong as those of a level."""
        stronger = (
            self._unary if level == 3 else self._negation if level == 1 else partial(self._joined, level + 1)
        )
        left = stronger()
        while token := self.c.accept(*_LEVELS[level]):
            left = self._arith(token, left, stronger())
        return left

    def _negation(self) -> ix.Scalar:
        if token := self.c.accept("not"):
            return self._apply("not", [self._negation()], token)
        return self._comparison()

    def _comparison(self) -> ix.Scalar:
        c = self.c
        left = self._joined(2)
        result: ix.Scalar | None = None
        while token := c.accept(*_COMPARED):
            right, (name, turned) = self._joined(2), _COMPARED[token.text]
            one = self._apply(name, [right, left] if turned else [left, right], token)
            one = ix.Apply("not", (one,)) if token.text == "!=" else one
            result = one if result is None else ix.Apply("and", (result, one))
            left = right
        return left if result is None else result

    def _unary(self) -> ix.Scalar:
        if token := self.c.accept("-"):
            operand = self._unary()
            if isinstance(operand, ix.Number):
                return ix.Number(-operand.value)
            return self._apply("neg", [operand], token)
        return self._reduction() if self._reduces() else self._power()

    def _power(self) -> ix.Scalar:
        base = self._atom()
        token = self.c.accept("^", "**")
        if token is None:
            return base
        exponent = self._unary()
        if isinstance(exponent, ix.Number) and exponent.value in range(1, _POWERS + 1):
            self._apply("mul", [base, base], token)
            return _whole_power(base, int(exponent.value))
        return self._apply("pow", [base, exponent], token)

    def _atom(self) -> ix.Scalar:
        c = self.c
        if token := c.accept("("):
            inside = self._joined(0)
            c.expect(")", "the bracket")
            return inside
        if c.next.kind == "number":
            return ix.Number(float(c.take().text))
        token = c.name("a value")
        name = token.text
        if name in self.tensors:
            return self._read(token)
        if c.at("("):
            return self._call(token)
        if name in self.attributes and not self.attributes[name].whole:
            return ix.Parameter(name)
        return ix.IndexValue(self._whole(token))

    # -- reads ----------------------------------------------------------------------------------------
    def _read(self, token: Token) -> ix.Read:
        c, tensor = self.c, self.tensors[token.text]
        if not c.at("["):
            if tensor.dims:
                c.fail(f"{token.text} must be read at its indices, as in {_example(tensor)}", token)
            return self._checked(ix.Read(tensor.name, tensor.leading, ()), token)
        c.take()
        if bool(c.accept("~")) != tensor.leading:
            c.fail(f"{token.text} must be read as it is declared, as in {_example(tensor)}", token)
        places: list[ix.IndexExpr] = []
        while not c.at("]"):
            c.accept(",")
            places.append(expression(c, self._whole, "an index"))
        close = c.take()
        if len(places) != len(tensor.dims):
            c.fail(f"{token.text} must be read at {len(tensor.dims)} indices, got {len(places)}", close)
        for place, dim in zip(places, tensor.dims, strict=True):
            if isinstance(place, ix.IndexName) and self.scope[place.name] is None:
                self.scope[place.name] = dim
        return self._checked(ix.Read(tensor.name, tensor.leading, tuple(places)), token)

    def _checked(self, read: ix.Read, token: Token) -> ix.Read:
        if read.leading and not self.leading:
            self.c.fail(f"{read.tensor} has leading axes '~', so the left-hand side must have them", token)
        inner = [p for i in read.indices for p in ix.parts(i) if isinstance(p, ix.Read)]
        if read.leading and any(p.leading for p in inner):
            self.c.fail(f"a place in {read.tensor}, which has leading axes, must not have some itself", token)
        return read

    def _whole(self, token: Token) -> ix.IndexExpr:
        name = token.text
        if name in self.scope:
            return ix.IndexName(name)
        if name in self.extents:
            return ix.ExtentName(name)
        if name in self.attributes:
            self.c.fail(f"a place must be a whole number, but the attribute {name} is not one", token)
        if name in self.tensors:
            kind = self.tensors[name].dtype
            if "int" not in kind:
                self.c.fail(f"a place must be a whole number, but {name} holds {kind}", token)
            return self._read(token)
        known = [*self.scope, *self.extents, *self.tensors, *self.attributes]
        self.c.fail(unknown("index, tensor or attribute", name, known), token)

    # -- functions --------------------------------------------------------------------------------------
    def _apply(self, name: str, operands: list[ix.Scalar], token: Token) -> ix.Scalar:
        f = ix.FUNCTIONS[name]
        if len(operands) != f.arity:
            self.c.fail(f"{name} must have {f.arity} operands, got {len(operands)}", token)
        for k, operand in enumerate(operands):
            wanted = f.of_truths or (name == "where" and k == 0)
            if _is_truth(operand) != wanted:
                what = "a condition such as a < b" if wanted else "a number"
                self.c.fail(f"operand {k + 1} of {f.sign.strip() or name!r} must be {what}", token)
        return ix.Apply(name, tuple(operands))

    def _arith(self, token: Token, left: ix.Scalar, right: ix.Scalar) -> ix.Scalar:
        if token.text in ("and", "or"):
            return self._apply(token.text, [left, right], token)
        if token.text != "/" and (isinstance(left, ix.IndexValue) or isinstance(right, ix.IndexValue)):
            a, b = _as_whole(left), _as_whole(right)
            if a is not None and b is not None:
                return ix.IndexValue(ix.arith(token.text, a, b))
        if token.text in _SIGNS:
            return self._apply(_SIGNS[token.text], [left, right], token)
        quotient = ix.Apply("floor", (self._apply("div", [left, right], token),))
        if token.text == "//":
            return quotient
        return ix.Apply("sub", (left, ix.Apply("mul", (quotient, right))))

    def _call(self, token: Token) -> ix.Scalar:
        c, name = self.c, token.text
        called = self.composites.get(name)
        if name not in ix.FUNCTIONS and called is None:
            c.fail(unknown("function or composite", name, [*ix.FUNCTIONS, *self.composites]), token)
        c.take()
        if called is not None and name not in ix.FUNCTIONS:
            return self._composite(called, token)
        operands = []
        while not c.at(")"):
            operands.append(self._joined(0))
            if not c.accept(","):
                break
        c.expect(")", f"the operands of {name}")
        if name in ("max", "min") and len(operands) > 2:
            return reduce(lambda one, two: self._apply(name, [one, two], token), operands)
        return self._apply(name, operands, token)

    def _composite(self, called: Composite, token: Token) -> ix.Scalar:
        c = self.c
        scalars: list[ix.Scalar] = []
        names: list[Tensor] = []
        given: dict[str, ix.Scalar] = {}
        while not c.at(")"):
            if c.next.kind == "name" and c.ahead(1).text == "=":
                attribute = c.take()
                c.take()
                if attribute.text not in called.defaults:
                    c.fail(unknown("attribute", attribute.text, called.defaults), attribute)
                given[attribute.text] = self._joined(0)
            elif called.elementwise:
                scalars.append(self._joined(0))
            else:
                operand = c.name(f"an operand of {called.name}")
                if operand.text not in self.tensors:
                    c.fail(
                        f"an operand of {called.name} must be a tensor, got {operand.text} (try an equation "
                        "of its own)",
                        operand,
                    )
                names.append(self.tensors[operand.text])
            if not c.accept(","):
                break
        c.expect(")", f"the operands of {called.name}")
        count = len(scalars) + len(names)
        if count != len(called.inputs):
            c.fail(f"{called.name} must have {len(called.inputs)} operands, got {count}", token)
        try:
            if called.elementwise:
                return _inlined_scalar(called, scalars, given)
            result, equations, conditions = _inlined_tensors(called, names, given, self.tensors)
        except NotationError as error:
            c.fail(error.reason, token)
        self.found += equations
        self.conditions += conditions
        for e in equations:
            dims = tuple(b.extent for b in e.indices)
            self.tensors[e.target] = Tensor(e.target, self.dtype, e.leading, dims)
        return self._read(Token("name", result, token.start))

    # -- reductions -----------------------------------------------------------------------------------
    def _reduces(self) -> bool:
        c = self.c
        if not (c.at(*_REDUCTIONS) and c.ahead(1).text == "(" and c.ahead(2).kind == "name"):
            return False
        if c.next.text not in ix.FUNCTIONS:
            return True
        depth, at, commas = 0, 1, 0
        while c.ahead(at).kind != "stop":
            text = c.ahead(at).text
            depth += (text in ("(", "[")) - (text in (")", "]"))
            if depth == 0:
                break
            commas += text == "," and depth == 1
            at += 1
        after = c.ahead(at + 1)
        starts = (
            after.kind == "number" or after.text == "(" or (after.kind == "name" and after.text not in _WORDS)
        )
        return starts or not commas

    def _reduction(self) -> ix.Scalar:
        c = self.c
        kind = c.take()
        c.expect("(", kind.text)
        names, _ = self._indices(f"an index of {kind.text}", ")")
        body = self._joined(3)
        if _is_truth(body):
            c.fail(f"{kind.text} must be over numbers, got a condition", kind)
        over = []
        for token in names:
            extent = self.scope.pop(token.text)
            if extent is None:
                c.fail(
                    f"the extent of {token.text} must follow from a read at {token.text} alone "
                    f"(try {kind.text}({token.text} < N))",
                    token,
                )
            over.append(ix.Bound(token.text, extent))
        if kind.text != "mean":
            return ix.Reduce(kind.text, tuple(over), body)
        total = ix.product([b.extent for b in over])
        return ix.Apply("div", (ix.Reduce("sum", tuple(over), body), ix.IndexValue(total)))


def _without_copies(equations: list[Equation], outputs: set[str]) -> tuple[Equation, ...]:
    """Return equations in which no result is a mere copy of the intermediate tensor that a call made."""
    kept = list(equations)
    for copy in equations:
        read, extents = copy.value, [b.extent for b in copy.indices]
        if copy.target not in outputs or not isinstance(read, ix.Read):
            continue
        made = next((e for e in kept if e.target == read.tensor), None)
        readers = [e for e in kept if any(r.tensor == read.tensor for r in ix.reads(e.value))]
        if made is None or len(readers) > 1 or read.indices != tuple(map(ix.IndexName, copy.names)):
            continue
        if made.leading == copy.leading and [b.extent for b in made.indices] == extents:
            kept[kept.index(copy)] = replace(made, target=copy.target)
            kept.remove(made)
    return tuple(kept)


def _example(t: Tensor) -> str:
    places = ["~"] * t.leading + [chr(ord("i") + k) for k in range(len(t.dims))]
    return f"{t.name}[{' '.join(places)}]"


def _is_truth(e: ix.Scalar) -> bool:
    return isinstance(e, ix.Apply) and ix.FUNCTIONS[e.function].truth


def _as_whole(e: ix.Scalar) -> ix.IndexExpr | None:
    if isinstance(e, ix.IndexValue):
        return e.value
    return ix.Whole(int(e.value)) if isinstance(e, ix.Number) and e.value.is_integer() else None


def _whole_power(base: ix.Scalar, exponent: int) -> ix.Scalar:
    if exponent == 1:
        return base
    half = _whole_power(base, exponent // 2)
    square = ix.Apply("mul", (half, half))
    return ix.Apply("mul", (square, base)) if exponent % 2 else square


_NAME = re.compile(r"[A-Za-z]\w*")


def parse(
    name: str,
    signature: str,
    body: str,
    *,
    composites: Mapping[str, Composite] | None = None,
    doc: str = "",
    **attributes: int | float,
) -> Composite:
    """Return the composite that a declaration and equations describe, which may call ``composites``.

    The other arguments are those of :func:`~workbench.kernels.composites.define.composite`, but there may be several
    results. Raise NotationError if the text cannot be read; the message shows the place.

    >>> print(parse("twice", "x{T}[~] -> y{T}[~]", "y = 2 * x"))
    twice: x{T}[~] -> y{T}[~]
        y[~] = (2 * x[~])
    """
    if not _NAME.fullmatch(name):
        raise NotationError(f"a composite's name must be letters, digits and _, got {name!r}")
    for attribute, value in attributes.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise NotationError(f"attribute {attribute} of {name} must be a number, got {value!r}")
    inputs, outputs, conditions = declared(signature, attributes)
    own = tuple(Attribute(a, value) for a, value in attributes.items())
    made = Composite(name, inputs, outputs, own, (), conditions, doc, signature.strip(), body.strip())
    reading = _Equations(body, made, composites or {})
    return replace(made, equations=reading.read(), conditions=tuple(reading.conditions))
