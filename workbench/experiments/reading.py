"""YAML read strictly into frozen settings: what is wrong is named with its key, and the nearest there is."""

from __future__ import annotations

import dataclasses
import difflib
import re
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar, get_args, get_origin, get_type_hints

import yaml

from workbench.experiments.resources import is_file_name

T = TypeVar("T")


class StudyError(ValueError):
    """Say what is wrong with a study, and at which key."""


_NOUNS: Final = {
    dict: "a mapping",
    list: "a list",
    str: "a text",
    bool: "true or false",
    int: "a number",
    float: "a number",
    type(None): "empty",
}

#: Studies are written by hand: none has more characters, levels or (aliases written out) values.
LONGEST: Final = 1 << 20
DEEPEST: Final = 50
MOST_NODES: Final = 100_000

_PLAIN: Final = (int, float, bool, str)


def parse(text: str) -> dict[Any, Any]:
    """Return a YAML text as a mapping; raise :class:`StudyError` where it is none or has a key twice.

    Raise yaml.YAMLError where it cannot be read at all.
    """
    _check_size(text)
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    _check_aliases(node)
    data = yaml.safe_load(text)
    _check_keys(node)
    if not isinstance(data, dict):
        raise StudyError(f"a study is a mapping of keys to values, not {said(data)}")
    return data


def _check_size(text: str) -> None:
    """Refuse a text that is longer, or nested deeper, than a study that is meant."""
    if len(text) > LONGEST:
        raise StudyError(f"a study has at most {LONGEST} characters, not {len(text)}")
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            line = event.start_mark.line + 1
            raise StudyError(f"line {line}: a study is nested at most {DEEPEST} levels deep")


def _check_aliases(root: Any) -> None:
    """Refuse aliases that contain themselves, or multiply the study beyond :data:`MOST_NODES`."""
    sizes: dict[int, int] = {}

    def size(node: Any) -> int:
        if id(node) in sizes:
            if not sizes[id(node)]:
                raise StudyError(f"line {node.start_mark.line + 1}: an alias contains itself")
            return sizes[id(node)]
        sizes[id(node)] = 0
        parts = [] if isinstance(node, yaml.ScalarNode) else node.value
        pairs = isinstance(node, yaml.MappingNode)
        total = 1 + sum(size(p[0]) + size(p[1]) if pairs else size(p) for p in parts)
        if total > MOST_NODES:
            raise StudyError(f"line {node.start_mark.line + 1}: aliases make more than {MOST_NODES} values")
        sizes[id(node)] = total
        return total

    if root is not None:
        size(root)


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


def read_object(cls: type[T], data: Mapping[Any, Any], prefix: str = "") -> T:
    """Make an object of settings from a mapping; ``prefix`` is the path of keys that leads to it."""
    hints = get_type_hints(cls)
    fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    for key in data:
        if key not in fields:
            raise StudyError(f"unknown key '{prefix}{key}'{nearest(str(key), fields)}")
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
    if isinstance(hint, types.UnionType):
        if set(get_args(hint)) <= set(_PLAIN):
            return _plain(data, key)
        return _one_of(get_args(hint), dict(_of(dict, data, key)), key)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return read_object(hint, _of(dict, data, key), f"{key}.")
    if get_origin(hint) is tuple:
        kind = get_args(hint)[0]
        return tuple(_of(kind, item, f"{key}[{i}]") for i, item in enumerate(_of(list, data, key)))
    if hint is float:
        return float(_of(float, data, key))
    if hint in (int, str, bool):
        return _of(hint, data, key)
    value = get_args(hint)[1]
    return {
        _of(str, name, key): _value(value, v, f"{key}.{name}") for name, v in _of(dict, data, key).items()
    }


def _plain(data: Any, key: str) -> Any:
    """Return a number, a text or a truth value as it stands there."""
    if not isinstance(data, _PLAIN):
        raise StudyError(f"{key}: {said(data)} where a number, a text, or true or false is expected")
    return data


def _one_of(kinds: Iterable[Any], data: dict[Any, Any], key: str) -> Any:
    """Return one of several kinds of settings; ``by`` says which."""
    known = {kind.BY: kind for kind in kinds}
    if "by" not in data:
        raise StudyError(f"'{key}.by' is missing; it is one of {', '.join(known)}")
    by = _of(str, data.pop("by"), f"{key}.by")
    check_names(f"{key}.by", "way", [by], known)
    return read_object(known[by], data, f"{key}.")


def _of(kind: type, data: Any, key: str) -> Any:
    fits: Callable[[Any], bool] = {
        float: lambda d: isinstance(d, int | float) and not isinstance(d, bool),
        int: lambda d: isinstance(d, int) and not isinstance(d, bool),
    }.get(kind, lambda d: isinstance(d, kind))
    if not fits(data):
        wanted = "a whole number" if kind is int else _NOUNS[kind]
        raise StudyError(f"{key}: {said(data)} where {wanted} is expected")
    return data


def said(data: Any) -> str:
    """Return what a value is, and the value where it is short."""
    noun = _NOUNS.get(type(data), f"a {type(data).__name__}")
    return noun if isinstance(data, dict | list | None) else f"{noun} ({str(data)[:40]!r})"


def check_names(key: str, noun: str, names: Iterable[str], known: Iterable[str]) -> None:
    """Raise :class:`StudyError` for a name that is not known, with the nearest, and for one that is twice."""
    known = list(known)
    for name in names:
        if name not in known:
            hint = nearest(name, known) or "."
            raise StudyError(f"{key}: no {noun} is called {name!r}{hint} There are: {', '.join(known)}")
    check_double(key, names)


def check_double(key: str, names: Iterable[str]) -> None:
    """Raise :class:`StudyError` for a name that stands there twice."""
    seen = set()
    for name in names:
        if name in seen:
            raise StudyError(f"{key}: {name!r} stands there twice")
        seen.add(name)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return ``; did you mean NAME?`` where a name is near to a known one, else nothing."""
    near = difflib.get_close_matches(name, list(known), 1, 0.5)
    return f"; did you mean {near[0]}?" if near else ""


def check_numbers(
    seconds: Mapping[str, float], grace: float = 0.0, memory: float = 1.0, repeats: int = 1, seed: int = 0
) -> None:
    """Raise :class:`StudyError` for a limit, by its key, that is not positive, or a seed that is none."""
    for key, value in {**seconds, "memory": memory, "repeats": repeats}.items():
        if not 0 < value < float("inf"):
            raise StudyError(f"{key}: {value} is not a positive number")
    for key, value in {"grace": grace, "seed": seed}.items():
        if not 0 <= value < 2**32:
            raise StudyError(f"{key}: {value} is not between 0 and 2^32")


def check_keys(key: str, names: Iterable[str]) -> None:
    """Raise :class:`StudyError` for a name that a study gives and that makes no folder's name."""
    for name in names:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
            raise StudyError(f"{key}: {name!r} is no name: letters, digits, '.', '_' and '-' make one")


def check_rules(rules: str) -> None:
    """Raise LookupError with the nearest name where rules are neither a file's nor a set's name."""
    from workbench.rules import rule_set

    if not is_file_name(rules):
        rule_set(rules)
