"""Operators packed for another process: what travels, what does not, and when two are the same."""

import subprocess
import sys
import threading

import pytest

import workbench
from tests.ops.operators import cube, forget, registered, silu
from workbench.ops import spec_of
from workbench.ops.serialization import CannotTravel, definition_of, install, packed

LOCK = threading.Lock()

#: A process that knows nothing of these tests installs what it reads and evaluates an operator.
OTHER = """
import sys
import numpy as np
from workbench.ops import spec_of
from workbench.ops.serialization import install
install(sys.stdin.buffer.read())
spec = spec_of("cube")
print(spec.evaluate([np.full(2, 2.0, np.float32)], {"shift": 1}).tolist(), spec.doc, "tests" in sys.modules)
"""


def test_an_operator_computes_the_same_in_another_process():
    with registered(cube, exact=3):
        shipment = packed(["cube"])
    words = [sys.executable, "-c", OTHER]
    done = subprocess.run(words, input=shipment, capture_output=True, check=True)
    assert done.stdout.decode().split() == ["[27.0,", "27.0]", "(x", "+", "shift)", "**", "3", "False"]


def test_nothing_takes_no_bytes():
    assert packed([]) == b""
    install(b"")


def test_what_arrives_again_is_not_installed_again():
    with registered(silu):
        shipment = packed(["silu"])
        forget("silu")
        install(shipment)
        first = spec_of("silu")
        install(shipment)
        assert spec_of("silu") is first


def test_the_engine_gets_no_more_than_types():
    with registered(cube, exact=3):
        whole, typed = packed(["cube"]), packed(["cube"], typed_only=True)
        assert len(typed) < len(whole)
        forget("cube")
        install(typed)
        spec = spec_of("cube")
        assert spec.evaluate is None
        assert spec.attr_names == ("shift",)
        assert spec.infer is not None


def test_what_cannot_travel_says_why_and_stops_nothing_else():
    def locked(x):
        with LOCK:
            return x + 1

    def with_lock(t, xs, attrs):
        assert LOCK
        return xs[0]

    with registered(locked):
        with pytest.raises(CannotTravel, match=r"the functions of operator locked .* cannot pickle"):
            packed(["locked"])
        packed(["locked"], typed_only=True)  # its type rule has no lock
    b = workbench.GraphBuilder()
    graph = b.graph({"y": b.op("relu", b.input("x", (2,)))})
    with registered(locked, type_rule=with_lock), pytest.raises(CannotTravel):
        workbench.optimize(graph, rules=workbench.parse_rules("same: relu(x) => locked(x)"))
    with registered(locked, type_rule=with_lock):
        assert workbench.optimize(graph, rules="elementwise").certificate.passed


def test_a_definition_is_that_of_the_function_and_all_it_refers_to():
    def make(k, exact=None):
        def scaled(x):
            return k * x

        with registered(scaled, exact=exact):
            return definition_of("scaled")

    assert make(2) == make(2) != make(3)
    assert make(2) != make(2, 1)
    assert definition_of("relu") == ""
