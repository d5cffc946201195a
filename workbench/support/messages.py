"""Messages on one line: errors, and unknown names with the nearest known one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType


def one_line(error: object, most: int | None = 200) -> str:
    r"""Return the text of an error on one line of at most ``most`` characters; an error without text is its class.

    >>> one_line(ValueError("two\n lines"))
    'two lines'
    >>> one_line(KeyboardInterrupt())
    'KeyboardInterrupt'
    """
    return " ".join(str(error).split())[:most] or type(error).__name__


def require(module: str, extra: str) -> ModuleType:
    """Import an optional module; raise ImportError, which names the extra that has it, if it is not installed."""
    package = module.partition(".")[0]
    if find_spec(package) is None:
        raise ImportError(f"{package} is not installed (try pip install 'tamago-workbench[{extra}]')")
    return import_module(module)


def nearest(name: object, known: Iterable[object], cutoff: float = 0.6) -> str:
    """Return ``; did you mean NAME?`` if a known name is near, else an empty text.

    ``cutoff`` is the similarity from which a name is near, between 0 and 1.

    >>> nearest("squezenet", ["squeezenet", "vgg19"])
    '; did you mean squeezenet?'
    >>> nearest("cuda", ["torch", "torch:cuda+graph"])
    '; did you mean torch:cuda+graph?'
    """
    text, names = str(name), [str(k) for k in known]
    near = difflib.get_close_matches(text, names, 1, cutoff) or [
        k for k in names if len(text) > 2 and text in k
    ]
    return f"; did you mean {near[0]}?" if near else ""


def unknown(noun: str, name: str, known: Iterable[str], *, listed: bool = True) -> str:
    """Return the message for an unknown name, with the nearest known one.

    Args:
        noun: The kind of thing that the name is for.
        name: The unknown name.
        known: The known names.
        listed: Whether the message lists all of them.

    >>> unknown("device", "v10", ["t4", "v100"])
    "no device is called 'v10'; did you mean v100? There are: t4, v100"
    >>> unknown("device", "abacus", ["t4", "v100"])
    "no device is called 'abacus'. There are: t4, v100"
    """
    names = list(known)
    hint = nearest(name, names)
    text = f"no {noun} is called {name!r}{hint}"
    return f"{text}{'' if hint else '.'} There are: {', '.join(names)}" if listed else text


class UnknownName(LookupError, ValueError):
    """Raised when nothing of a ``kind`` has the given ``name``; the message is that of :func:`unknown`.

    ``known`` are the known names, ``listed`` is whether all are named, and ``also`` ends the message: what else
    could have been given.
    """

    def __init__(
        self, kind: str, name: str, known: Iterable[str], *, listed: bool = True, also: str = ""
    ) -> None:
        self.kind, self.name, self.known = kind, name, tuple(known)
        super().__init__(unknown(kind, name, self.known, listed=listed) + also)

    def __reduce__(self) -> tuple[type[UnknownName], tuple[object, ...], dict[str, object]]:
        return UnknownName, (self.kind, self.name, self.known), {"args": self.args}


def yaml_reason(error: Exception) -> str:
    """Return the text of an error of PyYAML, with the line first if the error knows it.

    >>> import yaml
    >>> try:
    ...     yaml.safe_load("operators: [min")
    ... except yaml.YAMLError as error:
    ...     print(yaml_reason(error))
    line 1: expected ',' or ']', but got the end
    """
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    if mark is None or problem is None:
        return one_line(error)
    return f"line {mark.line + 1}: {problem.replace(repr('<stream end>'), 'the end')}"
