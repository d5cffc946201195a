"""The library's folder, and the recorded verdicts on its rules."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from workbench.rules.pattern import Rule, format_rule


def library() -> Path:
    """Return the folder of the rule library: in the repository, or inside an installed package."""
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "_rules", package.parent / "rules"):
        if folder.is_dir():
            return folder
    raise FileNotFoundError("the rule library (*.rules) is missing from this installation")


def statuses() -> dict[str, dict[str, Any]]:
    """Return the record of the library's rules, by name: status, law, and a short form of the evidence."""
    file = library() / "status.json"
    return _read_statuses(file, file.stat().st_mtime_ns) if file.is_file() else {}


@lru_cache(maxsize=2)
def _read_statuses(file: Path, _: int) -> dict[str, dict[str, Any]]:
    record: dict[str, dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))["rules"]
    return record


def verdict_of(rule: Rule) -> str:
    """Return the recorded verdict on a rule of the library, and ``unknown`` for any other rule."""
    known = statuses().get(rule.name)
    return str(known["status"]) if known is not None and known["law"] == law_of(rule) else "unknown"


def law_of(rule: Rule) -> str:
    """Return a rule's law without name and provenance, which is the subject of a status."""
    return format_rule(rule).partition(": ")[2].partition("  @")[0]
