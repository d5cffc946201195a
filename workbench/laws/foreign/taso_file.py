"""Read TASO's files of substitutions (``graph_subst.pb``): a ``RuleCollection`` in protobuf's wire format.

A rule has two lists of operators, whose operands are earlier operators or variables (negative numbers), and
the pairs of outputs that replace each other. TASO's source defines the meaning of an operator's numbers.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from workbench.laws.foreign.extents import Inexpressible
from workbench.laws.foreign.translation import Laws, law
from workbench.laws.foreign.vocabulary import Foreign, Param, Variable, make
from workbench.rules.language import RuleSyntaxError
from workbench.rules.pattern import Rule
from workbench.rules.ruleset import Rejected

#: Messages by name: the type of each field by number, and whether it is repeated.
_MESSAGES: Final[dict[str, tuple[tuple[str, str, bool], ...]]] = {
    "Parameter": (("key", "", False), ("value", "", False)),
    "Tensor": (("opId", "", False), ("tsId", "", False)),
    "Operator": (("type", "", False), ("input", "Tensor", True), ("para", "Parameter", True)),
    "MapOutput": tuple((name, "", False) for name in ("srcOpId", "dstOpId", "srcTsId", "dstTsId")),
    "Rule": (("srcOp", "Operator", True), ("dstOp", "Operator", True), ("mappedOutput", "MapOutput", True)),
    "RuleCollection": (("rule", "Rule", True),),
}
_PARAMETERS: Final = (
    *("op_type", "num_inputs", "num_outputs", "group", "kernel_h", "kernel_w", "stride_h", "stride_w"),
    *("pad", "act", "rank", "axis", "perm", "shuffle", "count", "axes", "keep_dims", "epsilon"),
)
#: Operators by number: their names in TASO, and those here, empty without a counterpart in the rule language.
_OPERATORS: Final = {
    0: ("INPUT", ""),
    1: ("WEIGHT", ""),
    2: ("ANY", ""),
    3: ("CONV2D", "conv2d"),
    4: ("DROPOUT", ""),
    5: ("LINEAR", ""),
    6: ("POOL2D_MAX", "maxpool"),
    7: ("POOL2D_AVG", "avgpool"),
    8: ("RELU", "relu"),
    9: ("SIGMOID", "sigmoid"),
    10: ("TANH", "tanh"),
    11: ("BATCHNORM", ""),
    12: ("CONCAT", "concat"),
    13: ("SPLIT", "part"),
    14: ("RESHAPE", ""),
    15: ("TRANSPOSE", "transpose"),
    16: ("EW_ADD", "add"),
    17: ("EW_MUL", "mul"),
    18: ("MATMUL", "matmul"),
    19: ("MUL", "scale"),
    20: ("ENLARGE", "enlarge"),
    21: ("MERGE_GCONV", "merge"),
    22: ("CONSTANT_IMM", "eye"),
    23: ("CONSTANT_ICONV", "identity_kernel"),
    24: ("CONSTANT_ONE", "ones"),
    25: ("CONSTANT_POOL", "mean_kernel"),
}
_MOST_PARTS: Final = 32


@cache
def messages() -> dict[str, Any]:
    """Return TASO's protobuf messages as classes, by name."""
    file = descriptor_pb2.FileDescriptorProto(name="taso_rules.proto", package="GraphSubst", syntax="proto2")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, (field_name, kind, repeated) in enumerate(fields, 1):
            field = message.field.add(name=field_name, number=number)
            field.label = field.LABEL_REPEATED if repeated else field.LABEL_REQUIRED
            field.type = field.TYPE_MESSAGE if kind else field.TYPE_INT32
            if kind:
                field.type_name = f".GraphSubst.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"GraphSubst.{name}"))
        for name in _MESSAGES
    }


def read_taso(path: str | os.PathLike[str]) -> tuple[list[Rule], list[Rejected]]:
    """Read a file of TASO's substitutions; return the rules and the laws that are none in the rule language.

    An ill-formed law, such as one of an unknown operator, is rejected. A broken file raises :class:`RuleSyntaxError`.
    """
    file = Path(path)
    data = file.read_bytes()
    if not data:
        raise RuleSyntaxError(f"{file.name}: the file is empty")

    found = Laws(file.name)
    for number, (start, payload) in enumerate(_frames(data, file.name)):
        name, place = f"taso-{number}", f"{file.name}, rule {number} (byte {start})"
        message = _decoded(payload, place)
        with found.reading(number, name, place):
            found.add(law(name, *_sides(message), (f"taso#{number}",)))
    return found.rules, found.rejected


# -- the wire format ------------------------------------------------------------------------------
def _frames(data: bytes, name: str) -> Iterator[tuple[int, bytes]]:
    """Yield the position and bytes of every rule, as the collection consists of nothing else."""
    at = 0
    while at < len(data):
        if data[at] != 0x0A:
            raise RuleSyntaxError(f"{name}, byte {at}: expected a rule, found 0x{data[at]:02x}")
        start, shift, length = at, 0, 0
        while True:
            at += 1
            if at >= len(data) or shift > 28:
                raise RuleSyntaxError(f"{name}, byte {start}: the file ends in the length of a rule")
            length |= (data[at] & 0x7F) << shift
            shift += 7
            if data[at] < 0x80:
                break
        at += 1
        if at + length > len(data):
            missing = at + length - len(data)
            raise RuleSyntaxError(f"{name}, byte {start}: the file ends {missing} bytes before the rule does")
        yield start, data[at : at + length]
        at += length


