"""The terms of a selection as S-expressions."""

import numpy as np
import pytest

from tests.extraction.egraphs import egraph_of
from workbench.extraction import egglog_python
from workbench.extraction.egglog_python import s_expressions


def selection(rows, roots):
    """Return an e-graph with one e-node by e-class, and its only choice."""
    egraph = egraph_of(rows, roots=roots)
    choice = np.full(egraph.n_classes, -1)
    choice[egraph.eclass] = np.arange(len(egraph))
    return egraph, choice


def parsed(text):
    """Return the term of a text with ``let`` as nested tuples."""
    tokens = text.replace("(", " ( ").replace(")", " ) ").split()
    names: dict[str, object] = {}
    stack: list[list[object]] = [[]]
    for token in tokens:
        if token == "(":
            stack.append([])
        elif token == ")":
            done = tuple(stack.pop())
            if done[0] == "let":
                names[done[1]] = done[2]
            else:
                stack[-1].append(done)
        elif stack[-1] == ["let"]:
            stack[-1].append(token)
        else:
            stack[-1].append(names.get(token, token))
    (term,) = stack[0]
    return term


ROWS = [(0, [2, 2]), (1, [2, 3]), (2, [3, 4]), (3, []), (4, [])]


def test_every_root_has_its_term_in_order():
    egraph, choice = selection(ROWS, [1, 0, 1])
    f, g, h, x, y = egraph.ops
    inner = f"({h} {x} {y})"
    assert s_expressions(egraph, choice) == (
        f"({g} {inner} {x})",
        f"({f} {inner} {inner})",
        f"({g} {inner} {x})",
    )


@pytest.mark.parametrize("roots", [[0], [0, 1], [1, 2, 0], [2, 2]])
def test_long_terms_have_names_for_shared_parts(roots, monkeypatch):
    egraph, choice = selection(ROWS, roots)
    plain = s_expressions(egraph, choice)
    monkeypatch.setattr(egglog_python, "LONGEST", 1)
    short = s_expressions(egraph, choice)
    joined, before = [], ""
    for text in short:
        cut = _end_of_lets(text)
        before += text[:cut]
        joined.append(before + text[cut:])
    assert list(map(parsed, joined)) == list(map(parsed, plain))
    assert sum(text.count("let s2 ") for text in short) == (0 in roots)


def _end_of_lets(text):
    """Return the position behind the definitions with which a text begins."""
    depth, end = 0, 0
    for at, character in enumerate(text):
        if not depth and not text.startswith("(let", at) and character != " ":
            break
        depth += (character == "(") - (character == ")")
        end = at + 1
    return end


@pytest.mark.slow
def test_a_term_with_very_many_paths_and_a_deep_one_are_written_in_linear_space():
    depth = 2000
    egraph, choice = selection([*((c, [c + 1, c + 1]) for c in range(depth)), (depth, [])], [0])
    (text,) = s_expressions(egraph, choice)
    assert text.count("(let") == depth - 1
    assert len(text) < 60 * depth
    egraph, choice = selection([*((c, [c + 1]) for c in range(50_000)), (50_000, [])], [0])
    (text,) = s_expressions(egraph, choice)
    assert text.count("(") == 50_000
