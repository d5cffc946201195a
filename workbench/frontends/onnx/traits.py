"""Facts about ONNX operators that import and certification act on: one table, by domain and name."""

from __future__ import annotations

import enum
from typing import Final

from onnx import NodeProto


class OnnxTrait(enum.Flag):
    """A set of facts about an ONNX operator."""

    NONE = 0
    #: The results are random numbers, or depend on some.
    RANDOM = enum.auto()
    #: As before, but only if the operator learns at run time that the model is in training.
    RANDOM_IN_TRAINING = enum.auto()
    #: The operator runs graphs among its attributes: their effects are its effects.
    SUBGRAPHS = enum.auto()
    #: Import computes the operator if its operands are small constants: it is cheap, and has neither state
    #: nor subgraphs nor access to files.
    FOLDABLE = enum.auto()
    #: The float results vary in the last digits between runtimes.
    VARIES = enum.auto()
    #: The float results are right to the last digit of 1, not to that of small results.
    COARSE = enum.auto()
    #: The results are continuous in the operands; an operator without this trait may round.
    CONTINUOUS = enum.auto()
    #: The result depends only on the type of the operand.
    OF_TYPE = enum.auto()
    #: The result is at most as large as the first operand, even if inference finds no size.
    SHRINKS = enum.auto()
    #: The operator reads windows of an image.
    POOLS = enum.auto()
    #: The results are elements of operands, or chosen from what operands tell: nothing is rounded.
    UNROUNDED = enum.auto()
    #: As before, and the results are whole numbers, steps or truth values.
    WHOLE = enum.auto()
    #: All float operands are numbers to compute with, not scales, sizes or bounds.
    ARITHMETIC = enum.auto()
    #: Integers are passed on unchanged, so that an index stays one.
    CARRIES = enum.auto()
    #: What happens changes at a number that an operand holds.
    COMPARES = enum.auto()
    #: Places of one operand are read by the indices in another.
    INDEXES = enum.auto()


_T = OnnxTrait
_PASSES: Final = _T.FOLDABLE | _T.CONTINUOUS | _T.UNROUNDED
_STEPS: Final = _T.UNROUNDED | _T.WHOLE

#: ONNX's own operators by their traits. Each is named once; an operator that is not named has no traits.
_ONNX: Final[dict[OnnxTrait, str]] = {
    _T.RANDOM: "Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike",
    _T.RANDOM_IN_TRAINING | _T.CONTINUOUS | _T.UNROUNDED: "Dropout",
    _T.SUBGRAPHS: "If Loop Scan SequenceMap",
    _T.FOLDABLE: "Reciprocal Sqrt",
    _T.FOLDABLE | _T.COMPARES: "Mod",
    _T.FOLDABLE | _T.ARITHMETIC: "Add Div Mul Sub",
    _T.FOLDABLE | _T.VARIES: "Erf Exp Log Pow Range Tanh",
    _T.FOLDABLE | _T.VARIES | _T.COARSE: "Sigmoid",
    _T.FOLDABLE | _T.VARIES | _T.CONTINUOUS: "Atan Cos CumSum ReduceMean ReduceProd ReduceSum Sin Tan",
    _T.FOLDABLE | _T.UNROUNDED: "Abs Neg Trilu",
    _T.FOLDABLE | _T.UNROUNDED | _T.COMPARES: "Clip Max Min",
    _T.FOLDABLE | _T.UNROUNDED | _T.SHRINKS: "Compress",
    _T.FOLDABLE | _T.UNROUNDED | _T.CARRIES: "Cast CastLike",
    _T.FOLDABLE | _STEPS: (
        "And ArgMax ArgMin Ceil ConstantOfShape EyeLike Floor IsInf IsNaN Not OneHot Or Round Sign Xor"
    ),
    _T.FOLDABLE | _STEPS | _T.COMPARES: "Equal Greater GreaterOrEqual Less LessOrEqual",
    _T.FOLDABLE | _STEPS | _T.SHRINKS: "NonZero",
    _T.FOLDABLE | _STEPS | _T.OF_TYPE: "Shape Size",
    _PASSES: "ReduceMax ReduceMin ScatterND",
    _PASSES | _T.CARRIES: (
        "Concat Expand Flatten Identity Reshape Slice Split Squeeze Tile Transpose Unsqueeze Where"
    ),
    _PASSES | _T.INDEXES: "Gather GatherElements GatherND ScatterElements",
    _T.UNROUNDED: "LeakyRelu Relu ThresholdedRelu TopK Unique",
    _STEPS: "DequantizeLinear QuantizeLinear",
    _T.CONTINUOUS: (
        "Acos Acosh Asin Asinh Atanh Attention Celu Cosh Elu GRU GlobalAveragePool GlobalLpPool GlobalMaxPool "
        "GroupNormalization HardSigmoid HardSwish LRN LSTM LogSoftmax LpNormalization LpPool Mean "
        "MeanVarianceNormalization Mish RMSNormalization RNN ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp "
        "ReduceSumSquare RotaryEmbedding Selu Sinh Softmax Softplus Softsign Swish"
    ),
    _T.CONTINUOUS | _T.ARITHMETIC: (
        "BatchNormalization Conv ConvTranspose Einsum Gemm InstanceNormalization LayerNormalization MatMul PRelu"
    ),
    _T.CONTINUOUS | _T.UNROUNDED: "DepthToSpace ReverseSequence SpaceToDepth",
    _T.CONTINUOUS | _T.UNROUNDED | _T.CARRIES: "Pad",
    _T.CONTINUOUS | _T.POOLS: "AveragePool",
    _T.CONTINUOUS | _T.POOLS | _T.UNROUNDED: "MaxPool",
}
#: ONNX Runtime's own operators by their traits.
_MICROSOFT: Final[dict[OnnxTrait, str]] = {
    _T.RANDOM: "Sampling",
    _T.RANDOM_IN_TRAINING: "BiasDropout BitmaskBiasDropout BitmaskDropout",
    _T.UNROUNDED: "Trilu Unique",
    _T.UNROUNDED | _T.CARRIES: "Pad",
    _T.UNROUNDED | _T.INDEXES: "GatherND",
    _T.INDEXES: "EmbedLayerNormalization",
    _STEPS: "DequantizeLinear QuantizeLinear",
}
_TRAITS: Final = {
    (domain, name): traits
    for domain, table in (("", _ONNX), ("com.microsoft", _MICROSOFT))
    for traits, names in table.items()
    for name in names.split()
}
#: The operand that tells a dropout whether the model is in training.
_TRAINING: Final = {"Dropout": 2, "BitmaskDropout": 2, "BiasDropout": 4, "BitmaskBiasDropout": 4}


def has(node: NodeProto, trait: OnnxTrait) -> bool:
    """Return whether a node's operator has all of some traits."""
    domain = "" if node.domain == "ai.onnx" else node.domain
    return trait in _TRAITS.get((domain, node.op_type), OnnxTrait.NONE)


def draws_random_numbers(node: NodeProto) -> bool:
    """Return whether a node draws random numbers by itself; its subgraphs are not examined."""
    if has(node, OnnxTrait.RANDOM_IN_TRAINING):
        place = _TRAINING[node.op_type]
        return len(node.input) > place and bool(node.input[place])
    return has(node, OnnxTrait.RANDOM)


def index_operands(node: NodeProto) -> tuple[tuple[int, int], ...]:
    """Return for each operand of indices its place and that of the operand whose places they are."""
    if not has(node, OnnxTrait.INDEXES):
        return ()
    return ((0, 2), (1, 4)) if node.op_type == "EmbedLayerNormalization" else ((1, 0),)
