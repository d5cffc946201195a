"""Every instance of a family: few options and small extents, all of which are tried."""

from collections.abc import Iterator
from itertools import product

from workbench.laws.verification.instances.spaces import Space, options
from workbench.laws.verification.instances.typings import Menu

SMALL = Menu(
    ranks=(1, 2),
    strides=((1, 1), (2, 1)),
    dilations=((1, 1), (1, 2)),
    groups=(1, 2),
    acts=("none", "relu", "sigmoid", "tanh"),
    steps=(1, 2),
    eps=(0.5,),
    numbers=(0.0,),
    members=(2,),
    extents=(1, 2),
    kernels=(1, 2, 3),
    pads=(0, 1),
)


def all_values(space: Space, menu: Menu) -> Iterator[dict[int, int]]:
    """Yield values for all unknowns of a space, one for each assignment of the free ones that fits."""
    free = space.system.free()
    for numbers in product(*(sorted(set(options(space, u, menu))) for u in free)):
        found = space.system.complete(dict(zip(free, numbers, strict=True)))
        if found is not None:
            yield found
