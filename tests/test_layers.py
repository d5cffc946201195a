"""The order of the package: who may import whom, read from the source."""

import ast
import re
from functools import cache
from pathlib import Path

import networkx as nx

import workbench

PACKAGE = Path(workbench.__file__).parent

#: The core from the ground up: a package imports from its own floor and from those before it.
CORE = (
    "_version", "support", "run", "symbolic", "ops", "graph", "rules", "egraph", "frontends",
    "saturation", "costs", "extraction", "certification", "devices", "optimizer",
)  # fmt: skip

#: The wings above it, each package on a floor of its own.
WINGS = (
    "torch", "laws", "laws.explain", "laws.foreign", "laws.theorems", "laws.run_proofs", "laws.verification",
    "laws.synthesis",
    "kernels", "kernels.composites", "kernels.fast", "kernels.codegen", "kernels.accelerators",
    "studies", "studies.guided", "studies.search", "studies.analysis", "studies.taso", "taso", "studies.devices",
    "studies.benchmarks", "studies.experiments", "results",
    "faces", "faces.plots", "faces.views", "faces.cli",
)  # fmt: skip

FLOORS = CORE + WINGS

#: The largest numbers of lines of Python in the core, which one person can carry, and in the package.
CORE_LINES, LINES = 38_000, 90_000

#: Arrows from the core into a wing, each with its reason: the core asks `support.wings` for offers of a wing.
UP = {
    ("optimizer.result", "studies.analysis.comparison"): "the type of Optimized.compare()",
    ("saturation.saturation", "laws.explain.report"): "the types of Saturation.explain() and why_not()",
}


def imports(path):
    """Yield what a module imports and whether a type checker alone sees it, imports in functions included."""
    tree = ast.parse(path.read_text())
    typing = {
        id(child)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for child in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, id(node) in typing) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((f"{node.module}.{alias.name}", id(node) in typing) for alias in node.names)


def module_of(path):
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


@cache
def arrows():
    """Return the imports between modules of the package as (from, to, type only), named without it."""
    paths = {module_of(path): path for path in PACKAGE.rglob("*.py")}
    found = set()
    for module, path in paths.items():
        for name, typing in imports(path):
            target = name if name in paths else name.rpartition(".")[0]
            if module != "workbench" and target in paths and target != "workbench":
                found.add((module.removeprefix("workbench."), target.removeprefix("workbench."), typing))
    return found


def floor(module):
    """Return the number of the innermost package that has a floor."""
    while module not in FLOORS:
        module = module.rpartition(".")[0]
    return FLOORS.index(module)


def test_every_folder_has_a_floor_and_few_modules_are_loose():
    here = {p.stem if p.is_file() else p.name for p in PACKAGE.iterdir() if p.suffix == ".py" or p.is_dir()}
    here -= {"__init__", "__pycache__", "static", "_rules", "_accelerators", "_composites"}
    assert here == {name.partition(".")[0] for name in FLOORS}
    for wing in (name for name in WINGS if (PACKAGE / name).is_dir()):
        rooms = {p.name for p in (PACKAGE / wing).iterdir() if p.is_dir() and p.name != "__pycache__"}
        assert rooms == {name.partition(".")[2] for name in WINGS if name.startswith(f"{wing}.")}
    assert sum(p.suffix == ".py" for p in PACKAGE.iterdir()) <= 4


def test_the_core_and_the_package_stay_below_their_budgets_of_lines():
    lines = {p: len(p.read_text().splitlines()) for p in PACKAGE.rglob("*.py")}
    assert sum(n for p, n in lines.items() if p.relative_to(PACKAGE).parts[0] in CORE) <= CORE_LINES
    assert sum(lines.values()) <= LINES


def test_the_core_asks_wings_through_one_table():
    paths = [p for name in CORE if name != "support" for p in (PACKAGE / name).rglob("*.py")]
    by_name = re.compile(r"import_module\(f?\W*workbench\b")
    assert [module_of(p) for p in paths if by_name.search(p.read_text())] == []


def test_imports_point_down():
    # A wing's door hands on the names of its rooms.
    up = {(a, b) for a, b, _ in arrows() if floor(a) < floor(b) and not b.startswith(f"{a}.")}
    assert up == set(UP)


def test_no_module_imports_itself_by_way_of_others():
    graph = nx.DiGraph((a, b) for a, b, typing in arrows() if not typing)
    assert [sorted(c) for c in nx.strongly_connected_components(graph) if len(c) > 1] == []


def test_no_module_has_more_than_800_lines():
    long = {module_of(p): n for p in PACKAGE.rglob("*.py") if (n := len(p.read_text().splitlines())) > 800}
    assert long == {}


def test_a_test_file_has_the_name_of_a_module_or_says_what_it_tests():
    tests = Path(__file__).parent
    modules = {p.relative_to(PACKAGE) for p in PACKAGE.rglob("*.py")}
    named = {m.with_name(f"test_{m.name}") for m in modules}
    zoo = tests.parent / "experiments" / "zoo"
    named |= {Path("zoo") / p.relative_to(zoo).with_name(f"test_{p.name}") for p in zoo.rglob("*.py")}
    named |= {m.parent.with_name(f"test_{m.parent.name}.py") for m in modules if m.parent.name}
    other = {p for p in tests.rglob("test_*.py") if p.relative_to(tests) not in named}
    assert {p.name for p in other if not ast.get_docstring(ast.parse(p.read_text()))} == set()


def test_every_module_says_what_it_is_for():
    silent = {
        module_of(p)
        for p in PACKAGE.rglob("*.py")
        if p.stat().st_size and not ast.get_docstring(ast.parse(p.read_text()))
    }
    assert silent == set()
