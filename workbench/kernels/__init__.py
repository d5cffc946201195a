"""The kernels wing: composites in index notation, C code generation, accelerators.

Names are imported when they are first used.
"""

from typing import TYPE_CHECKING

from workbench.support.lazy import door

if TYPE_CHECKING:
    from workbench.kernels.codegen.deployment import with_kernels as with_kernels
    from workbench.kernels.codegen.partitioned import load_program as load_program
    from workbench.kernels.composites.define import composite as composite

__getattr__, __all__ = door(
    __name__,
    {
        "codegen.deployment": "with_kernels",
        "codegen.partitioned": "load_program",
        "composites.define": "composite",
    },
)
