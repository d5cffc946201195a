"""What the core asks of the wings."""

import pytest

from workbench.support.wings import _OFFERS, offered


@pytest.mark.parametrize("name", _OFFERS)
def test_every_offer_is_there(name):
    if _OFFERS[name].startswith("torch."):
        pytest.importorskip("torch", reason="torch is not installed", exc_type=ModuleNotFoundError)
    assert callable(offered(name))
