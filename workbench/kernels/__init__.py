"""The kernels wing: composites in index notation, C code generation, accelerators.

Names are imported when they are first used.
"""

from typing import TYPE_CHECKING

from workbench.support.lazy import lazy_names

if TYPE_CHECKING:
    from workbench.kernels.codegen.deployment import with_kernels
    from workbench.kernels.codegen.partitioned import load_program
    from workbench.kernels.composites.define import composite

__all__ = ["composite", "load_program", "with_kernels"]

__getattr__ = lazy_names(
    __name__,
    {
        "composite": ".composites.define",
        "load_program": ".codegen.partitioned",
        "with_kernels": ".codegen.deployment",
    },
)
