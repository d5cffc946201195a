import pytest

from tests.devices.graphs import image, products
from workbench.costs import egraph_instances, instances_of
from workbench.costs.analytic import work
from workbench.costs.keys import instance_key, same_kernel
from workbench.graph import GraphBuilder, Opaque
from workbench.ops import TensorType
from workbench.rules import rule_set
from workbench.saturation import Limits, Saturation
from workbench.studies.devices import instances
from workbench.studies.devices.instances import saturated_instances

RULES = tuple(rule_set("default"))


@pytest.mark.slow
def test_all_instances_of_the_saturated_networks_are_listed_once():
    found = saturated_instances({"p": products(), "q": products(), "i": image()}, rules=RULES)
    keys = [instance_key(i) for i in found.instances]
    assert len(set(keys)) == len(keys) == len(found.instances)
    assert found.counts["p"] == found.counts["q"]
    assert len(keys) == found.counts["p"] + found.counts["i"]
    with Saturation(products(), RULES, Limits(settle=4)) as run:
        run.run()
        egraph = run.egraph()
    assert {instance_key(same_kernel(i)) for i in egraph_instances(egraph) if not work(i).free} <= set(keys)
    assert any('["relu"]' in k for k in keys), "what rules made of it is there: the activation within"


def test_networks_as_they_are_come_first():
    graph = products()
    found = saturated_instances({"p": graph}, rules=RULES)
    own = [instance_key(same_kernel(i)) for i in instances_of(graph)]
    assert [instance_key(i) for i in found.instances[: len(own)]] == own


def test_what_has_no_torch_form_is_counted_not_listed():
    b = GraphBuilder()
    (y,) = b.opaque(Opaque("Twice", "own", (TensorType("float32", (4,)),)), [b.input("x", (4,))])
    found = saturated_instances({"g": b.graph({"y": b.op("relu", y)})}, rules=RULES)
    assert [i.op for i in found.instances] == ["relu"]
    assert found.unmeasured == {"opaque": 1}


def test_ctrl_c_leaves_no_half_list(monkeypatch):
    def interrupt(self, progress=None):
        from workbench.run.trace import StopReason

        return StopReason.INTERRUPTED

    monkeypatch.setattr(instances.Saturation, "run", interrupt)
    with pytest.raises(KeyboardInterrupt):
        saturated_instances({"p": products()}, rules=RULES)
