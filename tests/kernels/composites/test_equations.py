"""Reading index notation: its meaning, and errors that show the place."""

import pytest

from workbench.kernels.composites import NotationError, parse
from workbench.kernels.composites.files import library


def value(body, signature="x{T}[~ D], g{T}[D] -> y{T}[~ D]", **attributes):
    return str(parse("c", signature, body, composites=library(), **attributes).equations[-1].value)


@pytest.mark.parametrize(
    ("body", "means"),
    [
        ("y[~ d] = x[~ d] + g[d] * 2", "(x[~ d] + (g[d] * 2))"),
        ("y[~ d] = -x[~ d]^2", "(-(x[~ d] * x[~ d]))"),
        ("y[~ d] = x[~ d]^0.5", "(x[~ d] ^ 0.5)"),
        ("y[~ d] = mean(e) x[~ e]^2 + 1", "(((sum(e < D) (x[~ e] * x[~ e])) / D) + 1)"),
        ("y[~ d] = sum(e) x[~ e] * g[e] - g[d]", "((sum(e < D) (x[~ e] * g[e])) - g[d])"),
        ("y[~ d] = max(x[~ d], g[d], 0)", "max(max(x[~ d], g[d]), 0)"),
        ("y[~ d] = max(e) x[~ e]", "(max(e < D) x[~ e])"),
        (
            "y[~ d] = where(0 <= d < D - 1, x[~ d + 1], 0)",
            "where(((0 <= d) and (d < (D - 1))), x[~ (d + 1)], 0)",
        ),
        ("y[~ d] = x[~ d] * (d + 1)", "(x[~ d] * (d + 1))"),
        ("y[~ d] = x[~ d] % 2", "(x[~ d] - (floor((x[~ d] / 2)) * 2))"),
        ("y[~ d] = silu(x[~ d])", "(x[~ d] * (1 / (1 + exp((-x[~ d])))))"),
        ("y[~ d] = clamp(x[~ d], high=1)", "min(max(x[~ d], 0), 1)"),
        ("y[~ d] = softmax(x)[~ d] * g[d]", "(softmax_y[~ d] * g[d])"),
        ("h[~ d] = x[~ d]; y[~ d] = h[~ d] + h[~ 0]", "(h[~ d] + h[~ 0])"),
        ("y[~ d] = x[~ d] +\\\n g[d]  # a comment", "(x[~ d] + g[d])"),
    ],
)
def test_meaning(body, means):
    assert value(body) == means


