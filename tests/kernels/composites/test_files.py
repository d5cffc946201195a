"""Files of composites: .composite and YAML."""

import pytest

from workbench.kernels.composites import NotationError
from workbench.kernels.composites.files import from_text, from_yaml, load

TEXT = """
# Twice x.
twice: x{T}[~] -> y{T}[~]
    y = 2 * x

# Calls the one before.
four(shift=1): x{T}[~ N] -> y{T}[~ N]
    h[~ i] = twice(x[~ i])
    y[~ i] = twice(h[~ i]) + \\
             shift
"""


def test_composites_call_those_before_them():
    found = from_text(TEXT)
    assert list(found) == ["twice", "four"]
    assert found["twice"].doc == "Twice x."
    assert found["four"].defaults == {"shift": 1}


def test_yaml_reads_the_same():
    found = from_yaml(
        """
twice: {in: "x{T}[~]", out: "y{T}[~]", impl: "y = 2 * x", doc: Twice x.}
four:
  - in: ["x{T}[~ N]"]
  - out: ["y{T}[~ N]"]
  - impl:
      - h[~ i] = twice(x[~ i])
      - y[~ i] = twice(h[~ i]) + shift
  - attributes: {shift: 1}
"""
    )
    given = from_text(TEXT)
    assert [c.equations for c in found.values()] == [c.equations for c in given.values()]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("    y = x\n", "line 1: an equation must follow a head"),
        ("twice x -> y\n    y = x\n", "line 1: a head must be name: operands -> results"),
        ("a: x{T}[~] -> y{T}[~]\n    y = z\n", "line 1: a: no index, tensor or attribute is called 'z'"),
        ("a(b): x{T}[~] -> y{T}[~]\n    y = x\n", "an attribute must be name=number"),
        (
            "a: x{T}[~] -> y{T}[~], b=1\n    y = x\n",
            "b is not a tensor, and an attribute of a file follows",
        ),
        (TEXT + TEXT, "composite twice is declared twice"),
    ],
)
def test_errors_name_the_line(text, reason):
    with pytest.raises(NotationError) as caught:
        from_text(text)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("- a", "must be a map"),
        ("a: {in: x}", "must have the keys in, out and impl"),
        ("a: {out: 'y{T}[~]', impl: y = 1, inn: x}", "unknown key 'inn'"),
        ("a: {in: 'x{T}[~]', out: 'y{T}[~]', impl: y = z}", "a: no index"),
        ("a: [", "is not YAML"),
    ],
)
def test_errors_of_yaml(text, reason):
    with pytest.raises(NotationError, match=reason):
        from_yaml(text)


def test_files_by_their_ending(tmp_path):
    path = tmp_path / "mine.composite"
    path.write_text(TEXT)
    assert list(load(path)) == ["twice", "four"]
    with pytest.raises(NotationError, match="must end in"):
        load(tmp_path / "mine.txt")