def _decoded(payload: bytes, place: str) -> Any:
    try:
        message = messages()["Rule"].FromString(payload)
    except DecodeError as error:
        raise RuleSyntaxError(f"{place}: the bytes must encode a rule, got: {error}") from None
    if not message.IsInitialized():
        missing = ", ".join(message.FindInitializationErrors()[:3])
        raise RuleSyntaxError(f"{place}: the bytes must encode a rule, got {missing} missing")
    size = message.ByteSize()
    message.DiscardUnknownFields()
    if message.ByteSize() != size:
        raise RuleSyntaxError(f"{place}: unknown fields of a rule")
    return message


# -- rules ----------------------------------------------------------------------------------------
def _sides(rule: Any) -> tuple[list[Foreign], list[Foreign]]:
    sources, targets = _Side("source", rule.srcOp), _Side("target", rule.dstOp)
    if not rule.mappedOutput:
        raise RuleSyntaxError("a rule must map at least one output, got none")
    pairs = [
        (sources.output(m.srcOpId, m.srcTsId), targets.output(m.dstOpId, m.dstTsId))
        for m in rule.mappedOutput
    ]
    for index in range(len(sources.results)):
        if index not in sources.used:  # a pattern must be connected
            raise Inexpressible(f"source operator {index} leads to no output")
    return [s for s, _ in pairs], [t for _, t in pairs]


class _Side:
    """The terms of one side of a rule."""

    def __init__(self, name: str, operators: Sequence[Any]) -> None:
        self.name = name
        self.results: list[list[Foreign]] = []
        self.used: set[int] = set()
        # An operator without counterpart affects only its rule; an unknown operator makes the file invalid.
        foreign = ""
        for index, operator in enumerate(operators):
            title, op = _OPERATORS.get(operator.type, ("", ""))
            if title and not op:
                foreign = foreign or title
                self.results.append([Variable(f"{name}{index}")])
                continue
            try:
                if not op:
                    raise RuleSyntaxError(f"unknown operator number {operator.type}")
                self.results.append(self._results(operator, op, len(operators)))
            except Inexpressible:
                raise
            except RuleSyntaxError as error:
                place = f"{name} operator {index}{title and f' ({title})'}"
                raise RuleSyntaxError(f"{place}: {error}") from None
        if foreign:
            raise Inexpressible(f"TASO's {foreign} has no counterpart in the rule language")

    def _results(self, operator: Any, op: str, count: int) -> list[Foreign]:
        args = [self._operand(t.opId, t.tsId, count) for t in operator.input]
        params = _parameters(operator, op, len(args))
        if op != "part":
            return [make(op, params, args)]
        parts = params.pop("num_outputs", None)
        if not isinstance(parts, int) or not 1 <= parts <= _MOST_PARTS:
            raise RuleSyntaxError(f"num_outputs must be from 1 to {_MOST_PARTS}, got {parts}")
        return [make(op, {**params, "count": parts, "index": i}, args) for i in range(parts)]

    def _operand(self, op: int, result: int, count: int) -> Foreign:
        here = len(self.results)
        if op >= count:
            raise RuleSyntaxError(f"operands must be operators below {count}, got {op}")
        if op >= here:
            what = "itself, a cycle" if op == here else f"operator {op}, which comes later"
            raise RuleSyntaxError(f"operands must be earlier operators, got {what}")
        return self._value(op, result)

    def _value(self, op: int, result: int) -> Foreign:
        if op < 0:
            if result != 0:
                raise RuleSyntaxError(f"variable {-op} has no result {result}")
            return Variable(f"i{-op}")
        results = self.results[op]
        if not 0 <= result < len(results):
            raise RuleSyntaxError(f"operator {op} has no result {result}")
        self.used.add(op)
        return results[result]

    def output(self, op: int, result: int) -> Foreign:
        """Return the term of a mapped output."""
        if op >= len(self.results):
            raise RuleSyntaxError(
                f"a mapped output must be a {self.name} operator below {len(self.results)}, got {op}"
            )
        return self._value(op, result)


def _parameters(operator: Any, op: str, inputs: int) -> dict[str, Param]:
    """Return an operator's parameters by name, without redundant and ignored ones."""
    params: dict[str, Param] = {}
    for para in operator.para:
        if not 0 <= para.key < len(_PARAMETERS):
            raise RuleSyntaxError(f"unknown parameter number {para.key}")
        name = _PARAMETERS[para.key]
        if name in params:
            raise RuleSyntaxError(f"the parameter {name} is given twice")
        params[name] = para.value
    if op == "concat" and params.pop("num_inputs", inputs) != inputs:
        raise RuleSyntaxError(f"num_inputs of concat must be {inputs}, the number of its inputs")
    if op == "part" and "count" in params:
        raise RuleSyntaxError("a split has no parameter count")
    params.pop("op_type", None)  # it repeats the operator's type
    if op == "conv2d":
        # TASO matches a convolution with a kernel of any size.
        params.pop("kernel_h", None)
        params.pop("kernel_w", None)
    if op == "transpose":
        # The order of n axes is one number of n digits in base n; the shuffle only describes the storage.
        rank, perm = params.pop("rank", 2), params.get("perm")
        params.pop("shuffle", None)
        if isinstance(perm, int) and isinstance(rank, int) and 1 <= rank <= 8:
            if not 0 <= perm < rank**rank:
                raise RuleSyntaxError(
                    f"transpose: perm must be below {rank**rank} for {rank} axes, got {perm}"
                )
            params["perm"] = tuple(perm // rank**i % rank for i in reversed(range(rank)))
    return params
