"""What the commands share: options, checks of what is given, results as JSON."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated, Any

import typer

from workbench.files import UnwritableOutput


class Extractor(enum.StrEnum):
    """Name the ways to extract."""

    tree = "tree"
    dag = "dag"
    exact = "exact"


ModelArgument = Annotated[
    Path, typer.Argument(metavar="MODEL", help="ONNX file, or a file.model of TASO's.", show_default=False)
]
CostOption = Annotated[
    str, typer.Option(metavar="analytic|cpu|PATH", help="Cost model, or a recorded table.")
]
OwnCostOption = Annotated[
    str,
    typer.Option(
        metavar="cpu|analytic|PATH",
        help="Cost model: this machine, another device's roofline (analytic is a T4's), a recorded table.",
    ),
]
DimOption = Annotated[
    list[str], typer.Option("--dim", metavar="NAME=VALUE", help="Fix a symbolic dimension; repeatable.")
]
SizeOption = Annotated[
    list[str],
    typer.Option(
        "--size", metavar="NAME=VALUE", help="Size of a symbolic dimension to price at; it stays symbolic."
    ),
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr.")]


def check_input(model: Path) -> None:
    """Raise an OSError that says what is wrong where a path is no file."""
    if not model.exists():
        raise FileNotFoundError(f"there is no file {model}")
    if model.is_dir():
        raise IsADirectoryError(f"{model} is a folder; name the model file in it")


def dimensions(texts: list[str], option: str = "--dim") -> dict[str, int] | None:
    """Return ``NAME=VALUE`` texts as a mapping, None for none; raise ValueError for another form."""
    found: dict[str, int] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals and value.isdecimal()) or int(value) < 1:
            raise ValueError(f"{option} {text}: NAME=VALUE with a positive whole number is expected")
        found[name] = int(value)
    return found or None


def to_json(data: Any) -> str:
    """Return data as JSON text; what is not finite becomes null."""
    import json
    import math

    def finite(value: Any) -> Any:
        if isinstance(value, float) and not math.isfinite(value):
            return None
        if isinstance(value, dict):
            return {str(k): finite(v) for k, v in value.items()}
        return [finite(v) for v in value] if isinstance(value, list | tuple) else value

    return json.dumps(finite(data), indent=2, ensure_ascii=False, default=str) + "\n"


def writing(action: Any) -> None:
    """Do what writes a file; an OSError becomes :class:`~workbench.files.UnwritableOutput`."""
    try:
        action()
    except OSError as error:
        raise UnwritableOutput(str(error)) from error
