"""The kernels wing: composites in index notation, C code generation, accelerators.

Names are imported when they are first used.
"""

from typing import TYPE_CHECKING

from workbench.support.lazy import door

if TYPE_CHECKING:
    from workbench.kernels.codegen.compiler import has_compiler as has_compiler
    from workbench.kernels.codegen.deployment import deploy as deploy
    from workbench.kernels.codegen.deployment import with_kernels as with_kernels
    from workbench.kernels.codegen.kernel import kernel as kernel
    from workbench.kernels.codegen.partitioned import load_program as load_program
    from workbench.kernels.composites.define import composite as composite
    from workbench.kernels.composites.onnx_function import session as session
    from workbench.kernels.composites.simplify import simplified as simplified
    from workbench.kernels.fast.toom_cook import Algorithm as Algorithm
    from workbench.kernels.fast.toom_cook import algorithm as algorithm

__getattr__, __all__ = door(
    __name__,
    {
        "codegen.compiler": "has_compiler",
        "codegen.deployment": "deploy with_kernels",
        "codegen.kernel": "kernel",
        "codegen.partitioned": "load_program",
        "composites.define": "composite",
        "composites.onnx_function": "session",
        "composites.simplify": "simplified",
        "fast.toom_cook": "Algorithm algorithm",
    },
)
