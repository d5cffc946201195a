"""Read declarations: ``x{T}[~ D], g{T}[D] -> y{T}[~ D] where D = 2 * H``, and the words of index notation."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NoReturn

from workbench.kernels.composites.composite import Condition, NotationError, Tensor
from workbench.kernels.composites.expressions import ExtentName, IndexExpr, Whole, arith, extent_names
from workbench.ops.types import DTYPE_CODES, FLOAT_DTYPES

_TOKEN: Final = re.compile(
    r"(?P<space>[ \t]+|\\\n|#[^\n]*)"
    r"|(?P<number>(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<end>[;\n])"
    r"|(?P<sign>->|//|\*\*|<=|>=|==|!=|[-+*/%^<>=()\[\]{},~:])"
)


@dataclass(frozen=True, slots=True)
class Token:
    """A word: its kind (``number``, ``name``, ``sign``, ``end`` of an equation, ``stop``) and its place."""

    kind: str
    text: str
    start: int


class Cursor:
    """The words of a text, read from the left."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list(_tokens(text))
        self.place = 0

    @property
    def next(self) -> Token:
        """Return the next word without taking it."""
        return self.tokens[self.place]

    def ahead(self, count: int) -> Token:
        """Return the word after ``count`` more."""
        return self.tokens[min(self.place + count, len(self.tokens) - 1)]

    def take(self) -> Token:
        """Take the next word."""
        token = self.next
        self.place = min(self.place + 1, len(self.tokens) - 1)
        return token

    def at(self, *texts: str) -> bool:
        """Return whether the next word is one of these names or signs."""
        return self.next.kind in ("name", "sign") and self.next.text in texts

    def accept(self, *texts: str) -> Token | None:
        """Take the next word if it is one of these."""
        return self.take() if self.at(*texts) else None

    def expect(self, text: str, where: str) -> Token:
        """Take a sign that must come next."""
        if not self.at(text):
            self.fail(f"{where} must continue with {text!r}, got {self.shown()}")
        return self.take()

    def name(self, what: str) -> Token:
        """Take a name that must come next."""
        if self.next.kind != "name":
            self.fail(f"{what} must be a name, got {self.shown()}")
        return self.take()

    def shown(self) -> str:
        """Return the next word for a message."""
        return {"stop": "the end", "end": "the end of the equation"}.get(self.next.kind, repr(self.next.text))

    def fail(self, message: str, token: Token | None = None) -> NoReturn:
        """Raise NotationError at a word, by default the next one."""
        token = token or self.next
        raise NotationError(message, self.text, token.start, token.start + max(1, len(token.text)))


def _tokens(text: str) -> Iterator[Token]:
    at = depth = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise NotationError(f"the character {text[at]!r} has no meaning here", text, at)
        kind = str(found.lastgroup)
        depth += (found.group() in "([{") - (found.group() in ")]}") if kind == "sign" else 0
        # An equation continues over the end of a line while a bracket is open.
        if kind != "space" and not (kind == "end" and found.group() == "\n" and depth > 0):
            yield Token(kind, found.group(), at)
        at = found.end()
    yield Token("stop", "", len(text))


#: Short names of element types.
SHORT = {"float": "float32", "double": "float64", "half": "float16", "int": "int64"}

Leaf = Callable[[Token], IndexExpr]


def declared(
    text: str, given: Mapping[str, int | float]
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...], tuple[Condition, ...]]:
    """Return the operands, the results and the conditions of a declaration.

    Extents may use the attributes ``given`` that are whole numbers. Raise NotationError with the place if the text is
    not a declaration.
    """
    c = Cursor(text.replace("\n", " "))
    c.text = text
    names: set[str] = set()
    stated: list[Condition] = []

    def extent(token: Token) -> IndexExpr:
        if isinstance(given.get(token.text), float):
            c.fail(f"an extent must be a whole number, but the attribute {token.text} is not one", token)
        return ExtentName(token.text)

    def tensors(end: str) -> tuple[Tensor, ...]:
        found: list[Tensor] = []
        while c.next.kind == "name" and not c.at("where"):
            found.append(_tensor(c, extent))
            # The form of AbstractTensor: A{T}[M N]<0 1>(where M = 1) B{T}[M N]<0 1>()
            if closed := c.accept("("):
                if c.accept("where"):
                    stated.extend(_conditions(c, extent))
                c.expect(")", f"tensor {found[-1].name}")
            if found[-1].name in names:
                c.fail(f"tensors must have names of their own, got {found[-1].name} twice")
            names.add(found[-1].name)
            if not c.accept(",") and not closed:
                break
        if c.next.kind != "stop" and not c.at(end):
            c.fail(f"a declaration must continue with ',' or {end!r}, got {c.shown()}")
        return tuple(found)

    inputs = tensors("->")
    c.expect("->", "a declaration")
    first = c.next
    outputs = tensors("where")
    if not outputs:
        c.fail(f"a declaration must name a result, got {c.shown()}", first)
    conditions = (*stated, *(_conditions(c, extent) if c.accept("where") else ()))
    if c.next.kind != "stop":
        c.fail(f"the declaration must end here, got {c.shown()}")
    _check_known(c, inputs, outputs, conditions, given)
    return inputs, outputs, conditions


