"""Results as mixed programs: kernels in C for clusters of operators, ONNX Runtime for the rest."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from workbench.costs import CostModel
from workbench.costs.registry import cost_model

if TYPE_CHECKING:
    from workbench.kernels.codegen.compiler import Build
    from workbench.kernels.codegen.deployment import Deployed
    from workbench.kernels.codegen.fusion import Measure
    from workbench.optimizer.result import Optimized

#: Up to this size clusters are also grown from the e-graph of a search, where they compete with rewrites.
COMPETING: Final = 5_000


def with_kernels(
    result: Optimized,
    *,
    cost: str | os.PathLike[str] | CostModel = "cpu",
    seconds: float = 5.0,
    time: bool = True,
    build: Build | None = None,
    measure: Measure | None = None,
) -> Deployed:
    """Return the fastest certified mixed program of a result.

    There is none if it is not faster, timed whole on one thread as it runs from its file, than both the
    original and the result without kernels. The certificate compares it with the original.

    Args:
        result: The result of an optimisation.
        cost: The prices of operators in ONNX Runtime on this machine.
        seconds: The time limit on timing.
        time: Whether programs are timed; otherwise prices alone decide.
        build: The options of the compiler; by default those of the environment.
        measure: Returns the times of a cluster; by default they are measured.

    Raises:
        ValueError: The model has symbolic dimensions.
        CompilerMissing: There is no C compiler.
    """
    from workbench.kernels.codegen.deployment import deploy

    kept = () if result.dynamic is None else result.dynamic.kept
    if kept:
        fixed = " ".join(f"{name}=1" for name in kept)
        raise ValueError(f"a program with kernels must have fixed shapes, got symbolic {', '.join(kept)} "
                         f"(try --dim {fixed})")  # fmt: skip
    competing = len(result.egraph) <= COMPETING
    return deploy(
        result.original,
        cost if isinstance(cost, CostModel) else cost_model(cost),
        candidates=[result.graph],
        saturated=(result.egraph, result.costs) if competing else None,
        seconds=seconds,
        seed=int(result.settings.get("seed", 0)),
        build=build,
        measure=measure,
        time=time,
        saved=True,
    )
