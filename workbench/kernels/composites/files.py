"""Composites in files: ``.composite``, for people, YAML, for programs, and drawings; the library's own.

A ``.composite`` file has a head for each composite, at the left margin, and its equations indented below::

    # The root mean square's reciprocal times x and a gain.
    rms(eps=1e-5): x{T}[~ D], g{T}[D] -> y{T}[~ D]
        y[~ d] = x[~ d] * g[d] / sqrt(mean(e) x[~ e]^2 + eps)

The comment right above the head says what the composite computes. In YAML::

    rms:
      in: ["x{T}[~ D]", "g{T}[D]"]
      out: ["y{T}[~ D]"]
      impl: ["y[~ d] = x[~ d] * g[d] / sqrt(mean(e) x[~ e]^2 + eps)"]
      attributes: {eps: 1.0e-5}
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from workbench.graph.text import quoted
from workbench.kernels.composites.composite import Composite, NotationError
from workbench.kernels.composites.equations import parse
from workbench.kernels.composites.expressions import FUNCTIONS, Apply, Read, Reduce, Scalar, children
from workbench.support.files import data_folder
from workbench.support.messages import yaml_reason

_HEAD: Final = re.compile(r"([A-Za-z]\w*)\s*(?:\(([^)]*)\))?\s*:(.*)")
_KEYS: Final = ("in", "out", "where", "impl", "attributes", "doc")


def load(path: str | Path, composites: Mapping[str, Composite] | None = None) -> dict[str, Composite]:
    """Return the composites of a ``.composite``, ``.yaml`` or ``.yml`` file by name, in order.

    They may call those before them, and ``composites``. Raise NotationError if the file cannot be read; the message
    names the composite and shows the place.
    """
    place = Path(path)
    if place.suffix in (".yaml", ".yml"):
        return from_yaml(place.read_text(), composites, place.name)
    if place.suffix != ".composite":
        raise NotationError(f"a file of composites must end in .composite, .yaml or .yml, got {place.name}")
    return from_text(place.read_text(), composites, place.name)


def from_text(
    text: str, composites: Mapping[str, Composite] | None = None, file: str = ""
) -> dict[str, Composite]:
    """Return the composites of the text of a ``.composite`` file; raise NotationError with the place."""
    found: dict[str, Composite] = {}
    for line, name, given, signature, body, doc in _entries(text, file):
        if name in found:
            raise NotationError(f"{_at(file, line)}composite {name} is declared twice")
        try:
            attributes = _attributes(given)
            known = {**(composites or {}), **found}
            found[name] = parse(name, signature, body, composites=known, doc=doc, **attributes)
        except NotationError as error:
            raise error.within(f"{_at(file, line)}{name}: ") from None
    return found


def _at(file: str, line: int) -> str:
    return f"{file}, line {line}: " if file else f"line {line}: "


def _entries(text: str, file: str) -> Iterator[tuple[int, str, str, str, str, str]]:
    comment: list[str] = []
    head: tuple[int, str, str, str, str] | None = None
    body: list[str] = []
    for number, line in enumerate([*text.splitlines(), "#"], 1):
        if line[:1] in (" ", "\t") and line.strip():
            if head is None:
                raise NotationError(f"{_at(file, number)}an equation must follow a head such as name: x -> y")
            body.append(line.strip())
            continue
        if line.strip() and head is not None:
            at, name, given, signature, doc = head
            yield at, name, given, signature, "\n".join(body), doc
            head, body = None, []
        if line.startswith("#"):
            comment.append(line.lstrip("# ").rstrip())
        elif not line.strip():
            comment = []
        else:
            match = _HEAD.fullmatch(line.rstrip())
            if match is None:
                raise NotationError(
                    f"{_at(file, number)}a head must be name: operands -> results", line, 0, len(line)
                )
            head = number, match[1], match[2] or "", match[3].strip(), " ".join(comment)
            comment = []


def _attributes(text: str) -> dict[str, int | float]:
    found: dict[str, int | float] = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, equals, value = (p.strip() for p in part.partition("="))
        try:
            if not equals:
                raise ValueError
            found[name] = int(value) if re.fullmatch(r"-?\d+", value) else float(value)
        except ValueError:
            raise NotationError(f"an attribute must be name=number, got {part!r}") from None
    return found


def from_yaml(
    text: str, composites: Mapping[str, Composite] | None = None, file: str = ""
) -> dict[str, Composite]:
    """Return the composites of YAML text; raise NotationError with the name of the wrong one."""
    import yaml

    try:
        given = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise NotationError(f"{file or 'the text'} is not YAML: {yaml_reason(error)}") from None
    if not isinstance(given, dict):
        raise NotationError(f"{file or 'the text'} must be a map of composites by name")
    found: dict[str, Composite] = {}
    for name, entry in given.items():
        place = f"{file}: {name}" if file else str(name)
        if isinstance(entry, list) and len(entry) and all(isinstance(part, dict) for part in entry):
            entry = {key: value for part in entry for key, value in part.items()}
        if not isinstance(entry, dict) or not {"out", "impl"} <= set(entry):
            raise NotationError(f"{place} must have the keys in, out and impl")
        if wrong := sorted(set(entry) - set(_KEYS)):
            raise NotationError(f"{place} has the unknown key {wrong[0]!r} (try {', '.join(_KEYS)})")
        signature = " -> ".join(", ".join(_texts(entry.get(key))) for key in ("in", "out"))
        if entry.get("where"):
            signature += f" where {', '.join(_texts(entry['where']))}"
        try:
            found[str(name)] = parse(
                str(name),
                signature,
                "\n".join(_texts(entry["impl"])),
                composites={**(composites or {}), **found},
                doc=str(entry.get("doc", "")),
                **{str(k): v for k, v in (entry.get("attributes") or {}).items()},
            )
        except NotationError as error:
            raise error.within(f"{place}: ") from None
    return found


def _texts(value: Any) -> list[str]:
    return [str(v) for v in (value if isinstance(value, list) else [value]) if value is not None]


def folder() -> Path:
    """Return the folder of the library, in the package or next to it; raise FileNotFoundError without one."""
    return data_folder("composites", "the library of composites (composites/*.composite) is")


@lru_cache(maxsize=1)
def library() -> Mapping[str, Composite]:
    """Return the composites of the library by name; files are read in the order of their names.

    Raise NotationError if a file cannot be read or declares a name again.
    """
    found: dict[str, Composite] = {}
    for path in sorted(folder().glob("*.composite")):
        more = load(path, found)
        if again := sorted(set(more) & set(found)):
            raise NotationError(f"{path.name} declares {again[0]}, which another file declares")
        found |= more
    return MappingProxyType(found)


# -- drawings -------------------------------------------------------------------------------------------
def drawing(composite: Composite) -> str:
    """Return a drawing in Graphviz's language, which needs no package.

    >>> from workbench.kernels.composites import parse
    >>> print(drawing(parse("twice", "x{T}[~] -> y{T}[~]", "y = x + x")), end="")
    digraph "twice" {
      t0 [label="x{T}[~]", shape=plaintext]
      n0 [label="+"]
      t0 -> n0 [label="x[~]"]
      t1 [label="y[~]", shape=plaintext]
      n0 -> t1
    }
    """
    lines: list[str] = []
    tensors: dict[str, str] = {}
    seen: dict[Scalar, str] = {}

    def name(tensor: str, label: str) -> str:
        tensors[tensor] = f"t{len(tensors)}"
        lines.append(f"{tensors[tensor]} [label={quoted(label)}, shape=plaintext]")
        return tensors[tensor]

    def arrow(source: tuple[str, str], target: str) -> None:
        lines.append(f"{source[0]} -> {target}" + (f" [label={quoted(source[1])}]" if source[1] else ""))

    def draw(e: Scalar) -> tuple[str, str]:
        """Return the node of an expression and the label of the arrow from it."""
        if isinstance(e, Read):
            return tensors[e.tensor], str(e)
        if e not in seen:
            below = dict.fromkeys(map(draw, children(e)))
            seen[e] = node = f"n{len(seen)}"
            lines.append(f"{node} [label={quoted(_label(e))}]")
            for source in below:
                arrow(source, node)
        return seen[e], ""

    for t in composite.inputs:
        name(t.name, str(t))
    for equation in composite.equations:
        source = draw(equation.value)
        arrow(source, name(equation.target, str(equation).partition(" = ")[0]))
    inside = "".join(f"  {line}\n" for line in lines)
    return f"digraph {quoted(composite.name)} {{\n{inside}}}\n"


def _label(e: Scalar) -> str:
    match e:
        case Apply(function):
            return FUNCTIONS[function].sign.strip() or function
        case Reduce(function, over):
            return f"{function} over {', '.join(map(str, over))}"
    return str(e)
