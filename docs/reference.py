"""Write the pages that are made from the package: operators from their specifications, and the interface."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import workbench
from workbench.ops import OpSpec, Trait, operators
from workbench.rules import Rule, rule_set
from workbench.rules.pattern import App, format_rule, subterms

#: The modules of the interface, with what they are for.
MODULES: Final = {
    "workbench.graph": "Graphs: typed operators in order, built by `GraphBuilder`",
    "workbench.rules": "Rules and rule sets",
    "workbench.saturation": "Saturation, step by step, with its limits",
    "workbench.extraction": "Extraction: the cheapest term, with a proof",
    "workbench.costs": "Cost models",
    "workbench.verification.verify": "Verification of rules",
    "workbench.optimizer.result": "What `optimize` returns",
    "workbench.run.trace": "Traces: the steps of a run as data",
    "workbench.plots": "Figures",
    "workbench.results": "Stored runs",
}


def write(folder: Path) -> None:
    """Write all pages into a folder."""
    folder.mkdir(exist_ok=True)
    for name, text in (("operators", operators_page()), ("interface", interface_page())):
        page = folder / f"{name}.md"
        if not page.is_file() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")


def operators_page() -> str:
    """Return the page of all operators, family by family."""
    laws: dict[str, list[Rule]] = {}
    for rule in rule_set("default"):
        for name in sorted({t.op for root in rule.sources for t in subterms(root) if isinstance(t, App)}):
            laws.setdefault(name, []).append(rule)
    families: dict[str, list[OpSpec]] = {}
    for spec in operators():
        if Trait.OWN not in spec.traits:
            family = spec.infer or spec.evaluate
            name = family.__module__.rpartition(".")[2] if family else "leaves"
            families.setdefault(name, []).append(spec)
    parts = [
        "# Operators",
        "One specification is all that the workbench knows of an operator; this page is made from them. An"
        " operator of your own has the same parts: [how to add one](../how-to/operator.md).",
    ]
    for family, specs in sorted(families.items()):
        parts.append(f"## {family.capitalize()}")
        parts += [
            operator_text(spec, laws.get(spec.name, [])) for spec in sorted(specs, key=lambda s: s.name)
        ]
    return "\n\n".join(parts) + "\n"


def operator_text(spec: OpSpec, laws: list[Rule]) -> str:
    """Return the section of one operator."""
    least, most = spec.min_inputs, spec.max_inputs
    count = f"{least} or more" if spec.variadic else str(least) if least == most else f"{least} to {most}"
    traits = ", ".join(sorted(str(t.name).lower().replace("_", " ") for t in spec.traits)) or "none"
    facts = [
        f"operands: {count}",
        *(f"attribute `{a.name}`: {a.kind}, {default(a.default)}" for a in spec.attrs),
        f"written to ONNX files: {'as nodes' if spec.export else 'as a constant or a name'}",
        f"in torch: {'yes' if spec.torch else 'no'}",
        f"exact arithmetic: {'a form of its own' if spec.exact else 'in decimals'}",
        f"traits: {traits}",
    ]
    if laws:
        facts.append(f"default rules that rewrite it: {len(laws)}, such as `{format_rule(laws[0])}`")
    meaning = [f"{spec.doc[:1].upper()}{spec.doc[1:].rstrip('.')}."] if spec.doc else []
    return "\n\n".join([f"### {spec.name}", *meaning, "\n".join(f"- {fact}" for fact in facts)])


def default(value: object) -> str:
    """Return the default of an attribute as a text."""
    return "needed" if value is None else f"by default `{value}`"


def interface_page() -> str:
    """Return the page of the interface: the names of the package, then the modules behind them."""
    parts = ["# Interface", "The names of `import workbench`. Modules with more are below.", "```{eval-rst}"]
    for name in sorted(workbench.__all__, key=str.lower):
        thing = getattr(workbench, name)
        kind = "autoclass" if isinstance(thing, type) else "autofunction"
        options = "\n   :members:\n   :no-index:" if kind == "autoclass" else "\n   :no-index:"
        parts.append(f".. {kind}:: workbench.{name}{options}\n")
    parts.append("```")
    for module, about in MODULES.items():
        parts += [
            f"## {module}",
            f"{about}.",
            "```{eval-rst}",
            f".. automodule:: {module}\n   :members:",
            "```",
        ]
    return "\n\n".join(parts) + "\n"
