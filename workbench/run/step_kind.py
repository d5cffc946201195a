"""Kinds of steps: the work of one step of a stepwise run."""

from __future__ import annotations

import enum


class StepKind(enum.Enum):
    """Kind of a step: the work that was done in it.

    The kind and the counts of a step are its facts; code that depends on the effect of a step reads them.
    """

    START = "start"  #: nothing yet: the graph that the run starts from (saturation, search)
    CUT = "cut"  #: a step that a limit cut short or undid (saturation, search, verification)

    ITERATION = "iteration"  #: saturation: every rule that is due, applied once everywhere
    MERGE = "merge"  #: saturation: merge rules applied once more, among the operators of an extraction

    ORIGINAL = "original"  #: extraction: the selection of the start graph
    TREE = "tree"  #: extraction: the selection of least tree cost
    DAG = "dag"  #: extraction: the greedy selection that counts shared parts once
    LOCAL_SEARCH = "local search"  #: extraction: local search from the best selection
    PRESOLVE = "presolve"  #: extraction: reductions; counts the candidates ``before`` and ``after``
    INCUMBENT = "incumbent"  #: extraction: a solver improved the selection or the bound
    OWN = "own"  #: extraction: the selection of an extractor that a user registered
    SETTLED = "settled"  #: extraction: bound and status are final

    EXPANSION = "expansion"  #: search: every rule was tried on a graph from the queue
    COMPARISON = "comparison"  #: search: a graph was only compared with the best, the budget being spent

    SCREENING = "screening"  #: verification: counts rules ``screened`` so far, of ``rules``, and ``refuted``
    PASS = "pass"  #: verification: a pass begins; counts its number ``pass`` and the ``open`` cases
    ROUND = "round"  #: verification: a round of axioms; counts the cases ``proved`` and still ``open``
    SEPARATE = "separate"  #: verification: each rule was proved in an e-graph of its own
    UNPROVED = "unproved"  #: verification: the last pass is over; counts the cases that stay ``open``
    DECISION = "decision"  #: verification: counts the rules ``decided`` so far, of ``rules``

    REFERENCE = "reference"  #: ablation: the run with all rules
    WITHOUT = "without"  #: ablation: a run without one rule

    ENUMERATION = "enumeration"  #: synthesis: counts ``terms`` of a ``size``, ``classes``, ``candidates``
    CHOICE = "choice"  #: synthesis: counts candidates ``derived``, ``kept``, ``refuted``, ``open``
    REDUCTION = "reduction"  #: synthesis: laws that the others imply; counts those ``dropped`` and ``kept``
