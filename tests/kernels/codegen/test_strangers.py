"""Composites that the library lacks, in numpy, C and ONNX Runtime, at fifty drawn shapes; wrong calls."""

import numpy as np
import pytest

from tests.kernels.codegen.needs import compiler
from tests.kernels.codegen.strangers import FILE, REFERENCES
from workbench.kernels.codegen.kernel import kernel
from workbench.kernels.composites.binding import bind
from workbench.kernels.composites.evaluate import evaluate
from workbench.kernels.composites.expressions import computed, extent_names
from workbench.kernels.composites.files import library, load
from workbench.kernels.composites.onnx_function import session
from workbench.ops import TensorType
from workbench.ops.types import TypeMismatch

COMPOSITES = load(FILE, library())
SMALL, LARGE = (1, 2, 3, 5, 7, 8), (13, 16, 17, 31, 64, 67, 129)


def calls(composite, count):
    """Yield operands in float64 and attributes of drawn calls that fit."""
    names = sorted({n for t in composite.inputs for d in t.dims for n in extent_names(d)})
    names = [n for n in names if n not in composite.defaults]
    random, found = np.random.default_rng(7), 0
    while found < count:
        few = len(names) < 4 and composite.name != "poly"  # its powers overflow
        large = LARGE if few and random.random() < 0.3 else ()
        sizes = {n: int(random.choice(SMALL + large)) for n in names}
        attrs = {
            a.name: int(random.choice([a.default, max(a.default - 1, 1), a.default + 1]))
            if a.whole
            else a.default
            for a in composite.attributes
        }
        known = sizes | {a.name: attrs[a.name] for a in composite.attributes if a.whole}
        leading = tuple(int(n) for n in random.choice(SMALL[:4], random.integers(0, 3)))
        operands = []
        for t in composite.inputs:
            shape = (leading if t.leading else ()) + tuple(computed(d, known) for d in t.dims)
            whole = "int" in t.dtype
            drawn = random.integers(0, known.get("V", 1), shape) if whole else random.standard_normal(shape)
            operands.append(drawn.astype(np.float32).astype(np.float64) if not whole else drawn)
        try:
            bind(composite, [TensorType.of(x) for x in operands], attrs)
        except TypeMismatch as error:  # a window that is larger than the image
            if "must be positive" in str(error):
                continue
            raise
        found += 1
        yield operands, attrs


def narrowed(operands):
    return [x.astype(np.float32) if x.dtype.kind == "f" else x for x in operands]


@compiler
@pytest.mark.slow
@pytest.mark.parametrize("name", REFERENCES)
def test_fifty_shapes(name):
    composite = COMPOSITES[name]
    for k, (operands, attrs) in enumerate(calls(composite, 50)):
        wanted = np.asarray(REFERENCES[name](*operands, **attrs))
        found = evaluate(composite, operands, **attrs)
        assert found.shape == wanted.shape
        scale = float(np.abs(wanted).max())
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-11 * scale)
        given = narrowed(operands)
        ways = [kernel(composite, [TensorType.of(x) for x in given], attrs)(*given, threads=1 + k % 2)[0]]
        if k % 25 == 0:
            ways.append(session(composite, given, attrs)())
        for made in ways:
            assert (made.shape, made.dtype) == (wanted.shape, np.float32)
            np.testing.assert_allclose(made, wanted, rtol=2e-5, atol=2e-5 * scale)


F = "float32"
WRONG = [
    ("cosine", [(F, (3, 4)), (F, (3, 5))], {}, "b{T}[~ N D] is 5, but D = 4", "D", 22),
    ("kron", [(F, (2, 3)), (F, (3,))], {}, "must have 2 axes", "[P Q]", 15),
    ("weighted_mean", [(F, (2, 3))], {}, "there must be 2 operands, got 1", "w{T}[D]", 11),
    ("weighted_mean", [(F, (3,))] * 3, {}, "there must be 2 operands, got 3", "->", 19),
    ("weighted_mean", [(F, (3,)), ("float64", (3,))], {}, "one element type T", "{T}", 12),
    ("one_hot_rows", [(F, (2, 3)), (F, (3,))], {}, "must hold int64", "{int64}", 13),
    ("group_norm", [(F, (2, 5, 3, 3)), (F, (5,)), (F, (5,))], {}, "must be a multiple of 2", "G * C", 7),
    ("pairwise_distance", [(F, (2, 3, 4)), (F, (3, 3, 4))], {}, "do not fit each other", "~", 18),
    ("avg_pool", [(F, (1, 3))], {}, "must be positive, got 0", "(H - K) // S + 1", 22),
    ("softplus", [("int32", (3,))], {}, "floating-point numbers", "{T}", 1),
]


@pytest.mark.parametrize(("name", "types", "attrs", "said", "part", "column"), WRONG)
def test_a_wrong_call_shows_the_place(name, types, attrs, said, part, column):
    with pytest.raises(TypeMismatch) as refused:
        bind(COMPOSITES[name], [TensorType(*t) for t in types], attrs)
    message, line, carets = str(refused.value).split("\n")
    assert said in message
    assert line[4 + column :].startswith(part)
    assert carets == " " * (4 + column) + "^" * len(part)


def test_a_wrong_attribute_and_a_read_outside_are_shown():
    with pytest.raises(TypeMismatch, match="did you mean delta"):
        bind(COMPOSITES["huber"], [TensorType(F, (2,))] * 2, {"dlta": 1.0})
    with pytest.raises(TypeMismatch, match=r"\n    y\[n o i\] = .*\n +\^+$"):
        bind(COMPOSITES["dilated"], [TensorType(F, (1, 1, 9)), TensorType(F, (1, 1, 2))], {"R": -1})


@compiler
@pytest.mark.parametrize("name", ["INLINE", "exp_f32", "sum1_", "threads", "kept0", "panel0", "row_at_"])
def test_names_of_a_text_are_free_for_composites(name):
    from workbench.kernels.composites import parse

    signature = f"{name}{{T}}[~ D] -> y{{T}}[~ D]"
    body = f"y[~ d] = exp({name}[~ d] - max(e) {name}[~ e]) / sum(e) exp({name}[~ e] - max(f) {name}[~ f])"
    made = parse("memcpy", signature, body, composites=None)
    x = np.random.default_rng(0).standard_normal((3, 40)).astype(np.float32)
    (y,) = kernel(made, [TensorType.of(x)])(x)
    np.testing.assert_allclose(y, evaluate(made, [x]), rtol=1e-5)
