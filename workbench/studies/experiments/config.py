"""Settings of studies: YAML read strictly, checks whose errors name the key at fault, settings of several kinds."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
import types
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

import yaml

from workbench.optimizer.settings import Settings
from workbench.run.settings import check, same
from workbench.saturation.limits import Limits
from workbench.support.messages import nearest, unknown

# -- reading ----------------------------------------------------------------------------------------------
#: Suffixes by which the name of a file is recognised if it has no folder.
SUFFIXES: Final = (".rules", ".pb", ".txt", ".parquet", ".yaml", ".onnx", ".model")


def is_file_name(text: str) -> bool:
    """Return whether a setting names a file, and not an entry of the library.

    >>> [is_file_name(t) for t in ("default", "own.rules", "${SHARED}/graph_subst.pb", "analytic:t4")]
    [False, True, True, False]
    """
    return "/" in text or "${" in text or text.endswith(SUFFIXES)


def title(network: str) -> str:
    """Return the name of a network in tables: for a file its name without folder and suffix."""
    return Path(network).stem if is_file_name(network) else network


def unset(text: str) -> str | None:
    """Return the first environment variable that a text needs and that is not set, or None."""
    return next((name for name in re.findall(r"\$\{(\w+)\}", text) if not os.environ.get(name)), None)


def filled(text: str) -> str:
    """Return a text with ``${NAME}`` replaced by the environment's values; all of them must be set."""
    return re.sub(r"\$\{(\w+)\}", lambda match: os.environ[match[1]], text)


def sha256(file: Path) -> str:
    """Return the SHA-256 digest of a file's contents."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def resource(text: str, home: Path) -> tuple[str, Any, str]:
    """Return the value of a setting, its form in a run's settings, and the reason if its file is missing.

    The value is the name of an entry of the library, or the path of a file. A file appears in the run's
    settings with its digest, or without one if it is missing. The reason is empty for an existing resource.
    """
    if not is_file_name(text):
        return text, text, ""
    if name := unset(text):
        return text, {"file": text}, f"{text}: {name} is not set in the environment"
    file = home / filled(text)
    if not file.is_file():
        return text, {"file": text}, f"{text}: no such file"
    return str(file), {"file": text, "sha256": sha256(file)}, ""


T = TypeVar("T")


class StudyError(ValueError):
    """Raised when a study is not valid; the message names the key at fault."""


_NOUNS: Final = {
    dict: "a mapping",
    list: "a list",
    str: "a text",
    bool: "true or false",
    int: "a number",
    float: "a number",
    type(None): "empty",
}


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """A reader of YAML that refuses a duplicate key, of which YAML would silently keep the last value."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return a mapping; raise :class:`StudyError` if a key stands twice in it."""
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise StudyError(f"line {key.start_mark.line + 1}: the key {key.value!r} is duplicated")
            seen.add(key.value if isinstance(key, yaml.ScalarNode) else id(key))
        return super().construct_mapping(node, deep)


def parse(text: str) -> dict[Any, Any]:
    """Return a YAML text as a mapping; raise YAMLError or :class:`StudyError` for another text or a duplicate key."""
    try:
        data = yaml.load(text, Loader=_Loader)
    except RecursionError:
        raise StudyError("a study must have a few levels, got too many") from None
    if not isinstance(data, dict):
        raise StudyError(f"a study must be a mapping of keys to values, got {said(data)}")
    return data


def read_object(cls: type[T], data: Mapping[Any, Any], prefix: str = "") -> T:
    """Return settings of a class from a mapping; ``prefix`` is the path of keys that leads to it.

    Raise :class:`StudyError` for an unknown or missing key, a value of another type, or invalid settings.
    """
    hints = get_type_hints(cls)
    fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    for key in data:
        if key not in fields:
            hint = nearest(str(key), fields) or f" (try {', '.join(fields)})"
            raise StudyError(f"unknown key '{prefix}{key}'{hint}")
    for name, f in fields.items():
        if f.default is f.default_factory is dataclasses.MISSING and name not in data:
            raise StudyError(f"'{prefix}{name}' is missing")
    values = {key: _value(hints[key], value, f"{prefix}{key}") for key, value in data.items()}
    try:
        return cls(**values)
    except StudyError as error:
        raise StudyError(f"{prefix}{error}") from None
    except (ValueError, LookupError, OSError) as error:
        message = str(error.args[0] if error.args else error)
        # A message about a key begins with its name, which then continues the path to it.
        own = message.partition(" ")[0] in fields
        path = prefix if own or not prefix else prefix.rstrip(".") + ": "
        raise StudyError(path + message) from None


