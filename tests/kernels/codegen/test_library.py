"""The library's composites as C against numpy, at fifty drawn shapes each."""

import numpy as np
import pytest

from tests.kernels.codegen.needs import compiler
from tests.kernels.composites.references import REFERENCES, drawn
from tests.sampled import in_turn
from workbench.kernels.codegen.kernel import kernel
from workbench.kernels.codegen.schedule import program_of, space
from workbench.kernels.composites.binding import bind
from workbench.kernels.composites.files import library
from workbench.ops.types import TensorType


def narrowed(operands, dtype):
    return [x.astype(dtype) if x.dtype.kind == "f" else x for x in operands]


@compiler
@pytest.mark.parametrize("name", in_turn(sorted(REFERENCES), 1, quick=5))
def test_fifty_shapes_in_c(name):
    composite, random = library()[name], np.random.default_rng(22)
    for k in range(50):
        operands = narrowed(drawn(composite, random), np.float32 if k % 2 else np.float64)
        (found,) = kernel(composite, [TensorType.of(x) for x in operands])(*operands, threads=1 + k % 3 // 2)
        wanted = REFERENCES[name](*operands)
        assert found.shape == wanted.shape
        scale = max(1.0, float(np.abs(wanted).max(initial=0)))
        near = 2e-5 if k % 2 else 1e-12
        np.testing.assert_allclose(found, wanted, rtol=near, atol=near * scale)


@compiler
@pytest.mark.parametrize("name", in_turn(sorted(REFERENCES), 1, quick=5))
def test_every_schedule_computes_the_same(name):
    composite, random = library()[name], np.random.default_rng(23)
    operands = narrowed(drawn(composite, random), np.float32)
    types = [TensorType.of(x) for x in operands]
    wanted = REFERENCES[name](*operands)
    scale = max(1.0, float(np.abs(wanted).max(initial=0)))
    for schedule in list(space(program_of(bind(composite, types))[0]))[:4]:
        (found,) = kernel(composite, types, schedule=schedule)(*operands)
        np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5 * scale, err_msg=str(schedule))


@compiler
def test_places_themselves_are_values():
    (found,) = kernel(library()["arange"], [], {"N": 7, "start": 2.0, "step": 0.5})()
    np.testing.assert_array_equal(found, 2 + 0.5 * np.arange(7, dtype=np.float32))
