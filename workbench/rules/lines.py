"""The lines of a file of rules: how its text is divided into laws."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

#: Largest number of laws in a file: each costs the engine time, whether it matches or not.
MOST_LAWS: Final = 2_000

#: A law for several operators: ``law for f in relu, tanh``.
_FAMILY: Final = re.compile(r"(?P<law>.*\S)\s+for\s+(?P<variable>[a-z]\w*)\s+in\s+(?P<words>[\w,\s]+)$")


class RuleSyntaxError(ValueError):
    """Raised when a rule's text is wrong; the message gives place, expected and found text."""


def law_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the laws of a text with the number of the line where each begins; continued lines are joined.

    Raise :class:`RuleSyntaxError` if there are more than :data:`MOST_LAWS` laws.
    """
    for count, law in enumerate(_laws(text)):
        if count >= MOST_LAWS:
            raise RuleSyntaxError(f"line {law[0]}: a file must have at most {MOST_LAWS} laws (try two files)")
        yield law


def _laws(text: str) -> Iterator[tuple[int, str]]:
    pending, start = "", 0
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.split("#", 1)[0] if "@" not in raw else _without_comment(raw)
        start = start if pending else number
        if line.rstrip().endswith("\\"):
            pending += line.rstrip()[:-1] + " "
            continue
        if (pending + line).strip():
            yield start, pending + line
        pending = ""
    if pending.strip():
        yield start, pending


def _without_comment(line: str) -> str:
    # Provenance such as taso#77 contains the sign that starts a comment elsewhere.
    law, _, rest = line.partition("@")
    if "#" in law:
        return law.split("#", 1)[0]
    return law + "@" + re.split(r"\s#", rest, maxsplit=1)[0]


def family_members(text: str) -> list[str]:
    """Return the laws that one line stands for if it is a law for several operators, else an empty list.

    >>> family_members("late-f: f(neg(x)) => neg(f(x)) for f in sinh, tanh")
    ['late-sinh: sinh(neg(x)) => neg(sinh(x))@', 'late-tanh: tanh(neg(x)) => neg(tanh(x))@']
    """
    line, _, origin = text.partition("@")
    family = _FAMILY.match(line)
    if family is None:
        return []
    title, _, law = family["law"].partition(":")
    of = rf"\b{family['variable']}\b"
    words = re.split(r"[\s,]+", family["words"].strip())
    return [f"{re.sub(of, w.replace('_', '-'), title)}:{re.sub(of, w, law)}@{origin}" for w in words]
