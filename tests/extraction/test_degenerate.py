"""Degenerate e-graphs, from the file to the selection, against brute force; and broken files."""

import math

import numpy as np
import pytest

from tests.extraction.degenerate import BROKEN, SHAPES, generated, text
from tests.extraction.egraphs import brute_force
from workbench.egraph import load_json
from workbench.extraction import Extraction, NoExtraction, Status, extract
from workbench.extraction.problem import is_acyclic

COMBINATIONS = 12_000  # brute force tries at most this many selections


def loaded(tmp_path, name, n, seed=0):
    file = tmp_path / "e.json"
    file.write_text(text(*generated(name, n, seed)))
    return load_json(file)


@pytest.mark.parametrize("name", SHAPES)
def test_small_degenerate_egraphs_against_brute_force(name, tmp_path):
    compared = 0
    for n in (3, 5, 7):
        egraph, costs = loaded(tmp_path, name, n)
        if math.prod(len(m) or 1 for m in egraph.members()) > COMBINATIONS:
            continue
        expected = brute_force(egraph, np.where(np.isfinite(costs), costs, math.inf))
        compared += 1
        if expected is None or expected == math.inf:
            with pytest.raises(NoExtraction):
                extract(egraph, costs)
            continue
        solution = extract(egraph, costs)
        assert solution.status is Status.OPTIMAL
        assert solution.cost == pytest.approx(expected, rel=1e-9)
        assert solution.bound <= expected + 1e-9 * abs(expected)
        quick = extract(egraph, costs, "dag")
        assert quick.bound - 1e-9 * abs(expected) <= expected <= quick.cost + 1e-9 * abs(expected)
    assert compared


@pytest.mark.parametrize("name", SHAPES)
def test_larger_degenerate_egraphs_have_a_selection(name, tmp_path):
    """Whatever time allows, the selection is acyclic, and its bound does not exceed its cost."""
    egraph, costs = loaded(tmp_path, name, 400)
    try:
        solution = extract(egraph, costs, seconds=0.1)
    except NoExtraction:
        assert name == "without_term"
        return
    assert is_acyclic(egraph, solution.choice)
    assert solution.bound <= solution.cost < math.inf


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_refused_in_words(name, tmp_path):
    file = tmp_path / "e.json"
    file.write_text(BROKEN[name])
    if name == "a lone surrogate":
        assert extract(*load_json(file)).cost == 1.0
        return
    with pytest.raises(ValueError, match=r"must|exist|twice|fit") as error:
        extract(*load_json(file))
    assert len(str(error.value)) < 400


def test_the_seconds_of_an_extraction_include_its_last_stage():
    """Each step's seconds are counted, whether it ended by itself or by the deadline."""
    egraph, costs = _any()
    run = Extraction(egraph, costs, seconds=20)
    solution = run.run()
    assert solution.seconds >= math.fsum(s.seconds for s in run.trace)


def _any():
    from tests.extraction.egraphs import random_egraph

    return random_egraph(3)
