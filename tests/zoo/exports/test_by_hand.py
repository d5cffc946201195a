"""Architectures rewritten by hand compute the same values as the modules that they are made of."""

import pytest

from zoo.exports import architecture

REWRITTEN = (
    "repvgg_a0",
    "mobileone_s0",
    "segformer_b0",
    "vit_tiny",
    "ms_marco_tinybert_l2",
    "tinybert_l4",
    "neumf",
)
LARGE = ("ms_marco_minilm_l6", "clip_vit_b_32", "gpt2_next_word", "segformer_b2_512", "vit_b_16")

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("name", [*REWRITTEN, *(pytest.param(n, marks=pytest.mark.slow) for n in LARGE)])
def test_the_rewritten_module_computes_the_same(name):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from zoo.exports.by_hand import by_hand
    from zoo.exports.weights import example

    torch.set_num_threads(1)
    wanted = architecture(name)
    module = wanted.module()
    rewritten = by_hand(module)
    assert rewritten is not None
    assert type(rewritten) is not type(module) or name in ("repvgg_a0", "mobileone_s0")
    sizes = {**wanted.sizes, "batch": 2} | ({"sequence": 7} if "sequence" in wanted.sizes else {})
    inputs = example(wanted, sizes, seed=3)
    if len(inputs) > 1 and inputs[1].dim() > 1:
        inputs[1][1, 4:] = 0  # the second text is shorter
    with torch.no_grad():
        expected, found = module(*inputs), rewritten(*inputs)
    assert found.shape == expected.shape
    assert float((found - expected).abs().max()) < 1e-4 * float(expected.abs().max())


def test_an_architecture_without_a_formula_has_no_rewritten_form():
    pytest.importorskip("torch", reason="torch is not installed")
    from zoo.exports.by_hand import by_hand

    assert by_hand(architecture("lenet5").module()) is None
