"""An accepted proof is looked at: as a table, as a stepper, as a static face, in a terminal."""

import pytest

import workbench
from tests.browser import needs_browser, show
from workbench.faces.views.static_html import static_html
from workbench.graph import GraphBuilder
from workbench.laws.run_proofs import check, prove

from .models import block


@pytest.fixture(scope="module")
def accepted():
    result = workbench.optimize(block(), cost="analytic", time=False, certify=False)
    return check(result.original, result.graph, prove(result))


def test_every_step_is_a_row_of_two_terms(accepted):
    frame = accepted.frame()
    steps = accepted.replayed.proof.steps
    assert frame.step.tolist() == [k for k, s in enumerate(steps, 1) for _ in s.pairs]
    assert set(frame.by) == set(accepted.laws)
    assert "batchnorm(conv2d(x, w5), w6, w7, w8, w9)" in [*frame.left, *frame.right]


def test_the_regions_of_the_certificate_share_the_steps_out():
    b = GraphBuilder("two products, and a convolution")
    x, c = b.input("x", (4, 8)), b.input("c", (1, 3, 8, 8))
    products = [b.op("matmul", x, b.weight(shape=(8, n))) for n in (2, 3)]
    y = b.op("relu", b.op("conv2d", c, b.weight(shape=(4, 3, 3, 3))))
    graph = b.graph({"p": products[0], "q": products[1], "y": y})
    result = workbench.optimize(graph, cost="analytic", time=False)
    accepted = result.proof()
    regions = accepted.regions()
    assert len(regions) == result.certificate.regions > 1
    assert repr(regions[0]).startswith(f"ProvedRegion: {regions[0].region} (step")
    steps = sorted(k for r in regions for k in r.steps)
    assert steps == [*range(1, len(accepted.replayed.proof.steps) + 1)]
    frame = accepted.frame()
    assert [set(frame.step[frame.region == n]) for n in range(1, len(regions) + 1)] == [
        {*r.steps} for r in regions
    ]
    assert {*frame.by[frame.region == 1]} >= {*regions[0].region.rules}


def test_an_output_is_explained_from_the_original_to_the_result(accepted):
    explained = accepted.explain()
    assert explained.complete
    assert (explained.left, explained.right) == ("y of the original", "y of the result")
    assert {m.rule for m in explained.moves} == {*accepted.laws}
    assert "e-class" not in static_html(explained)
    assert explained.moves[-1].after.startswith("conv2d[")
    assert "act=relu" in explained.moves[-1].after
    with pytest.raises(ValueError, match="no output is called 'z'"):
        accepted.explain("z")


def test_layers_that_share_a_value_are_explained_once():
    b = GraphBuilder("a tower in which every layer reads the one below it twice")
    y = b.input("x", (4, 4))
    for _ in range(12):
        y = b.op("add", b.op("relu", b.op("relu", y)), b.op("tanh", y))
    result = workbench.optimize(b.graph({"y": y}), cost="analytic", time=False, certify=False)
    accepted = result.proof()
    assert len(accepted.explain().moves) == len(accepted.frame()) == 12


def test_a_step_speaks_of_values_of_both_graphs(accepted):
    shown = accepted.replayed
    before, after = ({*shown.groups(side).values()} for side in (0, 1))
    assert all({*values} & before for values in shown.focus())
    output = shown.groups(0)[shown.graphs[0].output_ids[0]]
    assert output == shown.groups(1)[shown.graphs[1].output_ids[0]]
    assert any(output in values for values in shown.focus())
    assert {*shown.groups(0)} == {*range(len(shown.graphs[0].nodes))}
    assert {*shown.groups(1)} == {*range(len(shown.graphs[1].nodes))}
    assert before & after


def test_the_static_face_has_both_graphs_and_all_steps(accepted):
    html = static_html(accepted)
    assert "every law is a theorem" in html
    assert html.count("<tr>") == 2 + len(accepted.frame()) + len(accepted.regions())
    assert all(str(r.region).split(" → ")[0] in html for r in accepted.regions())
    assert "the original on the left, the result on the right" in html


@pytest.mark.browser
@needs_browser
def test_buttons_step_and_frame_the_terms_of_the_step(accepted, launch):
    viewer = accepted.view()
    state = {"data": viewer.data, "step": viewer.step, "selected": "", "answers": False}
    page, problems = show(launch(), "viewer", state)
    assert page.locator(".wb-related").count() == 0
    page.click("button[aria-label='step on']")
    assert page.locator(".wb-label").inner_text().startswith(f"step 1 of {len(viewer.data['steps']) - 1}, ")
    assert page.locator(".wb-related").count() >= 2
    page.locator("tbody tr").last.click()
    assert page.evaluate("window.model.get('step')") == len(viewer.data["steps"]) - 1
    assert not problems
