import pytest

from workbench.symbolic import Generic, Undecodable
from workbench.symbolic.generic import is_prime, prime_below
from workbench.symbolic.integers import num, sym

B, S = sym("batch"), sym("sequence")
GENERIC = Generic({"batch": 14_489, "sequence": 51_991}, constants=frozenset({768, 30_522}))
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
        (BATCH * (SEQUENCE + 1), B * (S + 1)),
        ((SEQUENCE + 1) // 2, (S + 1) // 2),
        (SEQUENCE // 2, S // 2),
        ((SEQUENCE + 3) // 4, (S + 3) // 4),
        (30_522, num(30_522)),
        (2304, num(2304)),
        (0, num(0)),
        (-1, num(-1)),
        ((1 << 63) - 1, num((1 << 63) - 1)),
    ],
)
def test_numbers_are_read_back_as_what_made_them(number, meant):
    assert GENERIC.expression(number) == meant


def test_extents_that_must_divide_are_read_back_at_every_scale():
    generic = Generic({"height": 1499, "width": 1493}, {"height": 64, "width": 64})
    h, w = sym("height"), sym("width")
    height, width = 1499 * 64, 1493 * 64
    for k in range(7):
        assert generic.expression(height >> k) == h // (1 << k)
    assert generic.expression((height // 4) * (width // 4)) == (h * w) // 16
    assert generic.expression(height // 2 + 1) == h // 2 + 1
    assert generic.at(height // 8, {"height": 96, "width": 32}) == 12


@pytest.mark.parametrize("channels", [16, 32, 64, 96, 128, 256, 512, 768, 1024, 2048, 3072, 4096, 50_257])
def test_what_networks_have_as_widths_depends_on_nothing(channels):
    bounded = Generic({"batch": BATCH, "sequence": 509})
    assert not GENERIC.depends(channels)
    assert not bounded.depends(channels)


def test_equal_symbols_have_one_extent():
    generic = Generic({"batch": BATCH}, derived={"other": B, "more": B + 1})
    assert generic.extents == {"batch": BATCH, "other": BATCH, "more": BATCH + 1}
    assert generic.completed({"batch": 3}) == {"batch": 3, "other": 3, "more": 4}


def test_primes_differ_from_what_is_in_the_model():
    avoid = frozenset({97, 2 * 89, 83 * 5})
    found = prime_below(100, avoid)
    assert is_prime(found)
    assert found not in (97, 89, 83)
    assert prime_below(100, avoid, frozenset({found})) < found
    with pytest.raises(Undecodable, match="no prime up to 13"):
        prime_below(13, frozenset({11, 13}))
