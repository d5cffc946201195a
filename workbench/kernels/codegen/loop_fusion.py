"""Loop nests of a program: which steps share their outer loops, and which arrays then shrink."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.kernels.codegen.program import Program, Step
from workbench.kernels.composites.index import IndexName
from workbench.kernels.composites.scalar import Read, walk


@dataclass(frozen=True, slots=True)
class Nest:
    """Steps that share their first ``depth`` loops; ``own`` are the arrays that only this nest reads."""

    steps: tuple[Step, ...]
    depth: int
    own: frozenset[str]


def nests_of(program: Program, steps: Sequence[Step] | None = None, depth: int = 0) -> list[Nest]:
    """Return the nests of steps, in order; a step joins the nest before it if another loop can be shared.

    A loop can be shared if all steps have it in the same place, with the same extent, and every array that
    the nest makes is read at the same place along it.

    Args:
        program: The program.
        steps: The steps; by default all.
        depth: The number of loops that are shared already.
    """
    inner = {a.name for a in program.inner}
    groups: list[list[Step]] = []
    for step in program.steps if steps is None else steps:
        if groups and _depth([*groups[-1], step]) > depth:
            groups[-1].append(step)
        else:
            groups.append([step])
    found = []
    for group in groups:
        made = {s.target for s in group} & inner
        shared = _depth(group) if len(group) > 1 else depth
        others = [s for s in program.steps if s not in group]
        outside = {r.tensor for s in others for r in walk(s.value) if isinstance(r, Read)}
        found.append(Nest(tuple(group), shared, frozenset(made - outside) if len(group) > 1 else frozenset()))
    return found


def _depth(steps: Sequence[Step]) -> int:
    """Return the number of outer loops that steps can share."""
    first = steps[0].indices
    depth = min(len(s.indices) for s in steps)
    depth = next((p for p in range(depth) if any(s.indices[p] != first[p] for s in steps)), depth)
    made = {s.target for s in steps}
    for step in steps:
        for r in walk(step.value):
            if isinstance(r, Read) and r.tensor in made:
                same = (
                    p for p in range(depth)
                    if p >= len(r.indices) or r.indices[p] != IndexName(first[p].name)
                )  # fmt: skip
                depth = next(same, depth)
    return depth
