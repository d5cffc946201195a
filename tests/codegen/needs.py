"""What tests of this folder need."""

import pytest

from workbench.codegen.compiler import has_compiler

compiler = pytest.mark.skipif(not has_compiler(), reason="no C compiler on the path")
