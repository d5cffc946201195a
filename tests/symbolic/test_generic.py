"""Generic extents: numbers for integers over symbols, and what is read back from them."""

import pytest

from workbench.symbolic import Generic, Undecodable
from workbench.symbolic.facts import Facts
from workbench.symbolic.generic import Collision, is_prime, prime_below
from workbench.symbolic.integers import largest, num, smallest, sym, written

B, S = sym("batch"), sym("sequence")
GENERIC = Generic({"batch": 14_489, "sequence": 51_991}, constants={768, 30_522})
BATCH, SEQUENCE = 14_489, 51_991


@pytest.mark.parametrize(
    ("number", "meant"),
    [
        (BATCH, B),
        (BATCH * SEQUENCE, B * S),
        (12 * BATCH * SEQUENCE * SEQUENCE, B * S * S * 12),
        (SEQUENCE + 1, S + 1),
        (SEQUENCE - 3, S + -3),
        (2 * SEQUENCE - 1, S * 2 + -1),
        (BATCH + SEQUENCE, B + S),
        (4 * SEQUENCE + 5, S * 4 + 5),
        (BATCH * (SEQUENCE + 1), B * (S + 1)),
        (30_522, num(30_522)),
        (2304, num(2304)),
        (0, num(0)),
        (-1, num(-1)),
        ((1 << 63) - 1, num((1 << 63) - 1)),
    ],
)
def test_numbers_are_read_back_as_what_made_them(number, meant):
    assert GENERIC.expression(number) == meant


def test_an_integer_has_a_number_from_which_it_is_read_back():
    generic = Generic({"+h": 51_991, "+w": 51_973}, {"height": sym("+h") * 16, "width": sym("+w")})
    h, w = sym("+h"), sym("+w")
    for size in (
        h * 16,
        (w + 1) // 2,
        largest(w - 5, num(0)),
        smallest(w, num(100)),
        w - w // 3 * 3,
        h * (w // 2),
    ):
        number = generic.number(size)
        assert generic.expression(number) == size
        assert generic.at({"height": 64, "width": 33})(number) == size.at({"+h": 4, "+w": 33})
    assert written(generic.named(h * 16)) == "height"
    for size in (h * 16, h * 3, h * (w // 2) * 16, h * h * 32 + w * 5, largest(w, h) * 16):
        assert generic.named(size).at({"height": 64, "width": 33}) == size.at({"+h": 4, "+w": 33})


def test_a_number_that_already_stands_for_something_is_not_given_twice():
    generic = Generic({"+n": 14_489}, constants={64})
    assert generic.number(num(64)) == 64
    with pytest.raises(Collision):
        generic.number(num(14_489))
    with pytest.raises(Collision, match="is 45 at the generic extents"):
        generic.number(sym("+n") // 320)


def test_sizes_near_those_asked_for_fit_the_model():
    facts = Facts()
    facts.add(sym("+s") - 9)
    generic = Generic(
        {"+h": 5_003, "+s": 9_001}, {"h": sym("+h") * 16, "s": sym("+s"), "t": sym("+s") + 1}, facts=facts
    )
    assert generic.completed({"h": 220, "s": 3}) == {"h": 224, "s": 12, "t": 13}
    assert generic.fit({"h": 32, "s": 9, "t": 10})
    assert not generic.fit({"h": 33, "s": 9, "t": 10})
    assert not generic.fit({"h": 32, "s": 8, "t": 9})


@pytest.mark.parametrize("channels", [16, 32, 64, 96, 128, 256, 512, 768, 1024, 2048, 3072, 4096, 50_257])
def test_what_networks_have_as_widths_depends_on_nothing(channels):
    assert not GENERIC.depends(channels)


def test_primes_differ_from_what_is_in_the_model():
    avoid = frozenset({97, 2 * 89, 83 * 5})
    found = prime_below(100, avoid)
    assert is_prime(found)
    assert found not in (97, 89, 83)
    assert prime_below(100, avoid, frozenset({found})) < found
    with pytest.raises(Undecodable, match="no prime up to 13"):
        prime_below(13, frozenset({11, 13}))
