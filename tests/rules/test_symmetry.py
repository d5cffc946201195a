import pytest

from workbench.rules import parse_rule, parse_rules
from workbench.rules.symmetry import canonical, symmetric


def rule(text):
    (found,) = parse_rule(f"r: {text}")
    return found


def test_renamings_have_one_canonical_form():
    one = rule("matmul[c, act=a](x, w) => matmul[c, act=a](x, w) where dim(x, -1) = dim(w, -2)")
    two = rule("matmul[d, act=b](y, v) => matmul[d, act=b](y, v) where dim(y, -1) = dim(v, -2)")
    assert canonical(one.sources, one.conditions) == canonical(two.sources, two.conditions)
    other = rule("matmul[d, act=b](y, y) => matmul[d, act=b](y, y) where dim(y, -1) = dim(y, -2)")
    assert canonical(one.sources, one.conditions) != canonical(other.sources, other.conditions)


@pytest.mark.parametrize(
    ("law", "expected"),
    [
        ("matmul(x, w) ; matmul(x, v) => matmul(x, w) ; matmul(x, v)", True),
        ("matmul(x, w) ; matmul(w, v) => matmul(x, w) ; matmul(w, v)", False),
        ("relu(x) ; relu(y) => relu(x) ; relu(y) where dim(x, -1) <= dim(y, -1)", False),
        ("relu(x) ; relu(y) => relu(x) ; relu(y) where rank(x) = 2, rank(y) = 2", True),
        ("relu(relu(x)) => relu(x)", False),
    ],
)
def test_exchanging_two_sources(law, expected):
    assert symmetric(rule(law)) is expected


def test_a_second_source_is_needed():
    assert not any(symmetric(r) for r in parse_rules("a: add(x, y) <=> add(y, x)"))
