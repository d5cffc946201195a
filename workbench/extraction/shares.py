"""How an extraction divides its time and memory among its stages."""

from __future__ import annotations

from typing import Final

#: Largest shares of the remaining time for greedy search, local search, presolve, and presolve before it.
GREEDY, LOCAL, PRESOLVE, FIRST = 0.3, 0.25, 0.3, 0.1
#: With LARGE candidates or more after reductions, and a part that is not small, local search runs before a
#: solver is started. It then ends after REST seconds per candidate without an improvement.
LARGE, REST = 2000, 2e-4
#: The share of local search grows with the number of candidates; with HUGE candidates a solver is hopeless.
MOST_LOCAL, HUGE = 0.5, 400_000
#: Seconds per candidate to start a solver, and seconds after the limit when a stage is ended from outside.
LEAST, GRACE = 1e-5, 0.25
#: Bytes per pair of e-classes that greedy search keeps.
ENTRY: Final = 60
#: A problem of at least this many candidates is reduced by dual ascents as a whole, unless it falls apart
#: into smaller ones.
WHOLE: Final = 3_000
