"""Operators in index notation: composites, their data model and everything derived from one declaration.

``parse("rms", "x{T}[~ D], g{T}[D] -> y{T}[~ D]", "y[~ d] = …", eps=1e-5)`` gives a :class:`Composite`: its tensors, its
attributes and its equations, in an order in which they can be computed. Calls of other composites are inlined, so that
no equation contains one. A target other than an output is an intermediate tensor.

Whole-number expressions and values of elements are in :mod:`.expressions`. ``mean`` is a sum divided by an
``IndexValue``; a power of 1 to 16 is a product. Comparisons of two ``IndexValue`` compare integers.

``bind(composite, types, attributes)`` gives a :class:`~.binding.Binding`: the values of all extents and the types of
all tensors. A read outside its tensor is an error, unless it is in a branch of a ``where``: a branch is computed only
at the places that choose it.

Leading axes align from the last one and broadcast: an extent of 1 and a missing axis are read at every place.
"""

from workbench.kernels.composites.binding import bind as bind
from workbench.kernels.composites.composite import Composite as Composite
from workbench.kernels.composites.composite import NotationError as NotationError
from workbench.kernels.composites.equations import parse as parse
from workbench.kernels.composites.expressions import PRIMITIVES as PRIMITIVES
