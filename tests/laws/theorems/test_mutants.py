"""Wrong rules are not theorems, and a mutant of a library rule that becomes one is not refuted."""

import random
import re
from pathlib import Path

import pytest

import workbench
from workbench.laws.theorems.check import check
from workbench.laws.theorems.entailment import solver
from workbench.laws.theorems.prove import attempt
from workbench.laws.verification.evidence import Effort
from workbench.laws.verification.refuting.refute import search
from workbench.laws.verification.verify import Verification
from workbench.rules.ruleset import read_rules, rule_set
from workbench.rules.verdicts import is_theorem, law_of, proof_record

no_solver = pytest.mark.skipif(solver() is None, reason="no z3")
pytestmark = [pytest.mark.slow, no_solver]

#: Rules that other tests hold to be wrong.
TESTS = Path(__file__).parents[2]
WRONG = (
    *sorted((TESTS / "rules").glob("wrong*.rules")),
    TESTS / "laws/verification/wrong.rules",
    TESTS / "laws/verification/outside_menus.rules",
)

SWAPS = (
    ("add", "mul"),
    ("mul", "add"),
    ("max", "min"),
    ("relu", "tanh"),
    ("sub", "add"),
    ("sigmoid", "relu"),
)


def mutant(law, choose):
    """Return a law with one change on its right-hand side or among its conditions, or None."""
    left, _, rest = law.partition(" => ")
    right, where, conditions = rest.partition(" where ")
    kind = choose.randrange(5)
    if kind == 0 and conditions:
        kept = conditions.split(", ")
        kept.pop(choose.randrange(len(kept)))
        return f"{left} => {right}" + (f" where {', '.join(kept)}" if kept else "")
    if kind == 1 and (found := list(re.finditer(r"(?<![\w.])\d+(?![\w.])", right))):
        m = choose.choice(found)
        right = f"{right[: m.start()]}{int(m.group()) + 1}{right[m.end() :]}"
    elif kind == 2 and len(names := sorted(set(re.findall(r"(?<=[(, ])[a-z](?=[,)])", right)))) > 1:
        old, new = choose.sample(names, 2)
        right = re.sub(rf"(?<=[(, ]){old}(?=[,)])", new, right, count=1)
    elif kind == 3:
        old, new = choose.choice(SWAPS)
        right = right.replace(f"{old}(", f"{new}(", 1)
    elif kind == 4:
        right = right.replace(" + ", " - ", 1)
    return f"{left} => {right}{where}{conditions}"


def mutants(count):
    choose, found = random.Random(3), {}
    rules = [r for r in rule_set("default") if is_theorem(r) and not r.multi]
    while len(found) < count:
        law = law_of(choose.choice(rules))
        changed = mutant(law, choose)
        if changed not in (None, law, *found):
            try:
                (found[changed],) = workbench.parse_rules(f"mutant-{len(found)}: {changed}")
            except ValueError:
                continue
    return list(found.values())


@pytest.mark.nightly
def test_no_mutant_that_is_a_theorem_is_refuted():
    theorems = [r for r in mutants(110) if attempt(r, seconds=1.5).proof is not None]
    assert theorems, "some mutants are true: a condition that types imply, a letter for an equal one"
    verification = Verification(theorems, effort=Effort(seconds=120))
    verification.run()
    assert [v for v in verification.verdicts if v.verdict == "refuted"] == []


@pytest.mark.nightly
@pytest.mark.parametrize("file", WRONG, ids=lambda f: f.stem)
def test_no_wrong_rule_is_a_theorem(file):
    rules = read_rules(file).rules
    assert rules
    found = [attempt(r, seconds=1.5) for r in rules]
    assert [a.rule for a in found if a.proof is not None] == []
    assert all(a.why for a in found)


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.nightly) for n in range(1, 9))])
def test_a_proof_that_is_accepted_for_a_changed_law_is_of_a_right_one(seed):
    choose = random.Random(seed)
    rules = [r for r in rule_set("default") if "cases" in (proof_record(r) or {}) and not r.multi]
    rejected, accepted = 0, []
    for rule in choose.sample(rules, 60):
        changed = mutant(law_of(rule), choose)
        if changed == law_of(rule):
            continue
        try:
            (other,) = workbench.parse_rules(f"{rule.name}: {changed}")
            check(other, proof_record(rule) | {"typed": False})
        except ValueError:  # no rule, not covered, or rejected
            rejected += 1
        else:
            accepted.append(other)
    assert rejected >= 10
    assert [r for r in accepted if search(r, 24).counterexample is not None] == []
