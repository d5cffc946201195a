import numpy as np

from workbench.costs.analytic import AnalyticCost
from workbench.ops import TensorType
from workbench.studies.search.nodes import PER_MICROSECOND, NodeTable, digest_of

FLOATS = TensorType("float32", (4, 4))


class Counting(AnalyticCost):
    asked = 0

    def price(self, instances):
        self.asked += len(instances)
        return super().price(instances)


def test_an_instance_is_priced_once_and_folded_work_is_free():
    model = Counting()
    table = NodeTable(model)
    x, w = table.kind("input", ("x",), FLOATS, []), table.kind("weight", ("w",), FLOATS, [])
    assert (x.constant, w.constant, x.price, w.price) == (False, True, 0, 0)
    first = table.kind("add", (), FLOATS, [x, w])
    assert table.kind("add", (), FLOATS, [x, w]) is first
    assert model.asked == 1
    assert first.price > 0
    assert not first.constant
    folded = table.kind("add", (), FLOATS, [w, w])
    assert folded.constant
    assert folded.price == 0
    assert folded.symbol == first.symbol
    # Whether an operand is a weight is part of what is priced.
    table.kind("add", (), FLOATS, [x, x])
    assert model.asked == 2


def test_prices_are_whole_picoseconds():
    class Fixed(AnalyticCost):
        def price(self, instances):
            return np.full(len(instances), 1.23456789)

    table = NodeTable(Fixed())
    x = table.kind("input", ("x",), FLOATS, [])
    assert table.kind("relu", (), FLOATS, [x]).price == 1234568
    assert PER_MICROSECOND == 1_000_000


def test_digests_tell_structure_attributes_and_types_apart():
    table = NodeTable(AnalyticCost())
    x, y = table.kind("input", ("x",), FLOATS, []), table.kind("input", ("y",), FLOATS, [])
    wide = table.kind("input", ("x",), TensorType("float32", (4, 8)), [])
    heads = [k.head for k in (x, y, wide)]
    assert len(set(heads)) == 3
    a, b = digest_of(x.head, []), digest_of(y.head, [])
    add = table.kind("add", (), FLOATS, [x, y])
    assert digest_of(add.head, [a, b]) != digest_of(add.head, [b, a])
    assert len(digest_of(add.head, [a, b])) == 16
