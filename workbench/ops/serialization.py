"""Operators that are not built in, packed for another process and installed there.

Functions of a notebook or a script cannot be imported by another process, so they travel by value
(cloudpickle), together with all that they refer to. A function of the workbench itself travels by name.
"""

from __future__ import annotations

import hashlib
import pickle
import sys
from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from workbench.ops import registry
from workbench.ops.registry import spec_of
from workbench.ops.spec import OpSpec, no_flops
from workbench.ops.traits import Trait

#: Digests of the installed operators, so that one that comes with every program is installed once.
_installed: dict[str, bytes] = {}
_definitions: dict[str, tuple[OpSpec, str]] = {}


class CannotTravel(TypeError):
    """Raised when an operator's functions refer to something that cannot be sent to another process."""


def packed(names: Iterable[str], *, typed_only: bool = False) -> bytes:
    """Return operators as bytes; no bytes for no operator. With ``typed_only``, only attributes and type rule travel.

    Graphs and rules need no more. Raise :class:`CannotTravel` if a function refers to what cannot be pickled.
    """
    specs = [spec_of(name) for name in sorted(names)]
    if typed_only:
        bare = partial(replace, evaluate=None, flops=no_flops, export=None, torch=None, exact=None)
        specs = [bare(spec) for spec in specs]
    paths = [p for p in sys.path if p]
    return pickle.dumps((paths, [(spec.name, _content(spec)) for spec in specs])) if specs else b""


def install(shipment: bytes) -> None:
    """Add packed operators to this process; an operator of the same name is replaced."""
    if not shipment:
        return
    paths, specs = pickle.loads(shipment)
    # After the process's own paths, so that a ``random.py`` of the user hides nothing.
    sys.path += [p for p in paths if p not in sys.path]
    for name, content in specs:
        digest = hashlib.blake2b(content, digest_size=16).digest()
        if _installed.get(name) != digest:
            registry.replace(pickle.loads(content))
            _installed[name] = digest


def definition_of(name: str) -> str:
    """Return a digest of an operator's functions and attributes; no text for a built-in operator.

    Operators with the same digest compute the same.
    """
    spec = spec_of(name)
    if Trait.OWN not in spec.traits:
        return ""
    known = _definitions.get(name)
    if known is None or known[0] is not spec:
        known = _definitions[name] = spec, hashlib.blake2b(_content(spec), digest_size=8).hexdigest()
    return known[1]


def _content(spec: OpSpec) -> bytes:
    import cloudpickle

    module = sys.modules.get(spec.module)
    try:
        if module is None or spec.module == "__main__":
            return bytes(cloudpickle.dumps(spec))
        # Otherwise only the names of the module's functions would travel, and the module may change.
        cloudpickle.register_pickle_by_value(module)
        try:
            return bytes(cloudpickle.dumps(spec))
        finally:
            cloudpickle.unregister_pickle_by_value(module)
    except Exception as error:  # pickling runs the code of any object
        raise CannotTravel(
            f"the functions of operator {spec.name} must refer to nothing that cannot be pickled, "
            f"got {error} (try making it inside the function)"
        ) from error
