"""The order of the package: who may import whom, read from the source."""

import ast
from pathlib import Path

import networkx as nx

import workbench

PACKAGE = Path(workbench.__file__).parent

#: Floors from the ground up: a module imports from its own floor and from those before it.
FLOORS = (
    "_version", "support", "run", "ops", "graph", "rules", "egraph", "symbolic", "theorems", "frontends",
    "saturation", "costs", "extraction", "verification", "synthesis", "certifying", "devices",
    "composites", "codegen", "accelerators", "optimizer", "search", "analysis", "taso", "benchmarks",
    "plots", "experiments", "results", "views", "cli",
)  # fmt: skip

#: Arrows up, each with its reason.
UP = {
    ("optimizer.pipeline", "analysis.comparison"): "Optimized.compare() is where people look for it",
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
    return FLOORS.index(module.partition(".")[0])


def test_every_folder_has_a_floor_and_few_modules_are_loose():
    here = {p.stem if p.is_file() else p.name for p in PACKAGE.iterdir() if p.suffix == ".py" or p.is_dir()}
    assert here - {"__init__", "__pycache__", "static", "_rules", "_accelerators", "_composites"} == set(
        FLOORS
    )
    assert sum(p.suffix == ".py" for p in PACKAGE.iterdir()) <= 3


def test_imports_point_down():
    up = {(a, b) for a, b, _ in arrows() if floor(a) < floor(b)}
    assert up == set(UP)


def test_no_module_imports_itself_by_way_of_others():
    graph = nx.DiGraph((a, b) for a, b, typing in arrows() if not typing)
    assert [sorted(c) for c in nx.strongly_connected_components(graph) if len(c) > 1] == []


def test_no_module_has_more_than_500_lines():
    long = {module_of(p): n for p in PACKAGE.rglob("*.py") if (n := len(p.read_text().splitlines())) > 500}
    assert long == {}


def test_a_test_file_has_the_name_of_a_module_or_says_what_it_tests():
    tests = Path(__file__).parent
    modules = {p.relative_to(PACKAGE) for p in PACKAGE.rglob("*.py")}
    named = {m.with_name(f"test_{m.name}") for m in modules}
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
