"""A composite alone as an ONNX model, and ONNX Runtime's session of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.kernels.composites.binding import bind
from workbench.kernels.composites.composite import Composite
from workbench.kernels.composites.onnx_function import DOMAIN, function
from workbench.ops.types import DTYPE_CODES, TensorType

if TYPE_CHECKING:
    from onnx import ModelProto


def model(
    composite: Composite,
    types: Sequence[TensorType],
    attributes: Mapping[str, Any] | None = None,
    opset: int = 18,
) -> ModelProto:
    """Return a model of one call of a composite, with its function, as a ``ModelProto``.

    Args:
        composite: The composite.
        types: The operands' types.
        attributes: Values of attributes; others have their defaults.
        opset: The version of the default operator set.

    Raises:
        TypeMismatch: If the types do not fit the declaration.
    """
    import onnx

    binding = bind(composite, types, attributes)
    helper = onnx.helper
    node = helper.make_node(
        composite.name,
        [t.name for t in composite.inputs],
        [t.name for t in composite.outputs],
        domain=DOMAIN,
        **{**composite.defaults, **(attributes or {})},
    )

    def infos(names: Sequence[str]) -> list[Any]:
        kinds = [binding.types[n] for n in names]
        return [
            helper.make_tensor_value_info(n, DTYPE_CODES[k.dtype], k.shape)
            for n, k in zip(names, kinds, strict=True)
        ]

    graph = helper.make_graph([node], composite.name, infos(node.input), infos(node.output))
    made = helper.make_model(
        graph,
        functions=[function(composite, opset)],
        opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid(DOMAIN, 1)],
        ir_version=10,
    )
    onnx.checker.check_model(made)
    return made


def session(
    composite: Composite,
    operands: Sequence[np.ndarray],
    attributes: Mapping[str, Any] | None = None,
    threads: int = 1,
) -> Callable[[], np.ndarray]:
    """Return a function without arguments that runs a composite in ONNX Runtime on these operands.

    Args:
        composite: The composite.
        operands: Its operands.
        attributes: Values of its attributes, if they are not the declared ones.
        threads: The number of threads of an operator.

    Raises:
        TypeMismatch: If the operands do not fit the declaration.
    """
    from workbench.frontends.runtime import session as loaded

    made = model(composite, [TensorType.of(x) for x in operands], attributes)
    run = loaded(made, threads=threads, spin=False).run
    feeds = {t.name: x for t, x in zip(composite.inputs, operands, strict=True)}
    return lambda: np.asarray(run(None, feeds)[0])
