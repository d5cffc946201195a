from workbench.costs.analytic import DEVICES, AnalyticCost
from workbench.costs.labels import described, is_this_machine
from workbench.costs.measured import MeasuredCost
from workbench.costs.recorded import RecordedCost


def test_a_roofline_is_not_this_machine():
    for name in DEVICES:
        text = described(AnalyticCost(name).source)
        assert text.startswith("by a roofline of a")
        assert text.endswith(", not this machine")
        assert not is_this_machine(AnalyticCost(name).source)


def test_sizes_that_prices_are_for_are_kept():
    text = described("analytic roofline, t4, at batch=4, sequence=128")
    assert text == "by a roofline of an NVIDIA T4, not this machine, at batch=4, sequence=128"


def test_what_was_measured_here_says_so(tmp_path):
    model = MeasuredCost(tmp_path)
    assert described(model.source).startswith("by operators measured on this machine: ONNX Runtime")
    assert is_this_machine(model.source)
    assert is_this_machine(RecordedCost(model.device, {}).source)
    assert not is_this_machine(RecordedCost("NVIDIA H200, torch 2.9", {}).source)
    elsewhere = described(RecordedCost("NVIDIA H200, torch 2.9", {}).source)
    assert elsewhere.startswith("by operators recorded not on this machine: NVIDIA H200")


def test_another_source_is_named_as_it_names_itself():
    assert described("a colleague's table") == "by a colleague's table"
    assert not is_this_machine("a colleague's table")
