import pytest

import workbench
from workbench.saturation import Limits
from workbench.studies.benchmarks.whole import whole_call


@pytest.mark.slow
def test_a_whole_call_gives_seconds_by_stage_and_the_same_cost():
    limits = Limits(e_nodes=400, iterations=2)
    call = whole_call("vgg19", rules="default", cost="analytic", limits=limits)
    assert call.certified
    assert 0 < sum(call.stages.values()) <= call.seconds
    here = workbench.optimize(
        workbench.benchmark("vgg19"), e_nodes=400, iterations=2, settle=0, certify=False
    )
    assert call.cost_after == here.cost_after


def test_what_fails_there_is_raised_here():
    with pytest.raises(RuntimeError, match=r"nonesuch.*no benchmark is called"):
        whole_call("nonesuch", rules="default", cost="analytic", limits=Limits())
