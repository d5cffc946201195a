"""The checker accepts proofs, and rejects every corruption of them; it shares nothing with the search."""

import ast
import copy
import json
import random
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import workbench
from workbench.laws.theorems import check as checker
from workbench.laws.theorems.check import check
from workbench.laws.theorems.entailment import solver
from workbench.laws.theorems.steps import Rejected, read_int
from workbench.rules.ruleset import library, rule_set
from workbench.rules.verdicts import is_theorem, proof_record

pytestmark = pytest.mark.skipif(solver() is None, reason="no z3")

#: Rules whose proofs have every kind of step, and are quickly checked.
NAMES = (
    "shift-shift", "matmul-associates", "matmul-of-concats", "concat-of-relus", "slice-twice", "concat-of-adds",
    "concat-of-slices", "matmul-takes-relu", "batchnorm-as-affine", "conv-takes-relu", "concat-of-maxpools",
    "transpose-of-matmul", "larger-than-number", "scale-of-shift", "concat-of-convs-batch", "hardswish-by-clip",
    "pool-of-point-bias", "reduce-max-twice", "reduce-mean-of-shifted", "softmax-of-transpose", "sum-of-two",
)  # fmt: skip
#: Rules that the steps of another rule prove too: both have one term on either side, with equal factors.
SAME_STEPS = {
    ("transpose-of-matmul", "larger-than-number"),
    ("slice-twice", "transpose-of-matmul"),
    ("conv-takes-relu", "larger-than-number"),
    ("slice-twice", "matmul-takes-relu"),
}
PACKAGE = Path(workbench.__file__).parent


@pytest.fixture(scope="module")
def proofs():
    rules = {r.name: r for r in rule_set("all")}
    return {name: (rules[name], proof_record(rules[name])) for name in NAMES}


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
            yield node.module


def test_the_checker_and_what_it_imports_know_nothing_of_the_search_or_the_e_graph():
    seen, todo = set(), ["workbench.laws.theorems.check"]
    parts = ("workbench.laws.theorems.", "workbench.symbolic.")
    while todo:
        name = todo.pop()
        path = PACKAGE / f"{name.removeprefix('workbench.').replace('.', '/')}.py"
        if name in seen or not name.startswith(parts) or not path.is_file():
            continue
        seen.add(name)
        found = set(imported(path))
        assert not any("prove" in n or "unify" in n or "egraph" in n or "egglog" in n for n in found), name
        assert not any(
            n.startswith(("workbench.saturation", "workbench.laws.verification")) for n in found
        ), name
        todo += [n for n in found if n.startswith(parts)]
    assert "workbench.symbolic.integers" in seen
    assert len(seen) > 5
    assert len(Path(checker.__file__).read_text().splitlines()) <= 500


@pytest.mark.slow
def test_stored_proofs_are_accepted(proofs):
    for name, (rule, record) in proofs.items():
        assert is_theorem(rule), name
        assert check(rule, record).cases == len(record["cases"])


def places(node, path=()):
    yield path
    if isinstance(node, list):
        for k, inner in enumerate(node):
            yield from places(inner, (*path, k))
    if isinstance(node, dict):
        for k in node:
            yield from places(node[k], (*path, k))


def at(node, path):
    for k in path:
        node = node[k]
    return node


def corrupted(cases, choose):
    """Return a proof with one change: a number, a name or a law is another one, or a part is missing."""
    made = copy.deepcopy(cases)
    path = choose.choice([p for p in places(made) if p])
    parent, key, old = at(made, path[:-1]), path[-1], at(made, path)
    options = ["drop", "double"]
    if isinstance(old, int) and not isinstance(old, bool):
        options = ["number"] * 4
    elif isinstance(old, str):
        options = ["word"] * 2 + ["law"]
    kind = choose.choice(options)
    if kind == "number":
        parent[key] = old + choose.choice((-1, 1, 2))
    elif kind == "word":
        parent[key] = old + "x"
    elif kind == "law":
        parent[key] = choose.choice(("absurd", "split", "parts", "sum"))
    elif kind == "drop":
        del parent[key]
    elif isinstance(parent, list):
        parent.insert(key, copy.deepcopy(old))
    else:
        parent[key] = [old, old]
    return made


@pytest.mark.slow
def test_corrupted_proofs_are_rejected(proofs):
    choose, rejected, accepted = random.Random(5), 0, []
    for turn in range(8):
        for name, (rule, record) in proofs.items():
            made = corrupted(record["cases"], choose)
            if made == record["cases"]:
                continue
            try:
                check(rule, record | {"cases": made})
            except Rejected:
                rejected += 1
            else:
                accepted.append((name, turn, json.dumps(made)[:300]))
    assert rejected >= 100
    assert accepted == []


@pytest.mark.slow
def test_a_proof_of_another_rule_is_rejected(proofs):
    accepted, names = set(), list(proofs)
    for shift in (1, 3, 7):
        for name, other in zip(names, names[shift:] + names[:shift], strict=True):
            try:
                check(proofs[name][0], proofs[other][1])
            except Rejected:
                continue
            accepted.add((name, other))
    assert accepted == SAME_STEPS


@pytest.mark.parametrize(
    "proof", [{}, {"cases": []}, {"cases": [[]]}, {"cases": [[["absurd"]]]}, {"cases": 3}, []]
)
def test_what_is_not_a_proof_is_rejected(proofs, proof):
    rule, _ = proofs["scale-of-shift"]
    with pytest.raises(Rejected):
        check(rule, proof)


def test_a_false_rule_is_not_proved_by_the_proof_of_a_true_one(proofs):
    (false,) = workbench.parse_rules("scale-of-shift: mul(add(x, a), b) => add(mul(x, b), mul(b, b))")
    with pytest.raises(Rejected, match="scale-of-shift"):
        check(false, proofs["scale-of-shift"][1])


