"""Many more instances of laws: a right one passes all, a wrong one is refuted."""

import pytest

from workbench.laws.synthesis.rechecks import recheck
from workbench.rules import parse_rules

LAWS = parse_rules(
    "over: add(matmul(x, y), matmul(x, z)) => matmul(x, add(y, z))\n"
    "wrong: matmul(x, y) => matmul(y, x)\n"
    "pair: matmul(x, y) ; matmul(x, z)"
    " => slice[axis=-1, start=0, stop=dim(y, -1)](matmul(x, concat[axis=-1](y, z)))"
    " ; slice[axis=-1, start=dim(y, -1), stop=dim(y, -1) + dim(z, -1)](matmul(x, concat[axis=-1](y, z)))\n"
)


def test_right_laws_pass_every_instance_and_a_wrong_one_does_not():
    over, wrong, pair = recheck(LAWS, 60)
    assert (over.passed, over.refuted, over.complete) == (60, False, True)
    assert wrong.refuted
    assert (pair.passed, pair.refuted) == (60, False)


def test_a_limit_is_reported():
    (one,) = recheck(LAWS[:1], 5000, seconds=0.05)
    assert not one.complete
    assert one.passed < 5000


def test_the_number_of_instances_is_checked():
    with pytest.raises(ValueError, match="must be positive, got 0"):
        list(recheck(LAWS, 0))