def _value(hint: Any, data: Any, key: str) -> Any:
    """Return a value of the type that a field declares; raise StudyError if the data do not fit it."""
    if isinstance(hint, types.UnionType) and dataclasses.is_dataclass(get_args(hint)[0]):
        given, known = dict(_of(dict, data, key)), {kind.BY: kind for kind in get_args(hint)}
        if "by" not in given:
            raise StudyError(f"'{key}.by' is missing; it must be one of {', '.join(known)}")
        by = _of(str, given.pop("by"), f"{key}.by")
        check_names(f"{key}.by", "way", [by], known)
        return read_object(known[by], given, f"{key}.")
    if isinstance(hint, types.UnionType):
        if not isinstance(data, int | float | str):
            raise StudyError(f"{key} must be a number, a text, or true or false, got {said(data)}")
        return data
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


def _of(kind: type, data: Any, key: str) -> Any:
    fits = isinstance(data, int | float if kind is float else kind)
    if not fits or (isinstance(data, bool) and kind is not bool):
        wanted = "a whole number" if kind is int else _NOUNS[kind]
        raise StudyError(f"{key} must be {wanted}, got {said(data)}")
    return data


def said(data: object) -> str:
    """Return a description of a value for messages: its kind and, for simple values, the value itself."""
    noun = _NOUNS.get(type(data), f"a {type(data).__name__}")
    return noun if isinstance(data, dict | list | None) else f"{noun} ({str(data)[:40]!r})"


def check_given(**named: Collection[object]) -> None:
    """Raise :class:`StudyError` for the first key that names nothing."""
    for key, names in named.items():
        if not names:
            raise StudyError(f"{key} must name at least one, got none")


def check_names(key: str, noun: str, names: Iterable[str], known: Iterable[str]) -> None:
    """Raise :class:`StudyError` for an unknown name, with the nearest known one, or for a duplicate.

    Args:
        key: The key of the names in the study.
        noun: A noun for the message, such as ``"network"``.
        names: The names to check.
        known: The valid names.
    """
    known = list(known)
    for name in names:
        if name not in known:
            raise StudyError(f"{key}: {unknown(noun, name, known)}")
    check_double(key, names)


def check_published(networks: Iterable[str], *more: str) -> None:
    """Raise :class:`StudyError` for a network that is neither a file's name, nor published, nor among ``more``."""
    from workbench.studies.benchmarks import benchmarks

    published = [name for name in networks if not is_file_name(name)]
    check_names("networks", "network", published, [*benchmarks(), *more])


def check_double(key: str, names: Iterable[str]) -> None:
    """Raise :class:`StudyError` for a duplicate name."""
    for name, count in Counter([*names]).items():
        if count > 1:
            raise StudyError(f"{key}: {name!r} is duplicated")


def check_numbers(**numbers: float) -> None:
    """Raise :class:`StudyError` unless all numbers are positive and finite."""
    for key, value in numbers.items():
        if not 0 < value < float("inf"):
            raise StudyError(f"{key} must be a positive number, got {value}")


def check_keys(key: str, names: Iterable[str]) -> None:
    """Raise :class:`StudyError` for a name that cannot be part of a folder's name."""
    for name in names:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
            raise StudyError(
                f"{key}: a name must start with a letter or digit and contain only letters, digits, '.', '_' "
                f"and '-', got {name!r}"
            )


def check_rules(rules: str) -> None:
    """Raise LookupError with the nearest name if a text is neither a file's name nor a rule set's name."""
    from workbench.rules import rule_set

    if not is_file_name(rules):
        rule_set(rules)


