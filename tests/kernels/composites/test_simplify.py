"""Simplification of equations, its trace, and laws of one's own."""

import numpy as np
import pytest

from workbench.kernels.composites import NotationError, parse
from workbench.kernels.composites.evaluate import evaluate
from workbench.kernels.composites.files import library
from workbench.kernels.composites.simplify import (
    WrongSimplifier,
    default_simplifiers,
    parse_simplifiers,
    simplified,
)


def value(body, signature="x{T}[~ M N] -> y{T}[~ M N]", laws=None):
    return str(
        simplified(parse("c", signature, body, composites=library()), laws).composite.equations[-1].value
    )


@pytest.mark.parametrize(
    ("body", "simple"),
    [
        ("y[~ i j] = x[~ i j] * 1 + (3 - 2) * 0", "x[~ i j]"),
        ("y[~ i j] = max(max(x[~ i j], 1 + 1), 5)", "max(x[~ i j], 5)"),
        ("y[~ i j] = -(-x[~ i j]) + -x[~ j i]", "(x[~ i j] - x[~ j i])"),
        ("y[~ i j] = abs(-x[~ i j])", "abs(x[~ i j])"),
        ("y[~ i j] = x[~ (i*N + j) // N (i*N + j) % N]", "x[~ i j]"),
        ("f[~ k < M*N] = x[~ k // N k % N]; y[~ i j] = f[~ i*N + j]", "x[~ i j]"),
        ("h[~ i j] = x[~ i j] + 1; y[~ i j] = h[~ i j] - 1", "((x[~ i j] + 1) - 1)"),
    ],
)
def test_simple_forms(body, simple):
    assert value(body) == simple


def test_loops_of_one_trip_go_at_known_extents():
    assert value("y[~ i j] = sum(k < 1) x[~ i k]") == "x[~ i 0]"
    assert "sum" in value("y[~ i j] = sum(k) x[~ i k]")


def test_an_index_of_two_loops_is_two_indices():
    c = parse("c", "a{T}[~ N], b{T}[~ M] -> y{T}[~]", "y[~] = (sum(k < 1) a[~ k]) + sum(k) b[~ k]")
    found = simplified(c).composite
    assert str(found.equations[0].value) == "(a[~ 0] + (sum(k_ < M) b[~ k_]))"


def test_the_trace_names_what_matched():
    found = simplified(parse("c", "x{T}[~] -> y{T}[~]", "y = x * 1 + 0"))
    assert {s.law for s in found.steps} >= {"times-one", "plus-zero"}
    before, after = found.costs["y"]
    assert after < before
    assert "times-one" in str(found)


def test_intermediate_tensors_that_nothing_reads_go():
    c = parse("c", "x{T}[~ N] -> y{T}[~ N]", "h[~ i] = -x[~ i]; y[~ i] = -h[~ i]")
    assert [e.target for e in simplified(c).composite.equations] == ["y"]


@pytest.mark.parametrize(
    ("body", "joined"),
    [
        ("y = x * x + 1", "fma(x[~], x[~], 1)"),
        ("y = 1 + x * x", "fma(x[~], x[~], 1)"),
        ("y = x * exp(x) - x", "fma(x[~], exp(x[~]), (-x[~]))"),
        ("y = x - 3 * x", "fma((-3), x[~], x[~])"),
    ],
)
def test_products_and_sums_are_joined_only_on_request(body, joined):
    c = parse("c", "x{T}[~] -> y{T}[~]", body)
    assert "fma" not in str(simplified(c).composite)
    found = simplified(c, contracted=True).composite
    assert str(found.equations[0].value).replace("-3", "(-3)").replace("((-3))", "(-3)") == joined
    x = np.random.default_rng(0).standard_normal(7)
    np.testing.assert_allclose(evaluate(found, [x]), evaluate(c, [x]), rtol=1e-12)


def test_a_law_of_ones_own():
    laws = default_simplifiers() + parse_simplifiers("root-of-square: sqrt(x * x) => abs(x)")
    assert value("y[~ i j] = sqrt(x[~ i j]^2)", laws=laws) == "abs(x[~ i j])"


@pytest.mark.parametrize(
    "law",
    [
        "zero: x * 0 => 1",
        "halves: x / 2 => x * 2",
        "[places]\nrow: (i * n + j) // n => j where j < n",
        "[places]\nover: (i * n + j) // n => i",
        "fold: m - n => number(n - m) where number(m), number(n)",
    ],
)
def test_wrong_laws_are_refused(law):
    with pytest.raises(WrongSimplifier, match=r"the sides of .* differ: .* at "):
        parse_simplifiers(law)


@pytest.mark.parametrize(
    ("law", "reason"),
    [
        ("no arrow", "must be name: left => right"),
        ("new: x => y", "y must occur on the left"),
        ("odd: x => x where x > 0", "a condition must be number"),
        ("odd: x + => x", "a value must be a name"),
    ],
)
def test_lines_that_are_not_laws(law, reason):
    with pytest.raises(NotationError, match=reason):
        parse_simplifiers(law, "mine.simplify")


def test_the_default_laws_are_read_and_tried():
    names = [law.name for law in default_simplifiers().laws]
    assert len(names) == len(set(names)) >= 30
    assert default_simplifiers().forwarding