@pytest.mark.parametrize(
    ("body", "reason", "place"),
    [
        ("y[~ d] = z[~ d]", "no index, tensor or attribute is called 'z'", "z"),
        ("y[~ d] = x[d]", "x must be read as it is declared, as in x[~ i]", "x"),
        ("y[~ d] = x[~ d d]", "x must be read at 1 indices, got 2", "]"),
        ("y[~ d] = sum(k) x[~ 2 * k]", "the extent of k must follow from a read at k alone", "k"),
        ("y[~ d] = softmx(x)[~ d]", "did you mean softmax?", "softmx"),
        ("y[~ d] = x[~ d] < 1", "the value must be a number, got a condition", "x"),
        ("y[~ d] = where(x[~ d], 1, 0)", "operand 1 of 'where' must be a condition", "where"),
        ("y[~ d] = sum(d) x[~ d]", "the index d is in use already", "d"),
        ("y[~ d] = x[~ d] / ", "a value must be a name, got the end", ""),
        ("y[d] = g[d]", "y must be written as it is declared, as in y[~ i]", "y"),
        ("h[~] = sum(e) x[~ e]", "the result y must have an equation", ""),
        ("x[~ d] = g[d]", "x has its values already", "x"),
        ("y[~ d] = exp(x[~ d], 1)", "exp must have 1 operands, got 2", "exp"),
        ("y[~ d] = x[~ d @ 1]", "the character '@' has no meaning here", "@"),
        ("h[d] = x[~ d]; y[~ d] = h[d]", "x has leading axes '~', so the left-hand side must have them", "x"),
        ("y[~ d] = layer_norm(x, g)[~ d]", "layer_norm must have 3 operands, got 2", "layer_norm"),
        ("y[~ d] = rms(x + 1, g)[~ d]", "must continue with ')'", "+"),
        ("y[~ d] = rms(x, g, epss=1)[~ d]", "no attribute is called 'epss'; did you mean eps?", "epss"),
        ("y[~ d] = x[~ d / 2]", "an index must be a whole number (try //)", "/"),
    ],
)
def test_errors_show_the_place(body, reason, place):
    with pytest.raises(NotationError) as caught:
        value(body)
    lines = str(caught.value).splitlines()
    assert reason in lines[0]
    at = lines[-1].index("^")
    assert lines[-2][at:].startswith(place)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("signature", "reason"),
    [
        ("x{T}[~ D -> y{T}[~ D]", "an extent must be a name, got '->'"),
        ("x{T}[~ D] y{T}[~ D]", "a declaration must continue with ',' or '->'"),
        ("x{T}[~ D] -> y{T}[~ E]", "the extent E of the result must follow from an operand"),
        ("x{float31}[D] -> y{T}[D]", "an element type must be a variable such as T or one of"),
        ("x{T}[D ~] -> y{T}[D]", "'~' stands for the leading axes, so it must come first"),
        ("x{T}[D], x{T}[D] -> y{T}[D]", "tensors must have names of their own"),
        ("x{T}[D] -> y{S}[D]", "the element type S of y must be that of an operand"),
        ("x{T}[D] -> y{T}[~ D]", "the leading axes '~' of y must be those of an operand"),
        ("x{T}[M N]<1 0> -> y{T}[M]", "the axes must lie in memory in the order of the text"),
    ],
)
def test_wrong_declarations(signature, reason):
    with pytest.raises(NotationError) as caught:
        parse("c", signature, "y = x")
    assert reason in str(caught.value)
    assert "^" in str(caught.value)


def test_the_documents_own_declaration_reads():
    c = parse(
        "gemm",
        "A{float}[M K]<0 1>, B{float}[K N]<0 1> -> C{float}[M N]<0 1>",
        "C[i,j] = sum(k) A[i,k] * B[k,j]",
    )
    assert str(c.inputs[0]) == "A{float32}[M K]"
    again = "A{float}[M K]<0 1>(where K = 2 * M) B{float}[K N]<0 1>() -> C{float}[M N]<0 1>()"
    stated = parse("gemm", again, "C[i j] = sum(k) A[i k] * B[k j]")
    assert stated.inputs == c.inputs
    assert str(stated.conditions[0]) == "K = 2 * M"


def test_calls_are_inlined_with_names_of_their_own():
    c = parse(
        "c",
        "x{T}[~ M N] -> y{T}[~ M N]",
        "s[~ i j] = x[~ i j] * 2; t[~ i j] = softmax(s)[~ i j]; y[~ i j] = softmax(t)[~ i j]",
        composites=library(),
    )
    targets = [e.target for e in c.equations]
    assert len(set(targets)) == len(targets)
    assert [str(b) for b in c.equations[1].indices] == ["softmax_0 < M"]
    assert all("softmax(" not in str(e) for e in c.equations)


def test_a_result_is_not_a_copy_of_what_a_call_made():
    c = library()["add_norm"]
    assert [e.target for e in c.equations] == ["s", "layer_norm_m", "layer_norm_v", "y"]
    kept = parse(
        "c", "x{T}[~ N] -> y{T}[~ N], z{T}[~ N]", "h[~ i] = x[~ i] + 1; y[~ i] = h[~ i]; z[~ i] = h[~ i]"
    )
    assert [e.target for e in kept.equations] == ["h", "y", "z"]


def test_a_place_with_leading_axes_in_a_tensor_that_has_some():
    with pytest.raises(NotationError, match="a place in t, which has leading axes"):
        parse("c", "t{T}[~ V], at{int64}[~ L] -> y{T}[~ L]", "y[~ l] = t[~ at[~ l]]")


def test_a_name_that_is_not_a_name():
    with pytest.raises(NotationError, match="letters, digits and _"):
        parse("my op", "x{T}[] -> y{T}[]", "y = x")
