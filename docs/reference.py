"""Write the pages that are made from the package: operators, options of commands, and the interface by topic."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

from operators import operators_page
from typer.main import get_command

import workbench
from workbench.faces.cli import app

DOCS: Final = Path(__file__).parent
#: The packages that users import names from.
DOORS: Final = ("workbench", "workbench.laws", "workbench.kernels", "workbench.studies")


class Topic(NamedTuple):
    """A page of the interface: its subject, names of ``import workbench``, and modules with more."""

    about: str
    first: str
    modules: tuple[str, ...] = ()


#: The topics of the interface in the order of the way through. A thing has its page in the first that names it.
TOPICS: Final = {
    "Optimise a model": Topic(
        "One call rewrites, extracts, certifies and times a model; its result knows all of it.",
        "optimize Optimized certify lab",
        ("workbench.optimizer.result", "workbench.certification"),
    ),
    "Models in and out": Topic(
        "ONNX, torch and TASO models become graphs, and graphs become files.",
        "load_model load_onnx load_torch save_model save_onnx benchmark",
        ("workbench.frontends",),
    ),
    "Graphs": Topic(
        "Typed operators in order, built by `GraphBuilder`; [operators](../operators.md) has each operator.",
        "Graph GraphBuilder operator",
        ("workbench.graph",),
    ),
    "Rules": Topic(
        "Rules, rule sets and what is known of them; [the rule language](../../rule-language.md) says how a rule"
        " is written.",
        "rule_set parse_rules",
        ("workbench.rules", "workbench.laws", "workbench.laws.verification.verify"),
    ),
    "Saturation": Topic(
        "An e-graph grows step by step within limits, and a trace keeps the steps.",
        "Saturation Limits Trace",
        ("workbench.saturation", "workbench.run.trace", "workbench.egraph"),
    ),
    "Extraction, costs and targets": Topic(
        "The cheapest term of an e-graph with a proof, the prices of its nodes, and what runs the result.",
        "extract cost_model target",
        ("workbench.extraction", "workbench.costs"),
    ),
    "Kernels": Topic("Composites in index notation and kernels in C.", "", ("workbench.kernels",)),
    "Studies and stored runs": Topic(
        "Experiments, comparisons, TASO's search, and the records that they leave.",
        "",
        (
            "workbench.studies",
            "workbench.studies.search",
            "workbench.studies.experiments.records",
            "workbench.results",
        ),
    ),
    "Figures": Topic("Plots of traces, costs and records with matplotlib.", "", ("workbench.faces.plots",)),
}  # fmt: skip


def write(folder: Path) -> None:
    """Write all pages into a folder, and delete pages of things that are gone."""
    pages = {"operators": operators_page(), "options": options_page(), **interface_pages()}
    for name, text in pages.items():
        page = folder / f"{name}.md"
        page.parent.mkdir(exist_ok=True, parents=True)
        if not page.is_file() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")
    for page in folder.rglob("*.md"):
        if page.relative_to(folder).with_suffix("").as_posix() not in pages:
            page.unlink()


def write_runs(folder: Path) -> None:
    """Write the page of the runs that the repository stores."""
    folder.mkdir(exist_ok=True)
    stored = workbench.results.browse(DOCS.parent / "results")
    if stored.skipped:
        raise ValueError(f"stored runs must be readable, got: {stored.skipped[0]}")
    stored.save_html(folder / "runs.html")


def public(module: ModuleType) -> Iterator[str]:
    """Yield the names of the classes and functions that a module documents."""
    for name in getattr(module, "__all__", [n for n in vars(module) if not n.startswith("_")]):
        thing = getattr(module, name)
        own = hasattr(module, "__all__") or getattr(thing, "__module__", "") == module.__name__
        if own and (inspect.isclass(thing) or inspect.isfunction(thing)):
            yield name


def interface() -> dict[str, dict[str, Any]]:
    """Return the things of every topic by their full names, each thing once."""
    topics: dict[str, dict[str, Any]] = {}
    known: set[int] = set()
    for title, topic in TOPICS.items():
        names = [("workbench", name) for name in topic.first.split()]
        names += [(module, name) for module in topic.modules for name in public(import_module(module))]
        things = topics[title] = {}
        for module, name in names:
            thing = getattr(import_module(module), name)
            if id(thing) not in known:
                known.add(id(thing))
                things[f"{module}.{name}"] = thing
    return topics


def interface_pages() -> dict[str, str]:
    """Return the pages of the interface: the list of topics, one page per topic, and one page per thing."""
    pages = {}
    listed = []
    for title, things in interface().items():
        topic = TOPICS[title]
        stem = re.sub(r"\W+", "-", title.lower())
        listed.append((stem, title, topic.about.replace("](../", "](")))
        rows = [f"| [`{name}`]({name}.md) | {sentence(thing)} |" for name, thing in things.items()]
        toctree = ["```{toctree}", ":hidden:", "", *(f"{n.rpartition('.')[2]} <{n}>" for n in things), "```"]
        pages[f"reference/{stem}"] = "\n".join(
            [f"# {title}", "", topic.about, "", "| name | what it is |", "|---|---|", *rows, "", *toctree, ""]
        )
        for name, thing in things.items():
            kind = ("autoclass", "\n   :members:") if inspect.isclass(thing) else ("autofunction", "")
            pages[f"reference/{name}"] = (
                f"# {name.rpartition('.')[2]}\n\n[{title}]({stem}.md)\n\n"
                f"```{{eval-rst}}\n.. {kind[0]}:: {name}{kind[1]}\n```\n"
            )
    pages["interface"] = "\n".join(
        [
            "# Interface", "",
            "What Python sees, by topic, in the order of the way through a model.", "",
            "| topic | |", "|---|---|",
            *(f"| [{title}](reference/{stem}.md) | {about} |" for stem, title, about in listed), "",
            "```{toctree}", ":hidden:", "", *(f"reference/{stem}" for stem, *_ in listed), "```", "",
        ]
    )  # fmt: skip
    return pages


def sentence(thing: Any) -> str:
    """Return the first sentence of a docstring as Markdown that fits a cell of a table."""
    text = (inspect.getdoc(thing) or "").partition("\n\n")[0].replace("\n", " ")
    text = re.sub(r":\w+:`~?(?:[\w.]+\.)?([^`]+)`", r"`\1`", text).replace("``", "`")
    return text.replace("|", r"\|")


def options_page() -> str:
    """Return the page of all commands with their arguments and options, as the parser has them."""
    parts = [
        "# Options of the command line",
        "Every command with all its arguments and options, made from the parser itself."
        " [The command line](../command-line.md) says what they are for.",
    ]
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]
        if not command.hidden:
            parts += [command_text(words, leaf) for words, leaf in leaves(name, command)]
    return "\n\n".join(parts) + "\n"


def leaves(name: str, command: Any) -> list[tuple[str, Any]]:
    """Return the commands of a group by their words, or a command alone."""
    group = getattr(command, "commands", None)
    return [(name, command)] if group is None else [(f"{name} {n}", c) for n, c in group.items()]


def command_text(words: str, command: Any) -> str:
    """Return the section of a command: its usage, what it does, and its options by panel."""
    context = command.make_context(f"workbench {words}", [], resilient_parsing=True)
    usage = " ".join(command.get_usage(context).removeprefix("Usage: ").split())
    parts = [f"## {words}", f"```text\n{usage}\n```", inspect.cleandoc(command.help or "").partition("\f")[0]]
    for panel, given in command.panels(context).items():
        rows = [f"| `{cell(shown)}` | {cell(about)} |" for shown, about in given if "--help" not in shown]
        if rows:
            parts.append("\n".join([f"| {panel} | |", "|---|---|", *rows]))
    return "\n\n".join(parts)


def cell(text: str) -> str:
    """Return a text of the parser as a cell of a table in Markdown."""
    return " ".join(text.split()).replace("|", r"\|").replace("<", "&lt;")
