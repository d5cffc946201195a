"""Keep types out of the joins of a query.

If two variables of a query are equal, egglog makes one variable of them and joins the tables by it. Types are
a bad key, because hundreds of e-classes have the same one: a query of one batch normalisation after another
then starts from the pairs of all e-classes of one type. If the types are compared by a test, it starts from
the operators.
"""

from __future__ import annotations


def equal_types(left: str, right: str) -> str:
    """Return the fact that two types are equal; two variables are compared when both are known.

    >>> equal_types("s_x_", "s_y_"), equal_types("s_x_", "(vec-of 0 1 3)")
    ('(= s_x_ (vec-append s_y_))', '(= s_x_ (vec-of 0 1 3))')
    """
    variables = not left.startswith("(") and not right.startswith("(")
    return f"(= {left} (vec-append {right}))" if variables else f"(= {left} {right})"
