"""Signatures of public functions: real types, and sections that explain more than three parameters."""

import ast
import re
from functools import cache
from pathlib import Path

import workbench

PACKAGE = Path(workbench.__file__).parent

#: Files whose public signatures have a bare ``Any``: how many functions, and why. Keyword arguments that are
#: passed on to another function (``**options: Any``) do not count.
OPEN = {
    "frontends/onnx/shape_inference.py": (
        1,
        "an attribute of an ONNX node: its declaration says of which type",
    ),
    "ops/onnx_form.py": (1, "the same"),
    "optimizer/result.py": (2, "a wing's result: the core imports no more types of wings"),
    "graph/graph.py": (1, "an attribute of a node: the operator's declaration says of which type"),
    "ops/typing.py": (3, "an attribute that one reading holds as a tuple and another as an expression"),
    "rules/interpret.py": (18, "values of an algebra: numbers, unknowns, expressions, or tuples of them"),
    "egraph/at_sizes.py": (5, "a type or an extent of a reading: of numbers, or with integers over symbols"),
    "symbolic/symint.py": (3, "integers of one reading, or what it takes for one"),
    "laws/verification/instances/linear.py": (2, "the same: a relation is asked of any other object"),
    "laws/pool.py": (1, "arguments of the caller's function"),
    "faces/cli/options.py": (
        5,
        "a default of typer's, which stands for a value of any type, and its formatter",
    ),
    "support/processes.py": (2, "a message of another process, which a pickle holds"),
    "laws/theorems/terms.py": (1, "parts of a factor: its head says of which types"),
    "laws/verification/instances/typings.py": (1, "a coordinate's value: its name says of which type"),
}


@cache
def trees():
    """Return the syntax of every module by its path in the package."""
    return {str(p.relative_to(PACKAGE)): ast.parse(p.read_text()) for p in sorted(PACKAGE.rglob("*.py"))}


def public(tree):
    """Yield the public functions of a module and the public methods of its public classes."""
    queue = list(tree.body)
    while queue:
        node = queue.pop()
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
            if isinstance(node, ast.FunctionDef):
                yield node
            else:
                queue += node.body
        elif isinstance(node, ast.If | ast.Try):
            queue += node.body


def parameters(function):
    given = function.args
    return [a for a in (*given.posonlyargs, *given.args, *given.kwonlyargs) if a.arg not in ("self", "cls")]


def bare(function):
    """Return whether a parameter or the result of a function is of type ``Any``."""
    several = [function.args.vararg] if function.args.vararg else []
    types = [a.annotation for a in (*parameters(function), *several)] + [function.returns]
    return any(isinstance(t, ast.Name) and t.id == "Any" for t in types)


def test_public_signatures_have_real_types():
    found = {path: sum(map(bare, public(tree))) for path, tree in trees().items()}
    assert {name: n for name, n in found.items() if n} == {name: n for name, (n, _) in OPEN.items()}


def documented(function):
    """Return the parameters that a docstring explains in its section ``Args:``."""
    section = (ast.get_docstring(function) or "").partition("\nArgs:\n")[2]
    return set(re.findall(r"^    \*{0,2}(\w+): ", section, re.MULTILINE))


def elsewhere(function):
    """Return whether a docstring names the function that explains the arguments."""
    return re.search(
        r"arguments[^.]* are those of :(func|meth):", ast.get_docstring(function) or "", re.DOTALL
    )


def decorators(function):
    return {n.id for d in function.decorator_list for n in ast.walk(d) if isinstance(n, ast.Name)}


def test_functions_of_more_than_three_parameters_explain_each_of_them():
    missing = {}
    for path, tree in trees().items():
        # The commands of the command line explain their parameters in their options' help.
        command = path.startswith("faces/cli/")
        for function in public(tree):
            names = [a.arg for a in parameters(function)]
            if (
                len(names) > 3
                and not command
                and "overload" not in decorators(function)
                and not elsewhere(function)
            ):
                left = [n for n in names if n not in documented(function)]
                if left:
                    missing[f"{path}: {function.name}"] = left
    assert missing == {}


def test_constructors_of_more_than_three_parameters_explain_each_of_them():
    missing = {}
    for path, tree in trees().items():
        for kind in (n for n in tree.body if isinstance(n, ast.ClassDef)):
            if kind.name.startswith("_"):
                continue
            for made in (n for n in kind.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"):
                names = [a.arg for a in parameters(made)]
                known = documented(kind) | documented(made)
                known |= set(re.findall(r"``(\w+)``", (ast.get_docstring(kind) or "")))
                if len(names) > 3 and not known >= set(names):
                    missing[f"{path}: {kind.name}"] = sorted(set(names) - known)
    assert missing == {}
