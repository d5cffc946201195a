"""Rules are theorems by a chain of theorems, which the checker follows link by link."""

import copy
from dataclasses import replace

import pytest

import workbench
from workbench.laws.theorems.check import Rejected, check
from workbench.laws.theorems.entailment import solver
from workbench.laws.theorems.prove import Attempt, attempt
from workbench.laws.theorems.store import chain_of, check_library, theorems
from workbench.laws.verification import proofs
from workbench.laws.verification.proofs import find_chain
from workbench.rules.ruleset import rule_set
from workbench.rules.verdicts import proof_record

pytestmark = pytest.mark.skipif(solver() is None, reason="no z3")


@pytest.fixture(scope="module")
def known():
    return theorems()


@pytest.fixture(scope="module")
def chained():
    return [r for r in rule_set("default") if chain_of(r)]


def rule_of(law):
    (rule,) = workbench.parse_rules(f"own: {law}")
    return rule


@pytest.mark.slow
def test_default_rules_have_chains_that_the_checker_accepts(chained, known):
    assert len(chained) >= 5
    for result in check_library(chained):
        assert result.checked is not None, result.reason
        assert result.checked.theorems == chain_of(next(r for r in chained if r.name == result.rule))
        assert set(result.checked.theorems) <= set(known)


@pytest.mark.slow
def test_a_rule_of_one_s_own_is_a_theorem_by_a_chain_if_the_search_from_definitions_finds_none(
    known, monkeypatch
):
    rule = rule_of(
        "sub(conv2d[groups=g, act=none, c](x, w), conv2d[groups=1, act=none, d](x, v)) => "
        "sub(conv2d[groups=1, act=none, c](x, merge_gconv[count=g, groups=g](w)), "
        "conv2d[groups=1, act=none, d](x, v)) where 1 < g"
    )
    chain = find_chain(rule, known, 60)
    assert chain == [[[["conv-of-all-groups", 0, [0]]], []]]
    assert check(rule, {"chain": chain}, theorems=known).theorems == ("conv-of-all-groups",)
    monkeypatch.setattr(proofs, "attempt", lambda r, _: Attempt(r.name, None, "open", "terms are left", 0.0))
    record, words = proofs.judged(rule, 60)
    assert (record["chain"], words) == (chain, "theorem by a chain")
    assert set(record) == {"rule", "law", "chain", "typed"}


@pytest.mark.slow
def test_no_chain_is_found_for_wrong_rules(known):
    for law in (
        "relu(add(x, y)) => add(relu(x), relu(y))",
        "transpose[perm=p](transpose[perm=p](x)) => x",
        "add(conv2d[groups=g, act=none, c](x, w), y) => "
        "add(conv2d[groups=1, act=none, c](x, merge_gconv[count=g, groups=g](w)), relu(y)) where 1 < g",
        "add(conv2d[groups=g, act=none, c](x, w), y) => "
        "add(conv2d[groups=1, act=none, c](x, merge_gconv[count=g, groups=1](w)), y) where 1 < g",
    ):
        assert find_chain(rule_of(law), known, 5) is None


def corrupted(rule, proof):
    """Yield proofs with one link changed, or left out."""
    for side, links in enumerate(proof["chain"][0]):
        for k, (name, backwards, place) in enumerate(links):
            other = "conv-with-bias" if name == "add-is-associative" else "add-is-associative"
            for wrong in (
                [other, backwards, place],
                [name, 1 - backwards, place],
                [name, backwards, [*place, 1]],
                [name, backwards, [7]],
                [rule.name, backwards, place],
                ["no-such-rule", backwards, place],
                [name, backwards],
                None,
            ):
                changed = copy.deepcopy(proof)
                changed["chain"][0][side][k : k + 1] = [] if wrong is None else [wrong]
                yield changed


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["transposed-takes-more-bias", pytest.param("groups-beside-dense-bias", marks=pytest.mark.slow)],
)
def test_every_corrupted_chain_is_rejected(name, chained, known):
    rule = next(r for r in chained if r.name == name)
    proofs = list(corrupted(rule, proof_record(rule)))
    assert len(proofs) == 24
    for proof in proofs:
        with pytest.raises(Rejected):
            check(rule, proof, theorems=known)


def test_a_chain_needs_its_theorems_and_the_rule_its_conditions(chained, known):
    rule = next(r for r in chained if r.name == "groups-beside-dense")
    proof = proof_record(rule)
    with pytest.raises(Rejected, match="conv-of-all-groups is not a theorem"):
        check(rule, proof, theorems={})
    with pytest.raises(Rejected, match="may not hold"):
        check(replace(rule, conditions=()), proof, theorems=known)
    for malformed in ([], [[[], []]], [[[]]], {}, None, [proof["chain"][0], proof["chain"][0]]):
        with pytest.raises(Rejected):
            check(rule, {"chain": malformed}, theorems=known)


def test_a_proof_from_definitions_is_not_a_chain(known):
    rule = rule_of("relu(concat[axis=a](x, y)) => concat[axis=a](relu(x), relu(y))")
    assert attempt(rule).proof is not None
    assert chain_of(rule) == ()
