"""A collection of terms that remembers why any two of them are equal."""

import random

import pytest

from workbench.saturation.explain.proof_graph import Because, Proofs


def leaf(proofs, name):
    return proofs.add("weight", (name,), (), None)


def test_equal_operands_make_equal_operators_and_the_chain_says_so():
    proofs = Proofs()
    a, b = leaf(proofs, "a"), leaf(proofs, "b")
    f, g = (proofs.add("relu", (), (x,), None) for x in (a, b))
    assert proofs.find(f) != proofs.find(g)
    assert proofs.union(a, b, Because("law"))
    assert proofs.find(f) == proofs.find(g)
    assert [(k.before, k.after, k.because.rule, k.forward) for k in proofs.chain(f, g)] == [
        (a, b, "law", True)
    ]
    assert [(k.before, k.forward) for k in proofs.chain(g, f)] == [(b, False)]


def test_a_term_added_later_joins_by_congruence():
    proofs = Proofs()
    a, b = leaf(proofs, "a"), leaf(proofs, "b")
    f = proofs.add("relu", (), (a,), None)
    proofs.union(a, b, Because("law"))
    assert proofs.has("relu", (), (b,))
    assert proofs.find(proofs.add("relu", (), (b,), None)) == proofs.find(f)


def test_terms_that_are_not_equal_have_no_chain():
    proofs = Proofs()
    with pytest.raises(ValueError, match="must be equal"):
        proofs.chain(leaf(proofs, "a"), leaf(proofs, "b"))


@pytest.mark.parametrize("seed", range(20))
def test_chains_of_random_equalities_are_made_of_given_ones_and_connect(seed):
    rng = random.Random(seed)
    proofs = Proofs()
    terms = [leaf(proofs, str(i)) for i in range(6)]
    for _ in range(30):
        terms.append(proofs.add(rng.choice(["relu", "tanh"]), (), (rng.choice(terms),), None))
    given = {}
    for i in range(12):
        a, b = rng.sample(terms, 2)
        proofs.union(a, b, Because(f"law{i}"))
        given[f"law{i}"] = (a, b)
    for _ in range(40):
        a, b = rng.sample(terms, 2)
        if proofs.find(a) != proofs.find(b):
            continue
        for link in proofs.chain(a, b):
            ends = (link.before, link.after) if link.forward else (link.after, link.before)
            assert ends == given[link.because.rule]
