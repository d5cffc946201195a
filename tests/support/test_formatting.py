import pytest

from workbench.support.formatting import change, gain, microseconds, span, speedup, thousands, times


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0.0 µs"), (3.14159, "3.142 µs"), (9999.0, "9999.0 µs"), (1e6, "1000 ms")]
)
def test_times_carry_the_unit_that_suits_them(value, text):
    assert microseconds(value) == text


def test_changes_have_a_sign_even_when_there_is_none():
    assert change(100.0, 150.0) == "+50.0 %"
    assert change(100.0, 99.99) == "±0.0 %"
    assert change(0.0, 5.0) == "±0.0 %"


def test_gains_say_how_many_times_as_fast_and_of_what():
    assert gain(120.0, 51.6) == "2.33× (120.0 → 51.6 µs)"
    assert gain(51.6, 120.0) == "0.43× (51.6 → 120.0 µs)"
    assert gain(0.0, 0.0) == "1.00× (0 → 0 µs)"
    assert gain(102.0, 1.0) == "102.00× (102.0 → 1.0 µs)"
    assert span(2_500_000.0, 1_250_000.0) == "2.50 → 1.25 s"
    assert speedup(3.0, 0.0) == float("inf")
    assert times(speedup(3.0, 0.0)) == "∞×"


def test_counts_are_grouped():
    assert thousands(999) == "999"
    assert thousands(1234567).replace("\u202f", " ") == "1 234 567"
