"""Studies as YAML files, read into frozen, validated settings."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar, get_origin, get_type_hints

import yaml

T = TypeVar("T")


class StudyError(ValueError):
    """Say what is wrong with a study, and at which key."""


@dataclass(frozen=True, slots=True)
class SaturationSettings:
    """Say how the e-graphs of networks are made; names and limits are those of ``optimize``."""

    rules: str = "default"
    cost: str = "analytic"
    e_nodes: int = 50_000
    seconds: float = 60.0
    iterations: int = 15
    k_multi: int = 1
    settle: int = 0

    def __post_init__(self) -> None:
        from workbench.costs.choose import cost_model
        from workbench.rules import rule_set
        from workbench.saturation import Limits

        Limits(self.e_nodes, self.seconds, self.iterations, self.k_multi, settle=self.settle)
        rule_set(self.rules)
        cost_model(self.cost)


@dataclass(frozen=True, slots=True)
class Instances:
    """Name the e-graphs of a study.

    ``files`` are patterns of egraph-serialize JSON files, relative to the study's own folder;
    ``${NAME}`` stands for an environment variable. ``networks`` are grown by our own rules.
    """

    files: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()
    saturation: SaturationSettings = field(default_factory=SaturationSettings)

    def __post_init__(self) -> None:
        from workbench.benchmarks import benchmarks

        _check_names("networks", "network", self.networks, benchmarks())
        _check_double("files", self.files)


@dataclass(frozen=True, slots=True)
class ExtractionStudy:
    """Ask for every e-graph to be extracted by every method.

    ``seconds`` bounds a run, ``seconds_for`` the runs of the methods it names; a run that is not over
    ``grace`` seconds later is killed. ``seed`` is that of Python's hashes, and so of the order in which
    sets are walked, on which no result should depend; every repeat takes the next one.
    """

    instances: Instances
    methods: tuple[str, ...]
    seconds: float = 60.0
    seconds_for: Mapping[str, float] = field(default_factory=dict)
    grace: float = 30.0
    repeats: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        from workbench.extraction import METHODS

        _check_names("methods", "extraction method", self.methods, METHODS)
        _check_names("seconds_for", "method of this study", self.seconds_for, self.methods)
        if not self.methods:
            raise StudyError("methods: name at least one")
        limits = {f"seconds_for.{name}": value for name, value in self.seconds_for.items()}
        for key, value in {"seconds": self.seconds, "repeats": self.repeats, **limits}.items():
            if not 0 < value < float("inf"):
                raise StudyError(f"{key}: {value} is not a positive number")
        for key, value in {"grace": self.grace, "seed": self.seed}.items():
            if not 0 <= value < 2**32:
                raise StudyError(f"{key}: {value} is not between 0 and 2^32")

    def limit(self, method: str) -> float:
        """Return the seconds that a run of a method may take."""
        return self.seconds_for.get(method, self.seconds)


#: The kinds of studies and their settings.
KINDS: Final = {"extraction": ExtractionStudy}

_NOUNS: Final = {
    dict: "a mapping",
    list: "a list",
    str: "a text",
    bool: "true or false",
    int: "a number",
    float: "a number",
    type(None): "empty",
}


def read_study(path: str | Path) -> ExtractionStudy:
    """Read a study; raise :class:`StudyError` with the key at fault, and the nearest one that exists."""
    file = Path(path)
    try:
        node = yaml.compose(file.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
        data = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise StudyError(
            f"{file.name} is not YAML that can be read: {' '.join(str(error).split())}"
        ) from None
    try:
        _check_keys(node)
        if not isinstance(data, dict):
            raise StudyError(f"a study is a mapping of keys to values, not {_said(data)}")
        if "kind" not in data:
            raise StudyError(f"'kind' is missing; it is one of {', '.join(KINDS)}")
        kind = data.pop("kind")
        if not isinstance(kind, str):
            raise StudyError(f"kind: {_said(kind)} where a text is expected")
        _check_names("kind", "kind of study", [kind], KINDS)
        return _object(KINDS[kind], data, "")
    except StudyError as error:
        raise StudyError(f"{file.name}: {error}") from None


def _check_keys(node: Any) -> None:
    """Raise where a mapping has a key twice, of which YAML would keep the last without a word."""
    if isinstance(node, yaml.MappingNode):
        seen = set()
        for key, value in node.value:
            if key.value in seen:
                raise StudyError(f"line {key.start_mark.line + 1}: {key.value!r} stands there twice")
            seen.add(key.value)
            _check_keys(value)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            _check_keys(value)


def _object(cls: type[T], data: Mapping[Any, Any], prefix: str) -> T:
    """Make an object of settings from a mapping; ``prefix`` is the path of keys that leads to it."""
    hints = get_type_hints(cls)
    fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    for key in data:
        if key not in fields:
            raise StudyError(f"unknown key '{prefix}{key}'{_nearest(str(key), fields)}")
    for name, f in fields.items():
        needed = f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
        if needed and name not in data:
            raise StudyError(f"'{prefix}{name}' is missing")
    values = {key: _value(hints[key], value, f"{prefix}{key}") for key, value in data.items()}
    try:
        return cls(**values)
    except StudyError as error:
        raise StudyError(f"{prefix}{error}") from None
    except (ValueError, LookupError, OSError) as error:
        where = prefix.rstrip(".") + ": " if prefix else ""
        raise StudyError(f"{where}{error.args[0] if error.args else error}") from None


def _value(hint: Any, data: Any, key: str) -> Any:
    """Return a value of the type that a key wants."""
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _object(hint, _of(dict, data, key), f"{key}.")
    if get_origin(hint) is tuple:
        return tuple(_of(str, item, f"{key}[{i}]") for i, item in enumerate(_of(list, data, key)))
    if hint is float:
        return float(_of(float, data, key))
    if hint in (int, str):
        return _of(hint, data, key)
    return {
        _of(str, name, key): float(_of(float, value, f"{key}.{name}"))
        for name, value in _of(dict, data, key).items()
    }


def _of(kind: type, data: Any, key: str) -> Any:
    fits: Callable[[Any], bool] = {
        float: lambda d: isinstance(d, int | float) and not isinstance(d, bool),
        int: lambda d: isinstance(d, int) and not isinstance(d, bool),
    }.get(kind, lambda d: isinstance(d, kind))
    if not fits(data):
        wanted = "a whole number" if kind is int else _NOUNS[kind]
        raise StudyError(f"{key}: {_said(data)} where {wanted} is expected")
    return data


def _said(data: Any) -> str:
    """Return what a value is, and the value where it is short."""
    noun = _NOUNS.get(type(data), f"a {type(data).__name__}")
    return noun if isinstance(data, dict | list | None) else f"{noun} ({str(data)[:40]!r})"


def _check_names(key: str, noun: str, names: Iterable[str], known: Iterable[str]) -> None:
    known = list(known)
    for name in names:
        if name not in known:
            hint = _nearest(name, known) or "."
            raise StudyError(f"{key}: no {noun} is called {name!r}{hint} There are: {', '.join(known)}")
    _check_double(key, names)


def _check_double(key: str, names: Iterable[str]) -> None:
    seen = set()
    for name in names:
        if name in seen:
            raise StudyError(f"{key}: {name!r} stands there twice")
        seen.add(name)


def _nearest(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), 1, 0.5)
    return f"; did you mean {near[0]}?" if near else ""
