"""Facts about operators that several parts of the workbench act on."""

from __future__ import annotations

import enum


class Trait(enum.Flag):
    """A set of facts about an operator, declared with it and asked for everywhere else."""

    NONE = 0
    #: The value exists only when the model runs: graph inputs, opaque operators and their results.
    RUNTIME = enum.auto()
    #: The node refers to a value that is made elsewhere: an input, a weight, one of several results.
    REFERENCE = enum.auto()
    #: The leaf has a name of its own: an input or a weight.
    NAMED = enum.auto()
    #: The value is known without the operator's inputs or the model's: a weight or a constant of a rule.
    CONSTANT = enum.auto()
    #: The value is one number without axes, the same in every model: that of the attribute ``value``, if any.
    NUMBER = enum.auto()
    #: No cost model charges for the node, because nothing runs for it.
    FREE = enum.auto()
    #: The result is the operand's memory as it lies: an executor moves no data.
    ALIAS = enum.auto()
    #: The result reads the operand's memory, with other extents and strides.
    VIEW = enum.auto()
    #: Every element of the result is an element of an operand.
    SELECTS = enum.auto()
    #: The result is a part of the operand along one axis.
    CUTS = enum.auto()
    #: The result has exactly the elements of the operand, in another order or shape.
    REARRANGES = enum.auto()
    #: Every element of the result is an element of an operand or a number that the operator fixes.
    MOVES = enum.auto()
    #: The result needs no rounding in the operands' element type.
    UNROUNDED = enum.auto()
    #: The elements of the result are those of the operand in the element type of an attribute.
    CONVERTS = enum.auto()
    #: The operands broadcast against each other.
    BROADCASTS = enum.auto()
    #: The result is zero if one of the operands that the operator needs is zero (if all of them are, for an
    #: operator of any number of operands).
    LINEAR = enum.auto()
    #: An elementwise operator whose result may be infinite although its operands are finite.
    GROWS = enum.auto()
    #: The torch form takes a Python number in place of the second operand.
    NUMBER_RIGHT = enum.auto()
    #: Every element of the result is a sum of products of two operands' elements.
    PRODUCT = enum.auto()
    #: Every element of the result summarises a window or whole axes of the operand.
    REDUCES = enum.auto()
    #: The operator is not built in: a program for another process takes its specification along.
    OWN = enum.auto()
    #: The first operand has four axes: an image ``[N, C, H, W]``, the weight of a convolution, or heads.
    FOUR_AXES = enum.auto()
    #: The operator is written as a call of an ONNX function that the model carries along, so that any runtime
    #: runs it.
    CARRIED = enum.auto()