@pytest.mark.parametrize(
    "classes",
    [
        [[[1], [1], [0, {}, {}, [[0, None]]]]],
        [[[1], [1, {}, {}, [[0, None]]], [0, {}, {}, [[0, None]]]]],
        [[[1, 1], [0, {}, {}, [[0, None]]]]],
        [[[1], [0, {}, {}, [[0, None]]]], [[1]]],
        [[[1], [0, {}, {}, [[0, None]]], [True, {}, {}, [[0, None]]]]],
    ],
)
def test_a_term_counts_once(classes):
    (false,) = workbench.parse_rules("doubled: add(x, x) => x")
    with pytest.raises(Rejected):
        check(false, {"cases": [[["sum", [], [], classes]]]})


def test_a_sum_is_counted_only_by_its_extent_and_without_its_variable(proofs):
    rule, record = proofs["reduce-mean-of-shifted"]
    text = json.dumps(record["cases"])
    assert '"count", "+x a"]' in text
    for wrong in ('"+x -1"', "0", "2", '"n"', '["+", "+x a", 1]', '["*", 2, "+x a"]', '"#0"'):
        with pytest.raises(Rejected, match=r"constant sum|words"):
            check(rule, {"cases": json.loads(text.replace('"count", "+x a"]', f'"count", {wrong}]'))})
    law = "reduce_sum[axes=(-1)](x) => mul(reduce_max[axes=(-1)](x), 3.0) where dim(x, -1) = 3"
    (false,) = workbench.parse_rules(f"thrice: {law}")
    with pytest.raises(Rejected, match="depends"):
        check(false, {"cases": [[["sum", [], [[0, "#0", "count", 3]], [[[0], [1, {}, {}, [[0, None]]]]]]]]})


def test_a_sum_is_taken_apart_at_a_condition_on_its_own_places(proofs):
    rule, record = proofs["sum-of-two"]
    law, k, condition, node = record["cases"][0][0]
    assert (law, k, condition) == ("parts", 0, ["ge", ["*", -1, "#0"]])
    for wrong, why in (
        (["parts", 9, condition, node], "unknown term 9"),
        (["parts", True, condition, node], "unknown term True"),
        (["parts", 1, condition, node], "something else"),  # the term has no such place
        (["parts", 0, ["ge", ["+", "+x *", -2]], node], "something else"),
        (["parts", 0, ["ge", "#0"], node], "may differ"),  # the first part then has both places
        (node, "unknown|may differ"),
    ):
        with pytest.raises(Rejected, match=why):
            check(rule, {"cases": [[wrong]]})
    (false,) = workbench.parse_rules(
        "twice: reduce_sum[axes=(a), keepdims=1](x) => add(slice[axis=a, start=0, stop=1](x), "
        "slice[axis=a, start=0, stop=1](x)) where dim(x, a) = 2"
    )
    with pytest.raises(Rejected):
        check(false, record)


def test_a_split_on_axes_without_a_name_is_rejected(proofs):
    # Such axes stand for several, each of which may be in another case.
    rule, record = proofs["shift-shift"]
    node = ["split", ["eq", ["+", "+x *", -1]], record["cases"][0][0], record["cases"][0][0]]
    with pytest.raises(Rejected, match="without a name"):
        check(rule, {"cases": [[node]]})


@pytest.mark.parametrize("law", ["sub(x, y) => sub(y, x)", "relu(x) => x", "matmul(x, y) => matmul(y, x)"])
@pytest.mark.parametrize(
    "condition",
    [
        ["ge", ["first x", 0, 0]],  # a place below 0, if the solver believes it
        ["eq", "+x -1+-1*+y -1"],  # a name that reads like a difference
        ["ge", ["sub", "+x -1", 1]],
        ["ge", {"+": 1}],
    ],
)
def test_a_step_speaks_of_what_its_statement_speaks_of(law, condition):
    (false,) = workbench.parse_rules(f"wrong: {law}")
    forged = ["split", condition, ["absurd"], ["absurd"]]
    with pytest.raises(Rejected, match=r"words|no integer"):
        check(false, {"cases": [[forged]], "typed": False})


@pytest.mark.parametrize("data", [None, True, 1.5, {}, [], [1], ["div", 1, "n"]])
def test_what_is_not_an_integer_is_rejected(data):
    with pytest.raises(ValueError):
        read_int(data)


TRUSTED = """
import json, sys
from pathlib import Path
import workbench.laws.theorems.check
ours = [m for n, m in sys.modules.items() if n.split(".")[0] == "workbench" and getattr(m, "__file__", None)]
read = [[(m.__name__.split(".") + [""])[1], len(Path(m.__file__).read_text().splitlines())] for m in ours]
print(json.dumps(read))
"""


@pytest.mark.slow
def test_the_page_says_how_large_is_what_must_be_trusted():
    done = subprocess.run([sys.executable, "-c", TRUSTED], capture_output=True, text=True, check=True)
    lines = Counter()
    for package, count in json.loads(done.stdout):
        lines[package] += count
    page = (library() / "kernel.md").read_text(encoding="utf-8")
    told = {}
    for packages, count in re.findall(r"^\| (`workbench/.*) \| ([\d ]+) \|$", page, re.MULTILINE):
        for name in re.findall(r"`workbench/(\w+)", packages):
            told[name] = count
        counted = sum(lines[name] for name in re.findall(r"`workbench/(\w+)", packages))
        assert counted == pytest.approx(int(count.replace(" ", "")), rel=0.1)
    assert set(lines) - set(told) <= {"", "_version"}
