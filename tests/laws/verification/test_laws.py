"""Laws of tensor algebra: the search passes every true one and refutes every tempting wrong version."""

from pathlib import Path

import pytest

from tests.sampled import sampled
from workbench.laws.verification.refuting.refute import search
from workbench.rules import load_rules

HERE = Path(__file__).parent

#: The laws, by number. A number is the provenance of the rules that state its law.
LAWS = """
    A1 A1r A2 A3 A4 A5 A6 A6k1pad A7a A7b A7c A8 A9 A10 A11 A12 A13
    B1 B2 B3 B4 B5
    C1 C1s C1s2 C1sym C1even C2 C3 C4 C5 C6 C7 C8
    D1 D2 D2b D2c D3 D4 D5 D6 D6c D7 D8 D9 D10 D11 D12 D13
    E1 E1b E1c E1d E1g E2 E2i E2sep E3 E3g E4 E4r E5
    F1 F2 F3 F4
    G1 G1g G2 G2g G2d G3 G4 G4w G5 G6 G7 G8 G9 G10 G11
    H1 H2 H3 H4 H5 H6 H7 H8 H9 H10
    I1 I2 I3 I4 I4b I5 I6
    J1 J2 J3 J4
    K1 K2 K3 K4 K5 K6 K6b K7 K7b K8 K9 K10
    M1 M2 M3 M4 M5 M6 M7
"""

#: The wrong versions: the number of the law, w, and a digit where a law has several.
WRONG = """
    A1w1 A1w2 A2w A3w A4w A5w A6w A8w A9w A10w
    B1w1 B1w2 B4w
    C1w1 C1w2 C1w3 C1w4 C4w C5w
    D1w D2w1 D2w2 D4w D5w D6w D7w D8w D11w D12w
    E1w E2w1 E2w2 E2sepw E3w E4w1 E4w2
    F1w F2w F4w
    G1w G2w G3w G4w1 G4w2 G5w G7w G8w
    H1w H2w H3w H4w H5w1 H5w2 H5w3 H6w H7w H8w1 H8w2 H8w3 H9w
    I1w1 I1w2 I1w3 I1w4 I1w5 I1w6 I3w1 I3w2 I3w3 I3w4 I3w5 I3w6 I4w1 I4w2 I6w
    J1w1 J1w2 J1w3 J1w4 J2w1 J2w2 J2w3 J3w1 J3w2 J3w3 J3w4 J3w5 J4w
    K1w K4w1 K4w2 K6w1 K6w2 K7w1 K7w2 K7w3 K7w4 K7w5 K9w
    M3w M7w
"""

#: Laws that the rule language cannot state, and why.
INEXPRESSIBLE = {
    "A7b": "a padding value per channel: pad has one number",
    "A7c": "a padding value per channel: pad has one number",
    "A13": "no transposed convolution",
    "E1c": "a padding value per channel: pad has one number",
    "E2": "the weight is a full correlation: a kernel reversed, which no operator does",
    "E2i": "a kernel reversed, and an equation for the inner outputs only",
    "E4r": "a condition on the rank of the weight, and its factors",
    "K2": "no operator takes windows apart (im2col)",
    "K6": "no resize",
    "K6b": "no resize",
    "M3": "a padding value per channel: pad has one number",
    "M7": "integers that wrap around: instances are over the reals",
    "A10w": "bit-exact equality: instances are over the reals",
    "B4w": "infinities: instances are finite",
    "E2w1": "a kernel reversed, which no operator does",
    "E4w1": "no term gives the factors of a weight",
    "G7w": "the wrong side has no type (an empty slice); wherever it has one, the rule is true",
    "H1w": "overflow in half precision: instances are over the reals",
    "J1w4": "infinities: instances are finite",
    "K6w1": "no resize",
    "K6w2": "no resize",
    "K9w": "no reversal of an axis",
    "M7w": "saturating integers: instances are over the reals",
}

#: Rules that need more instances than others, and why.
DRAWS = {
    "heads-join": 60,  # a reshape that fits is rare: half of the instances are not made
    "maxpool-of-sparse-maxpool": 300,  # a stride beyond the kernel is rare
}


def numbers(file):
    """Return the numbers of what the rules of a file state."""
    return {origin.removeprefix("laws:") for rule in load_rules(HERE / file) for origin in rule.provenance}


@pytest.mark.parametrize("rule", sampled(load_rules(HERE / "laws.rules"), 3, quick=5))
def test_a_law_has_no_counterexample(rule):
    found = search(rule, draws=DRAWS.get(rule.name, 40))
    assert found.counterexample is None, f"{rule}: {found.counterexample}"
    assert len(found.passed) >= 20, found.reason


@pytest.mark.parametrize("rule", sampled(load_rules(HERE / "wrong.rules"), 3, quick=3))
def test_a_wrong_version_has_a_counterexample(rule):
    found = search(rule, draws=DRAWS.get(rule.name, 60))
    assert found.counterexample is not None, f"{rule}: {len(found.passed)} passed; {found.reason}"


def test_every_law_is_a_rule_or_says_why_not():
    laws, wrong = set(LAWS.split()), set(WRONG.split())
    assert len(LAWS.split()) == len(laws) == 122
    assert len(WRONG.split()) == len(wrong) == 101
    assert not laws & wrong
    assert numbers("laws.rules") == laws - INEXPRESSIBLE.keys()
    assert numbers("wrong.rules") == wrong - INEXPRESSIBLE.keys()
    assert laws | wrong >= INEXPRESSIBLE.keys()


def test_exceptions_name_rules():
    names = {rule.name for file in ("laws.rules", "wrong.rules") for rule in load_rules(HERE / file)}
    assert DRAWS.keys() <= names
