import numpy as np
import pytest

from workbench.frontends import run_graph
from zoo.branches.networks import mobileone_s0, repvgg_a0


@pytest.mark.parametrize(
    ("network", "convolutions", "merged"), [(repvgg_a0, 44, 22), (mobileone_s0, 194, 43)]
)
@pytest.mark.slow
def test_branches_and_their_merged_form_agree(network, convolutions, merged):
    trained, by_hand = network(size=32), network(size=32, by_hand=True)
    assert trained.operators()["conv2d"] == convolutions
    assert by_hand.operators()["conv2d"] == merged
    assert "batchnorm" not in by_hand.operators()
    feeds = {"image": np.random.default_rng(0).standard_normal((1, 3, 32, 32)).astype(np.float32)}
    expected, found = (run_graph(g, feeds)["classes"] for g in (trained, by_hand))
    assert expected.shape == (1, 1000)
    np.testing.assert_allclose(found, expected, atol=1e-4 * np.abs(expected).max())


def test_sizes_that_the_strides_do_not_divide_are_refused():
    with pytest.raises(ValueError, match="multiple of 32, got 100"):
        repvgg_a0(size=100)
