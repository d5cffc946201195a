"""Networks in which moving an operator past others saves work: as they are exported, and rewritten by hand.

Both forms have the same seeded random weights. The rewritten form is derived on paper, independently of the
rules of the library.
"""
