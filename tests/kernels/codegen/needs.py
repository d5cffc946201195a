"""What tests of this folder need."""

import pytest

from workbench.kernels.codegen.compiler import has_compiler
from workbench.kernels.codegen.fusion import Beside

compiler = pytest.mark.skipif(not has_compiler(), reason="no C compiler on the path")


def free(cluster):
    """Kernels that take no time."""
    return Beside(1e9, 0.0)


def expensive(cluster):
    """Kernels that never pay."""
    return Beside(1.0, 1e9)
