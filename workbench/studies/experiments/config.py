"""Settings of studies: YAML read strictly, checks whose errors name the key at fault, settings of several kinds."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import types
import typing
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias, TypeVar

import pydantic
import yaml
from pydantic import AfterValidator, ConfigDict, Field, NonNegativeFloat, PositiveFloat, PositiveInt

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
V = TypeVar("V", bound=Collection[Any])


class StudyError(ValueError):
    """Raised when a study is not valid; the message names the key at fault."""


_NOUNS: Final = {
    dict: "a mapping", list: "a list", str: "a text", bool: "true or false", int: "a number", float: "a number",
    type(None): "empty",
}  # fmt: skip


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


@dataclass(frozen=True, slots=True)
class Declared:
    """The base of the settings in a study's file: pydantic reads them strictly, by the types of their fields."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


def _some(values: V) -> V:
    if not values:
        raise ValueError("must name at least one, got none")
    return values


def _unique(values: V) -> V:
    if twice := [value for value, count in Counter(values).items() if count > 1]:
        raise ValueError(f"must be distinct, got {twice[0]!r} twice")
    return values


#: The fields with these annotations have at least one value, or no value twice.
Some, Unique = AfterValidator(_some), AfterValidator(_unique)
Distinct: TypeAlias = Annotated[tuple[str, ...], Unique]
Names: TypeAlias = Annotated[tuple[str, ...], Unique, Some]


def read_object(cls: type[T], data: Mapping[str, Any]) -> T:
    """Return settings of a class of :class:`Declared` from a mapping.

    Raise :class:`StudyError` for an unknown or missing key, a value of another type, or invalid settings.
    """
    try:
        text = json.dumps(data, default=str)
    except (TypeError, ValueError):
        raise StudyError("a study must have texts as keys, and nothing that contains itself") from None
    try:
        # A list is a tuple and a mapping an object in strict JSON; nothing else is taken for another type.
        return pydantic.TypeAdapter(cls).validate_json(text)
    except pydantic.ValidationError as error:
        raise StudyError(_message(cls, error.errors(include_url=False))) from None
    except OSError as error:  # of a file that settings name
        raise StudyError(str(error)) from None


#: Pydantic's words, and those for YAML.
_WORDS: Final = {
    "a valid array": "a list", "an object": "a mapping", "a valid string": "a text", "a valid number": "a number",
    "a valid integer": "a whole number", "a valid boolean": "true or false", "greater than or equal to": "at least",
    "less than or equal to": "at most",
}  # fmt: skip


def _message(cls: type, errors: Sequence[Any]) -> str:
    """Return what is wrong with the settings of a class: an unknown key, as it may be a missing one, or the first."""
    error = min(errors, key=lambda e: e["type"] != "unexpected_keyword_argument")
    kind, value = error["type"], error["input"]
    *above, name = error["loc"] if kind in ("unexpected_keyword_argument", "missing") else (*error["loc"], "")
    key, hint = _place(cls, above)
    inside = f"{key}." if key else ""
    fields = [f.name for f in dataclasses.fields(hint)] if dataclasses.is_dataclass(hint) else []
    if kind == "unexpected_keyword_argument":
        return f"unknown key '{inside}{name}'" + (nearest(name, fields) or f" (try {', '.join(fields)})")
    if kind == "json_invalid":
        return "a study must have a few levels, got too many"
    if kind == "missing":
        return f"'{inside}{name}' is missing"
    if kind.startswith("union_tag"):
        return f"{inside}by must be one of {', '.join(_ways(hint))}, got {said(value.get('by'))}"
    if kind == "value_error":
        fault = error["ctx"]["error"]
        # A message about a key begins with its name, which then continues the path to it.
        own = isinstance(fault, StudyError) or str(fault).partition(" ")[0] in fields
        return (inside if own or not key else f"{key}: " if fields else f"{key} ") + str(fault)
    wanted = " or ".join(
        e["msg"].removeprefix("Input should be ") for e in errors if _place(cls, e["loc"])[0] == key
    )
    for word, here in _WORDS.items():
        wanted = wanted.replace(word, here)
    return f"{key} must be {wanted}, got {said(value) if kind.endswith('_type') else value}"


def _place(hint: Any, keys: Iterable[int | str]) -> tuple[str, Any]:
    """Return the path of keys from a class as text, and the type at its end; a union's key is that of its member."""
    path = ""
    for key in keys:
        if isinstance(hint, types.UnionType):
            hint = _ways(hint).get(str(key))
            continue
        path += f"[{key}]" if isinstance(key, int) else f".{key}" if path else key
        fields = typing.get_type_hints(hint) if dataclasses.is_dataclass(hint) else {}
        hint = fields.get(str(key)) or typing.get_args(hint)[typing.get_origin(hint) is not tuple]
    return path, hint


