"""Generated models with symbolic dimensions: each result is equal to its original at every size."""

from collections import Counter

import numpy as np
import pytest
from onnx import numpy_helper

from tests.generated import static
from tests.generated.architectures import FAMILIES as ARCHITECTURES
from tests.generated.draft import session
from tests.generated.families import FAMILIES, LARGER, draw
from tests.generated.judge import compared, difference, judge, judged, line, table
from tests.sampled import rotating

#: Seeds of different families: a squeeze, a slice, a cache, a table, a crop, a U-Net, chunks, lengths, joined rows…
DOZEN = (1, 2, 3, 6, 11, 20, 22, 24, 32, 36, 37, 40)


@pytest.mark.slow
def test_every_family_makes_a_model_that_runs_at_several_sizes():
    for seed, family in (*enumerate(FAMILIES), *enumerate(ARCHITECTURES, LARGER)):
        name, draft, model, valid = draw(seed)
        assert name == family
        assert len(valid) >= 5
        values = session(model).run(None, draft.feeds(valid[0]))
        assert len(values) == len(model.graph.output)


def test_a_seed_always_makes_the_same_model():
    assert draw(7)[2].SerializeToString() == draw(7)[2].SerializeToString()
    assert draw(7)[2] != draw(7 + len(FAMILIES))[2]


def test_the_sizes_are_beside_the_constants_of_the_model():
    _, draft, _, _ = draw(0)
    for symbol, constants in draft.symbols.items():
        used = {sizes[symbol] for sizes in draft.bindings()}
        assert len(used) >= 12
        assert {k + d for k in constants for d in (-1, 0, 1)} - {0} <= used


def altered(model, change):
    copy = type(model)()
    copy.CopyFrom(model)
    change(copy)
    return copy


def test_a_wrong_result_is_noticed():
    _, draft, model, valid = draw(18)

    def doubled(copy):
        weight = next(w for w in copy.graph.initializer if w.data_type == 1 and np.prod(w.dims) > 1)
        weight.CopyFrom(numpy_helper.from_array(2 * numpy_helper.to_array(weight), weight.name))

    def fixed(copy):
        for v in copy.graph.input:
            v.type.tensor_type.shape.dim[0].dim_value = 2

    def renamed(copy):
        copy.graph.output[0].type.tensor_type.shape.dim[0].dim_param = "another"

    assert compared(draft, model, valid, model) == ("right", "")
    assert compared(draft, model, valid, altered(model, doubled))[0] == "wrong"
    assert compared(draft, model, valid, altered(model, fixed))[0] == "lost"
    assert compared(draft, model, valid, altered(model, renamed))[0] == "interface"


def test_differences_are_of_shape_type_or_value():
    one = np.ones((2, 3), np.float32)
    assert not difference(one, one + 1e-6)
    assert difference(one, one[:1])
    assert difference(one, one.astype(np.float64))
    assert difference(one, one * 1.01)
    assert difference(one, np.where(np.eye(2, 3), np.nan, one))
    assert difference(np.arange(3), np.arange(3)[::-1])


def test_a_wrong_static_result_is_noticed_beyond_rounding():
    one = static.Given(41)

    def scaled(factor):
        def change(copy):
            weight = next(w for w in copy.graph.initializer if w.data_type == 1)
            weight.CopyFrom(numpy_helper.from_array(factor * numpy_helper.to_array(weight), weight.name))

        return altered(one.model, change)

    assert static.compared([one], one.model, one.model) == ("right", "")
    assert static.compared([one], one.model, scaled(np.float32(1 + 1e-6)))[0] == "right"
    assert static.compared([one], one.model, scaled(np.float32(1.5)))[0] == "wrong"


def test_joined_models_compute_what_each_computes():
    group = next(g for g in static.files(range(60)) if len(g) > 3)
    models = [m for s in group if not (m := static.Given(s)).failure]
    whole = static.joined(models)
    assert static.compared(models, whole, whole) == ("right", "")
    assert len(whole.graph.node) == sum(len(m.model.graph.node) for m in models)


def check(seeds, kept=1.0, judge=judge):
    """Judge seeds; at least a part must keep all symbols, and nothing else may be less than right."""
    outcomes = list(judged(seeds, judge=judge))
    counts = Counter(o["verdict"] for o in outcomes)
    good = ("right", "lost", "no reference")
    report = "\n".join([*table(outcomes), *(line(o) for o in outcomes if o["verdict"] not in good)])
    assert sum(counts[v] for v in good) == len(outcomes), report
    assert len(outcomes) - counts["lost"] >= kept * len(outcomes), report
    assert any(o["rewritten"] for o in outcomes)


@pytest.mark.slow
def test_a_dozen_generated_models_are_right():
    check(DOZEN)


@pytest.mark.slow
@pytest.mark.nightly
def test_three_hundred_generated_models_are_right():
    check(range(300), kept=0.75)


@pytest.mark.slow
@pytest.mark.nightly
def test_blocks_of_architectures_are_right():
    check(range(LARGER, LARGER + 5 * len(ARCHITECTURES)), kept=0.75)


@pytest.mark.slow
def test_random_models_of_fixed_shapes_are_right_when_optimised():
    check(static.files(rotating(10_000, 40)), judge=static.judge)


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("part", range(10))
def test_ten_thousand_models_of_fixed_shapes_are_right_when_optimised(part):
    check(static.files(range(1000 * part, 1000 * part + 1000)), judge=static.judge)
