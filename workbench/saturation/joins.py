"""Keep types out of the joins of a query.

If two variables of a query are equal, egglog makes one variable of them and joins the tables by it. Types are
a bad key, because hundreds of e-classes have the same one: a query of one batch normalisation after another
then starts from the pairs of all e-classes of one type. If the types are compared by a test, it starts from
the operators.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

#: A fact that two types are equal; ``s_`` begins the names of types and of nothing else.
_EQUAL_TYPES: Final = re.compile(r"\(= (s_\w+) (s_\w+)\)")


def unjoined(facts: Iterable[str]) -> list[str]:
    """Return the facts of a query in which equal types are compared when both are known.

    >>> unjoined(["(= s_x_ (ty_ x_))", "(= s_x_ s_y_)"])
    ['(= s_x_ (ty_ x_))', '(= s_x_ (vec-append s_y_))']
    """
    return [_EQUAL_TYPES.sub(r"(= \1 (vec-append \2))", fact) for fact in facts]