def _ways(union: types.UnionType) -> dict[str, type]:
    """Return the classes of a union by the value of their field ``by``."""
    ways = {typing.get_type_hints(kind).get("by"): kind for kind in typing.get_args(union)}
    return {typing.get_args(by)[0]: kind for by, kind in ways.items() if by}


def said(data: object) -> str:
    """Return a description of a value for messages: its kind and, for simple values, the value itself."""
    noun = _NOUNS.get(type(data), f"a {type(data).__name__}")
    return noun if isinstance(data, dict | list | None) else f"{noun} ({str(data)[:40]!r})"


def check_names(key: str, noun: str, names: Iterable[str], known: Iterable[str]) -> None:
    """Raise :class:`StudyError` for an unknown name, with the nearest known one.

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


def check_published(networks: Iterable[str], *more: str) -> None:
    """Raise :class:`StudyError` for a network that is neither a file's name, nor published, nor among ``more``."""
    from workbench.studies.benchmarks import benchmarks

    published = [name for name in networks if not is_file_name(name)]
    check_names("networks", "network", published, [*benchmarks(), *more])


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
class Study(Declared):
    """The settings of every study; a kind adds its own.

    A run is killed if it has not ended ``grace`` seconds after its limits; its process may use ``memory``
    GiB. ``seed`` is the seed of Python's hashes and of random inputs; each of the ``repeats`` takes the next one.
    """

    KIND: ClassVar[str]

    grace: NonNegativeFloat = 600.0
    memory: PositiveFloat = 12.0
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    repeats: PositiveInt = 1

    def rehearsed(self) -> Study:
        """Return the study with the settings of its rehearsal; raise :class:`StudyError` if it has none."""
        raise StudyError(f"a study of kind {self.KIND} has no rehearsal (try kind: latency)")

    def place(self, stem: str) -> str:
        """Return the name of the folder of results; ``stem`` is that of the study's file."""
        return stem


@dataclass(frozen=True, slots=True)
class SaturationMethod(Declared):
    """Settings of a method that saturates; names and limits are those of :func:`workbench.optimize`.

    ``seconds`` limits the saturation.
    ``rules`` is a rule set of the library or a file; from other systems' files only sound rules are used.
    ``extractor`` is a name of ``workbench.extractor.names()``: some break cycles first
    (``filtered``, ``tensat-filtered``), some exclude cycles by constraints of the integer program
    (``tensat``, ``tensat-integer``).
    """

    by: Literal["saturation"] = "saturation"
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
        given = {name: value for name, value in asdict(self).items() if name != "by"}
        return given | {"saturation_seconds": self.seconds, "seconds": self.limit + grace}


@dataclass(frozen=True, slots=True)
class SearchMethod(Declared):
    """Settings of a method that runs TASO's search; names are those of :func:`workbench.studies.search_optimize`.

    The modes other than ``sound`` run TASO's rules as published and need their file as ``rules``.
    """

    by: Literal["search"] = "search"
    rules: str = "default"
    mode: str = "sound"
    alpha: Annotated[float, Field(ge=1)] = 1.05
    budget: Annotated[int, Field(ge=0)] = 100
    growth: Annotated[float, Field(ge=1)] = 2.0
    seconds: PositiveFloat = 600.0

    def __post_init__(self) -> None:
        from workbench.studies.search.modes import MODES

        check_names("mode", "search mode", [self.mode], MODES)
        if MODES[self.mode]() and not is_file_name(self.rules):
            raise StudyError(
                f"rules must be a TASO rule file for mode {self.mode}, got {self.rules!r} "
                "(try PATH/graph_subst.pb)"
            )
        check_rules(self.rules)

    @property
    def limit(self) -> float:
        """Return the seconds that the limits allow."""
        return self.seconds

    def arguments(self, grace: float) -> dict[str, Any]:
        """Return the method as arguments of :func:`workbench.studies.search_optimize`."""
        return {name: value for name, value in asdict(self).items() if name != "by"}


Method: TypeAlias = Annotated[SaturationMethod | SearchMethod, Field(discriminator="by")]


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkStudy(Study):
    """The settings of every study of networks by methods, under one source of costs.

    ``networks`` are names of published networks, or model files, whose names without folder and suffix differ.
    """

    #: The sources of costs that only the kind knows.
    OWN_COSTS: ClassVar[tuple[str, ...]] = ()

    networks: Names
    methods: Annotated[Mapping[str, Method], Some]
    cost: str = "analytic"

    def check_networks(self) -> None:
        """Raise StudyError unless the study names networks, methods, and a source of costs."""
        from workbench.costs.registry import cost_model

        check_published(self.networks)
        titles = [title(name) for name in self.networks]
        if len({*titles}) < len(titles):
            raise StudyError(f"networks must have different names, got {', '.join(titles)}")
        check_keys("methods", self.methods)
        if not is_file_name(self.cost) and self.cost not in self.OWN_COSTS:
            cost_model(self.cost)
