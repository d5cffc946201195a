"""Judge the tests by mutants: a change of one place of the program that no test notices is a survivor.

``python -m tests.generated.mutants extraction 40`` changes forty places of a package of the core, one at a time, in a
copy of the repository. It runs the test file of the changed one, then all tests of the package, the slow ones last,
and lists the survivors. A survivor may be the same program in other words: each needs a reader.
"""

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue

ROOT = Path(__file__).parents[2]
#: Tests of one mutant that take longer, in seconds, have found an endless loop.
LIMIT = 400

COMPARISONS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
OPERATORS = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
}
CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}
#: Functions that describe values and compute nothing.
WORDS = {"__repr__", "__str__", "summary", "frame"}


def changed(node):
    """Return a node with another meaning, or None if there is none."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in COMPARISONS:
            return ast.Compare(node.left, [COMPARISONS[type(op)]()], node.comparators)
        case ast.BinOp(op=op) if type(op) in OPERATORS and not isinstance(node.left, ast.Constant | ast.List):
            return ast.BinOp(node.left, OPERATORS[type(op)](), node.right)
        case ast.BoolOp(op=op, values=values):
            return ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return operand
        case ast.IfExp(test=test, body=body, orelse=other):
            return ast.IfExp(test, other, body)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords) if name in CALLS:
            return ast.Call(ast.Name(CALLS[name], ast.Load()), args, keywords)
        case ast.Constant(value=bool(value)):
            return ast.Constant(not value)
        case ast.Constant(value=int(value)):
            return ast.Constant(value + 1)
        case ast.Continue():
            return ast.Break()
        case ast.If(test=test, body=body, orelse=other) if not isinstance(test, ast.Compare | ast.BoolOp):
            return ast.If(ast.UnaryOp(ast.Not(), test), body, other)
    return None


class _Sites(ast.NodeTransformer):
    """The places of a module that can be changed, numbered; the one called ``wanted`` is changed."""

    def __init__(self, wanted=-1):
        self.wanted, self.count, self.line, self.text = wanted, 0, 0, ""

    def visit(self, node):
        match node:
            case ast.Raise() | ast.JoinedStr() | ast.Import() | ast.ImportFrom() | ast.Assert():
                return node
            case ast.FunctionDef(name=name) if name in WORDS:
                return node
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                return node
            case ast.FunctionDef() | ast.ClassDef():
                node.body = [self.visit(x) for x in node.body]
                return node
            case ast.AnnAssign(annotation=kind) if ast.unparse(kind).startswith("Final"):
                return node  # a limit or a share, which no test should hold to the digit
            case ast.AnnAssign(value=value) if value is not None:
                node.value = self.visit(value)
                return node
        found = changed(node)
        if found is not None:
            self.count += 1
            if self.count - 1 == self.wanted:
                before, after = (
                    ast.unparse(x).partition("\n")[0] for x in (node, ast.fix_missing_locations(found))
                )
                self.line, self.text = node.lineno, f"{before}  ->  {after}"
                return ast.copy_location(found, node)
        return self.generic_visit(node)


def sites(file):
    """Return the number of places of a file that can be changed."""
    found = _Sites()
    found.visit(ast.parse(file.read_text()))
    return found.count


def mutant(text, wanted):
    """Return a text with one place changed, the place's line, and the change."""
    found = _Sites(wanted)
    tree = ast.fix_missing_locations(found.visit(ast.parse(text)))
    return ast.unparse(tree), found.line, found.text


def tests_of(file, package):
    """Return the tests that are run for a file, one argument list after the other."""
    own = [str(p.relative_to(ROOT)) for p in sorted((ROOT / "tests" / package).rglob(f"test_{file.stem}.py"))]
    places = [own, [f"tests/{package}"]] if own else [[f"tests/{package}"]]
    return [["-m", f"{speed} and not nightly", *those] for speed in ("not slow", "slow") for those in places]


def survives(copy, file, package):
    """Return whether no test of a copy fails."""
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    for arguments in tests_of(file, package):
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
        try:
            done = subprocess.run(
                [*command, *arguments],
                cwd=copy,
                env=environment,
                capture_output=True,
                timeout=LIMIT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False
        if done.returncode not in (0, 5):  # 5: nothing was collected
            return False
    return True


def main():
    """Print the fate of each mutant, and the survivors at the end."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("package", help="a package of the core, such as extraction")
    parser.add_argument("count", type=int, help="the number of mutants")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    files = sorted((ROOT / "workbench" / given.package).rglob("*.py"))
    all_sites = [(file, k) for file in files for k in range(sites(file))]
    chosen = random.Random(given.seed).sample(all_sites, min(given.count, len(all_sites)))
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    survivors, copies = [], Queue()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, ThreadPoolExecutor(given.workers) as pool:
        for worker in range(given.workers):
            copy = Path(folder) / str(worker)
            for name in tracked.splitlines():
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / name, copy / name)
            copies.put(copy)
        if not survives(copy, files[0], given.package):
            sys.exit(f"the tests of {given.package} fail, or take over {LIMIT} s, without a mutant too")

        def judge(place):
            file, k = place
            copy, own = copies.get(), file.read_text()
            text, line, change = mutant(own, k)
            inside = copy / file.relative_to(ROOT)
            inside.write_text(text)
            alive = survives(copy, file, given.package)
            inside.write_text(own)
            copies.put(copy)
            return f"{file.relative_to(ROOT)}:{line}: {change}", alive

        for number, (what, alive) in enumerate(pool.map(judge, chosen), 1):
            print(f"[{number}/{len(chosen)}] {'SURVIVES' if alive else 'killed'}  {what}", flush=True)
            survivors += [what] * alive
    print(f"{len(survivors)} of {len(chosen)} mutants of {given.package} survive ({len(all_sites)} places)")
    print("\n".join(survivors))


if __name__ == "__main__":
    main()
