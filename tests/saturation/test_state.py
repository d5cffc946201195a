import pytest

from workbench.graph import GraphBuilder
from workbench.saturation.egglog_session import EngineError
from workbench.saturation.encoding import Constructor, encoding_for
from workbench.saturation.engine import Engine, Program
from workbench.saturation.state import Record

CONCAT = Constructor("concat", 3)


@pytest.fixture
def state():
    b = GraphBuilder("state")
    x = b.input("x", (2, 3))
    graph = b.graph({"y": b.op("relu", x)})
    return Engine(Program(graph, encoding_for(graph), ())).state


def test_a_copy_of_a_record_stays_as_it_is():
    record = Record([CONCAT], {"rs": 1}, {(1, (2, 3))}, {4}, {(1,): "group0_"})
    copy = record.copy()
    assert copy == record
    record.constructors.append(Constructor("relu", 1))
    record.applied["rs"] = 2
    record.merged.add((2, ()))
    record.made_by_merge.add(5)
    record.combined[(2,)] = "group1_"
    assert copy == Record([CONCAT], {"rs": 1}, {(1, (2, 3))}, {4}, {(1,): "group0_"})


def test_a_name_is_the_next_handle_and_is_not_used_again(state):
    assert state.handles == 2
    assert state.name("(h_ 1)") == 2
    rows = {state.base.egraph.value_to_i64(r.inputs[0]): r.output for r in state.functions["h_"].rows}
    assert rows.keys() == {0, 1, 2}
    assert rows[2] == rows[1] != rows[0]
    assert state.new_handle() == 3
    assert state.name("(h_ 0)") == 4


def test_a_constructor_is_declared_once(state):
    assert CONCAT.name not in state.functions
    before = list(state.record.constructors)
    state.declare(CONCAT)
    state.declare(CONCAT)
    assert state.record.constructors == [*before, CONCAT]
    assert CONCAT.name in state.functions
    with pytest.raises(EngineError):
        state.run(CONCAT.declaration())
