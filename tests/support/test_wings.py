"""What the core asks of the wings."""

import pytest

from workbench.support.wings import _OFFERS, offered


@pytest.mark.parametrize("name", _OFFERS)
def test_every_offer_is_there(name):
    assert callable(offered(name))