# -- settings of several kinds ----------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """The settings of every study; a kind adds its own.

    A run is killed if it has not ended ``grace`` seconds after its limits; its process may use ``memory``
    GiB. ``seed`` is the seed of Python's hashes and of random inputs; each of the ``repeats`` takes the next one.
    """

    KIND: ClassVar[str]

    grace: float = 600.0
    memory: float = 12.0
    seed: int = 0
    repeats: int = 1

    def check_limits(self, **numbers: float) -> None:
        """Raise :class:`StudyError` unless the numbers are positive and the settings above in range."""
        check_numbers(**numbers, repeats=self.repeats, memory=self.memory)
        for key, value in {"grace": self.grace, "seed": self.seed}.items():
            if not 0 <= value < 2**32:
                raise StudyError(f"{key} must be at least 0 and below 2^32, got {value}")


@dataclass(frozen=True, slots=True)
class SaturationMethod:
    """Settings of a method that saturates; names and limits are those of :func:`workbench.optimize`.

    ``seconds`` limits the saturation.
    ``rules`` is a rule set of the library or a file; from other systems' files only sound rules are used.
    ``extractor`` is a name of ``workbench.extractor.names()``: some break cycles first
    (``filtered``, ``tensat-filtered``), some exclude cycles by constraints of the integer program
    (``tensat``, ``tensat-integer``).
    """

    BY: ClassVar[str] = "saturation"

    rules: str = "default"
    e_nodes: int = same(Settings, "e_nodes")
    iterations: int = same(Settings, "iterations")
    k_multi: int = same(Settings, "k_multi")
    settle: int = same(Settings, "settle")
    seconds: float = same(Limits, "seconds")
    extractor: str = same(Settings, "extractor")
    extraction_seconds: float = same(Settings, "extraction_seconds", 60.0)

    def __post_init__(self) -> None:
        from workbench.extraction.registry import methods

        check(self)
        check_names("extractor", "extraction method", [self.extractor], methods())
        check_rules(self.rules)

    @property
    def limit(self) -> float:
        """Return the seconds that the limits allow."""
        return self.seconds + self.extraction_seconds

    def arguments(self, grace: float) -> dict[str, Any]:
        """Return the method as arguments of :func:`workbench.optimize`; the rest of a call takes at most ``grace``."""
        return asdict(self) | {"saturation_seconds": self.seconds, "seconds": self.limit + grace}


@dataclass(frozen=True, slots=True)
class SearchMethod:
    """Settings of a method that runs TASO's search; names are those of :func:`workbench.studies.search_optimize`.

    The modes other than ``sound`` run TASO's rules as published and need their file as ``rules``.
    """

    BY: ClassVar[str] = "search"

    rules: str = "default"
    mode: str = "sound"
    alpha: float = 1.05
    budget: int = 100
    growth: float = 2.0
    seconds: float = 600.0

    def __post_init__(self) -> None:
        from workbench.studies.search.modes import MODES

        check_names("mode", "search mode", [self.mode], MODES)
        if MODES[self.mode]() and not is_file_name(self.rules):
            raise StudyError(
                f"rules must be a TASO rule file for mode {self.mode}, got {self.rules!r} "
                "(try PATH/graph_subst.pb)"
            )
        for name, least in {"alpha": 1, "budget": 0, "growth": 1}.items():
            value = getattr(self, name)
            if not value >= least:
                raise StudyError(f"{name} must be at least {least}, got {value}")
        check_numbers(seconds=self.seconds)
        check_rules(self.rules)

    @property
    def limit(self) -> float:
        """Return the seconds that the limits allow."""
        return self.seconds

    def arguments(self, grace: float) -> dict[str, Any]:
        """Return the method as arguments of :func:`workbench.studies.search_optimize`."""
        return asdict(self)


Method: TypeAlias = SaturationMethod | SearchMethod


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkStudy(Study):
    """The settings of every study of networks by methods, under one source of costs.

    ``networks`` are names of published networks, or model files, whose names without folder and suffix differ.
    """

    networks: tuple[str, ...]
    methods: Mapping[str, Method]
    cost: str = "analytic"

    def check_networks(self) -> None:
        """Raise StudyError unless the study names networks, methods, and a source of costs."""
        from workbench.costs.registry import cost_model

        check_published(self.networks)
        check_given(networks=self.networks, methods=self.methods)
        titles = [title(name) for name in self.networks]
        if len({*titles}) < len(titles):
            raise StudyError(f"networks must have different names, got {', '.join(titles)}")
        check_keys("methods", self.methods)
        if not is_file_name(self.cost):
            cost_model(self.cost)