def _tensor(c: Cursor, extent: Leaf) -> Tensor:
    name, dtype = c.name("a tensor"), "T"
    if c.accept("{"):
        token = c.name("an element type")
        dtype = SHORT.get(token.text, token.text)
        if not dtype[0].isupper() and dtype not in DTYPE_CODES:
            c.fail(
                f"an element type must be a variable such as T or one of {', '.join(sorted(FLOAT_DTYPES))} "
                f"and so on, got {token.text!r}",
                token,
            )
        c.expect("}", "an element type")
    if c.at("="):
        c.fail(
            f"{name.text} is not a tensor, and an attribute of a file follows the composite's name "
            f"(try name({name.text}=…): …)",
            name,
        )
    c.expect("[", f"tensor {name.text}")
    leading = c.accept("~") is not None
    dims: list[IndexExpr] = []
    while not c.at("]"):
        c.accept(",")
        if c.at("~"):
            c.fail("'~' stands for the leading axes, so it must come first")
        dims.append(expression(c, extent, "an extent"))
    c.expect("]", f"tensor {name.text}")
    if c.at("<"):
        _order(c, len(dims) + leading)
    return Tensor(name.text, dtype, leading, tuple(dims))


def _order(c: Cursor, rank: int) -> None:
    """Read the order of the axes in memory, which must be that of the text."""
    start = c.take()
    found = []
    while not c.at(">"):
        if c.next.kind != "number" and not c.at("~", ","):
            c.fail(f"the order of the axes must be their numbers, got {c.shown()}")
        found.append(c.take().text)
    c.take()
    if [f for f in found if f not in ("~", ",")] != [str(i) for i in range(rank - ("~" in found))]:
        c.fail("the axes must lie in memory in the order of the text (try <0 1>, or reorder the axes)", start)


def _conditions(c: Cursor, extent: Leaf) -> tuple[Condition, ...]:
    found = []
    while True:
        left = expression(c, extent, "a condition")
        if not c.accept("="):
            c.expect("==", "a condition")
        found.append(Condition(left, expression(c, extent, "a condition")))
        if not c.accept(","):
            return tuple(found)


def _check_known(
    c: Cursor,
    inputs: tuple[Tensor, ...],
    outputs: tuple[Tensor, ...],
    conditions: tuple[Condition, ...],
    attributes: Mapping[str, int | float],
) -> None:
    dims = [d for t in inputs for d in t.dims] + [side for w in conditions for side in (w.left, w.right)]
    known = {n for d in dims for n in extent_names(d)} | set(attributes)
    variables = {t.dtype for t in inputs if t.dtype[0].isupper()}
    for t in outputs:
        for n in sorted({n for d in t.dims for n in extent_names(d)} - known):
            c.fail(
                f"the extent {n} of the result must follow from an operand or an attribute (try {n}=1 as "
                "an attribute)",
                Token("name", n, max(c.text.rfind(n), 0)),
            )
        if t.leading and not any(i.leading for i in inputs):
            c.fail(f"the leading axes '~' of {t.name} must be those of an operand", c.tokens[0])
        if t.dtype[0].isupper() and inputs and t.dtype not in variables:
            c.fail(f"the element type {t.dtype} of {t.name} must be that of an operand", c.tokens[0])


# -- whole-number expressions -------------------------------------------------------------------------
def expression(
    c: Cursor, leaf: Leaf, what: str, signs: Sequence[Sequence[str]] = (("+", "-"), ("*", "//", "%", "/"))
) -> IndexExpr:
    """Read a whole-number expression.

    Args:
        c: The words.
        leaf: Returns the meaning of a name.
        what: What the expression is, for messages.
        signs: The signs that it may have, from the weakest.
    """
    stronger = partial(expression, signs=signs[1:]) if len(signs) > 1 else _atom
    left = stronger(c, leaf, what)
    while op := c.accept(*signs[0]):
        if op.text == "/":
            c.fail(f"{what} must be a whole number (try //)", op)
        left = arith(op.text, left, stronger(c, leaf, what))
    return left


def _atom(c: Cursor, leaf: Leaf, what: str) -> IndexExpr:
    if c.accept("-"):
        return arith("-", Whole(0), _atom(c, leaf, what))
    if c.accept("("):
        inside = expression(c, leaf, what)
        c.expect(")", what)
        return inside
    if c.next.kind == "number":
        token = c.take()
        if not token.text.isdigit():
            c.fail(f"{what} must be a whole number, got {token.text}", token)
        return Whole(int(token.text))
    return leaf(c.name(what))
