"""Settings: frozen dataclasses whose fields carry bounds and help for library, command line and documents.

A field made by :func:`setting` knows its help text and its bounds. :func:`check` validates values by them,
:func:`takes_settings` makes keyword arguments of a function of them, and the command line its options.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import numbers
import textwrap
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from workbench.support.messages import nearest

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

F = TypeVar("F", bound=Callable[..., Any])
S = TypeVar("S", bound="DataclassInstance")
T = TypeVar("T")

_KEY: Final = "setting"
#: The plain types of settings, and the words for their values in a message.
_KINDS: Final = {"bool": "True or False", "int": "a whole number", "float": "a number", "str": "a text"}
#: The settings by the names that other programs give them.
_MEANT: Final = {
    "timeout": ("seconds",),
    "time_limit": ("seconds",),
    "node_limit": ("e_nodes",),
    "iter_limit": ("iterations",),
    "iteration_limit": ("iterations",),
    "limits": ("e_nodes", "seconds", "iterations"),
    "verbose": ("profile",),
    "method": ("extractor",),
    "target": ("measure_on",),
}


@dataclasses.dataclass(frozen=True, slots=True)
class Setting:
    """The facts of one setting: its meaning and the values it takes.

    A number is at least ``least`` and greater than ``above``. ``metavar`` names the value in the help of the
    command line. None passes if the setting allows it.
    """

    help: str
    metavar: str = "N"
    least: float | None = None
    above: float | None = None

    def objection(self, name: str, value: object) -> str | None:
        """Return the objection to a value, or None."""
        if not isinstance(value, int | float):
            return None
        if isinstance(value, float) and not math.isfinite(value) and (self.least, self.above) != (None, None):
            return f"{name} must be a finite number, got {value}"
        if self.least is not None and value < self.least:
            return f"{name} must be at least {self.least:g}, got {value}"
        if self.above is not None and value <= self.above:
            bound = "positive" if self.above == 0 else f"greater than {self.above:g}"
            return f"{name} must be {bound}, got {value}"
        return None


def setting(default: T, help: str, **facts: Any) -> T:
    """Return a dataclass field with a default, the sentence of its help and other facts of a :class:`Setting`."""
    return dataclasses.field(default=default, metadata={_KEY: Setting(help, **facts)})


def same(cls: type[DataclassInstance], name: str, default: T | None = None) -> T:
    """Return a field with the facts of a setting of another class, and its default unless one is given."""
    found = next(f for f in dataclasses.fields(cls) if f.name == name)
    chosen = cast("T", found.default if default is None else default)
    return dataclasses.field(default=chosen, metadata={_KEY: found.metadata[_KEY]})


def settings_of(cls: type[DataclassInstance] | DataclassInstance) -> dict[str, Setting]:
    """Return the settings of a dataclass by field name, in order; other fields are left out."""
    return {f.name: f.metadata[_KEY] for f in dataclasses.fields(cls) if _KEY in f.metadata}


def check(settings: DataclassInstance) -> None:
    """Raise ValueError for the first setting of an object whose value it does not take."""
    types = {f.name: f.type for f in dataclasses.fields(settings)}
    for name, facts in settings_of(settings).items():
        value = getattr(settings, name)
        wrong = _of_another_type(name, types[name], value) or facts.objection(name, value)
        if wrong is not None:
            raise ValueError(wrong)


def _of_another_type(name: str, declared: object, value: object) -> str | None:
    """Return the objection to a value whose type is not the declared one, if that consists of plain types."""
    text = declared.__name__ if isinstance(declared, type) else str(declared)
    kinds = {part.strip() for part in text.split("|")}
    if not kinds <= {*_KINDS, "None"}:
        return None
    if value is None:
        fits = "None" in kinds
    elif isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
        fits = "bool" in kinds
    elif isinstance(value, numbers.Real):
        fits = "float" in kinds or ("int" in kinds and value == value // 1)
    else:
        fits = isinstance(value, str) and "str" in kinds
    if fits:
        return None
    return f"{name} must be {' or '.join(_KINDS[kind] for kind in _KINDS if kind in kinds)}, got {value!r}"


def changed(settings: S, changes: Mapping[str, Any], owner: str) -> S:
    """Return settings with some values changed.

    Raise TypeError for a name that is not a setting, with the nearest one: ``owner`` is the function that
    was called. Raise ValueError for a value that a setting does not take.
    """
    known = settings_of(settings)
    for name in changes:
        if name not in known:
            meant = [s for s in _MEANT.get(name, ()) if s in known]
            hint = f"; did you mean {' or '.join(meant)}?" if meant else nearest(name, known)
            raise TypeError(f"{owner}() has no argument {name!r}{hint}")
    return dataclasses.replace(settings, **changes) if changes else settings


def takes_settings(cls: type[DataclassInstance], *omitted: str) -> Callable[[F], F]:
    """Return a decorator for functions that take ``**changes`` of settings.

    The signature that a notebook shows then lists every setting of ``cls`` with its default, and the
    docstring ends with a section that explains them. ``omitted`` settings stay out of both.
    """

    def decorate(function: F) -> F:
        own = {name: facts for name, facts in settings_of(cls).items() if name not in omitted}
        fields = {f.name: (f.default, str(f.type)) for f in dataclasses.fields(cls) if f.name in own}
        extend_signature(function, fields)
        if function.__doc__:
            function.__doc__ = inspect.cleandoc(function.__doc__) + "\n\nSettings:\n" + explained(own)
        return function

    return decorate


def extend_signature(
    function: Callable[..., Any], more: Mapping[str, tuple[Any, Any]], *, eval_str: bool = False
) -> None:
    """Replace ``**kwargs`` in the signature that a function shows by keywords, each with default and annotation."""
    given = inspect.signature(function, eval_str=eval_str)
    own = [p for p in given.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    own += [
        inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=d, annotation=a)
        for n, (d, a) in more.items()
    ]
    function.__signature__ = given.replace(parameters=own)  # type: ignore[attr-defined]


def explained(settings: Mapping[str, Setting]) -> str:
    """Return one entry per setting, wrapped and indented: its name and its help text."""
    wrapped = textwrap.TextWrapper(96, initial_indent=" " * 4, subsequent_indent=" " * 8)
    return "\n".join(wrapped.fill(f"{name}: {facts.help}") for name, facts in settings.items())
