"""Words of index notation, with their places, and a cursor over them that reports errors with a caret."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NoReturn

from workbench.kernels.composites.composite import NotationError

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

    @property
    def end(self) -> int:
        """Return the place after the word."""
        return self.start + max(1, len(self.text))


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

    def skip_ends(self) -> None:
        """Pass over line ends and semicolons."""
        while self.next.kind == "end":
            self.take()

    def fail(self, message: str, token: Token | None = None) -> NoReturn:
        """Raise NotationError at a word, by default the next one."""
        token = token or self.next
        raise NotationError(message, self.text, token.start, token.end)


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
