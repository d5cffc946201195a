"""The table of all families has every family once."""

from zoo.all_families import ALL_FAMILIES
from zoo.branches import BRANCHES, branched
from zoo.movement import MOVEMENT


def test_all_families_are_those_of_branches_and_of_movement():
    assert list(ALL_FAMILIES) == [*BRANCHES, *MOVEMENT]
    small = {"channels": 4, "size": 6, "blocks": 1}
    built = ALL_FAMILIES.build("repvgg", small, by_hand=False)
    assert built.operators() == branched("repvgg", **small).operators()
