"""Families of networks are found by name and built with their parameters."""

import pytest

from workbench.graph import GraphBuilder
from workbench.support.messages import UnknownName
from zoo.families import Families


def scaled(*, blocks=2, size=3, by_hand=False):
    b = GraphBuilder("scaled")
    x = b.input("x", (size,))
    for _ in range(1 if by_hand else blocks):
        x = b.op("relu", x)
    return b.graph({"y": x})


TABLE = Families({"scaled": scaled})


def test_a_family_is_built_in_both_forms():
    assert TABLE.parameters("scaled") == {"blocks": 2, "size": 3}
    assert TABLE.build("scaled", {"blocks": 3}, by_hand=False).operators() == {"relu": 3}
    assert TABLE.build("scaled", {"blocks": 3}, by_hand=True).operators() == {"relu": 1}


def test_what_cannot_be_built_is_refused():
    with pytest.raises(UnknownName, match="did you mean scaled"):
        TABLE.parameters("scaledd")
    with pytest.raises(TypeError, match=r"scaled has no parameter 'sizes'\. There are: blocks, size"):
        TABLE.build("scaled", {"sizes": 3}, by_hand=False)
    with pytest.raises(ValueError, match="blocks must be at least 1, got 0"):
        TABLE.build("scaled", {"blocks": 0}, by_hand=False)
