"""Toom-Cook's matrices: the identity that they satisfy, at any points, and what the default points are for."""

from fractions import Fraction

import numpy as np
import pytest

from workbench.kernels.fast.toom_cook import WHOLE_POINTS, Algorithm, algorithm


def identity_holds(f):
    """Return whether the products give the convolution of every weight with every window."""
    return all(
        sum(f.output[i][a] * f.weight[a][k] * f.input[a][u] for a in range(f.products)) == (u == i + k)
        for i in range(f.outputs)
        for k in range(f.taps)
        for u in range(f.products)
    )


@pytest.mark.parametrize("sizes", [(m, r) for m in range(1, 6) for r in range(1, 6) if 1 < m + r < 8])
@pytest.mark.parametrize("whole", [False, True])
def test_the_matrices_compute_the_convolution(sizes, whole):
    assert identity_holds(algorithm(*sizes, whole=whole))


def test_any_different_points_do():
    points = tuple(map(Fraction, ("1/3", "-5", "7/2", "11", "-1/9", "2")))
    assert identity_holds(Algorithm(6, 2, points))
    with pytest.raises(ValueError, match="6 different points"):
        Algorithm(6, 2, (*points[:5], points[0]))
    with pytest.raises(ValueError, match="at most 7"):
        algorithm(6, 3)


def test_transforms_that_run_every_time_are_whole_numbers():
    f = algorithm(4, 3)
    assert all(x.denominator == 1 for matrix in (f.input, f.output) for row in matrix for x in row)


def test_the_default_points_have_less_error_than_whole_ones():
    random = np.random.default_rng(0)
    d, g = random.standard_normal((64, 6, 6, 32)), random.standard_normal((3, 3, 32))
    wanted = sum(
        np.einsum("nijc,c->nij", d[:, u : u + 4, v : v + 4], g[u, v]) for u in range(3) for v in range(3)
    )

    def error(f):
        a, b = (np.array([[float(x) for x in row] for row in m], np.float32) for m in (f.output, f.input))
        w = np.array([[float(x) for x in row] for row in f.weight])
        u = np.einsum("ai,bj,ijc->abc", w, w, g).astype(np.float32)
        v = np.einsum("ai,nijc,bj->nabc", b, d.astype(np.float32), b).astype(np.float32)
        y = np.einsum("ia,nab,jb->nij", a, np.einsum("abc,nabc->nab", u, v), a)
        return np.abs(y - wanted).max()

    assert 2 * error(algorithm(4, 3)) < error(Algorithm(4, 3, WHOLE_POINTS))
