"""Keys of operator instances in caches and tables, as text that any machine can read back."""

from __future__ import annotations

import json
from typing import Final

from workbench.costs.model import OpInstance
from workbench.ops import TensorType, Trait, TupleType, ValueType, with_trait
from workbench.ops.serialization import definition_of

#: A type as plain data: the text of a tensor, or the texts of the elements of a tuple.
TypeKey = str | list[str]

_OWN: Final = with_trait(Trait.OWN)


def type_key(kind: ValueType) -> TypeKey:
    """Return a type as plain data."""
    return [_text(k) for k in kind.elements] if isinstance(kind, TupleType) else _text(kind)


def parse_type(key: TypeKey) -> ValueType:
    """Return the type that :func:`type_key` encoded."""
    return TupleType(tuple(map(_tensor, key))) if isinstance(key, list) else _tensor(key)


def _text(kind: TensorType) -> str:
    return f"{kind.dtype}[{','.join(map(str, kind.shape))}]"


def _tensor(key: str) -> TensorType:
    dtype, _, rest = key.partition("[")
    dims = rest.rstrip("]")
    return TensorType(dtype, tuple(map(int, dims.split(","))) if dims else ())


def instance_key(instance: OpInstance, extra: str = "") -> str:
    """Return an instance's key in tables; ``extra`` tells opaque operators apart, its definition a user's operator."""
    extra = extra or (definition_of(instance.op) if instance.op in _OWN else "")
    record = [
        instance.op,
        list(instance.attrs),
        [type_key(k) for k in instance.inputs],
        type_key(instance.type),
        "".join("cv"[not c] for c in instance.constant),
    ]
    if extra:
        record.append(extra)
    return json.dumps(record, separators=(",", ":"))


def parse_key(key: str) -> OpInstance:
    """Return the instance that :func:`instance_key` encoded; raise ValueError for any other text.

    >>> kind = TensorType("float32", (2, 3))
    >>> relu = OpInstance("relu", (), (kind,), kind, (False,))
    >>> parse_key(instance_key(relu)) == relu
    True
    """
    try:
        op, attrs, inputs, kind, constant = json.loads(key)[:5]
        return OpInstance(
            str(op),
            tuple(tuple(a) if isinstance(a, list) else a for a in attrs),
            tuple(parse_type(k) for k in inputs),
            parse_type(kind),
            tuple(c == "c" for c in constant),
        )
    except (TypeError, AttributeError, ValueError, KeyError) as error:
        raise ValueError(f"key must identify an operator instance, got {key[:80]!r}: {error}") from None


def same_kernel(instance: OpInstance) -> OpInstance:
    """Return the instance that is measured in place of this one.

    The bias and relu of a convolution are the epilogue of a single kernel, and their cost there is too small
    to measure. All four variants therefore share one measurement, that of the variant with both. Separate
    measurements would differ by the noise of a long run, which exceeds the cost of a short operator.
    """
    if instance.op != "conv2d" or instance.attrs[-1] not in ("none", "relu"):
        return instance
    assert isinstance(instance.type, TensorType)
    bias = TensorType(instance.type.dtype, (1, instance.type.shape[1], 1, 1))
    return OpInstance(
        "conv2d",
        (*instance.attrs[:-1], "relu"),
        (*instance.inputs[:2], bias),
        instance.type,
        (*instance.constant[:2], True),
    )
