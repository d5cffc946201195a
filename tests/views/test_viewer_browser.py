"""The viewer's module in a real browser without a network."""

import numpy as np
import pytest

import workbench
from tests.browser import needs_browser, show
from workbench.views.compare import comparison_data
from workbench.views.egraphs import Known, egraph_data
from workbench.views.part import Part

pytestmark = [pytest.mark.browser, needs_browser]


@pytest.fixture(scope="module")
def result():
    return workbench.optimize(workbench.benchmark("bert", layers=6))


@pytest.fixture
def compared(browser, result):
    data = comparison_data(result.compare())
    page, problems = show(browser, "viewer", {"data": data, "step": 0, "selected": "", "answers": False})
    yield page
    assert problems == []
    page.context.close()


@pytest.fixture
def grown(browser):
    b = workbench.GraphBuilder()
    x, y, z = (b.input(n, (4, 4)) for n in "xyz")
    graph = b.graph({"l": b.op("add", b.op("add", x, y), z), "r": b.op("add", x, b.op("add", y, z))})
    with workbench.Saturation(graph, workbench.rule_set("ac")) as saturation:
        saturation.run()
        egraph = saturation.egraph()
        data = egraph_data(Known.of(egraph, np.ones(len(egraph)), history=saturation.snapshots))
    page, problems = show(browser, "viewer", {"data": data, "step": 0, "selected": "", "answers": True})
    yield page
    assert problems == []
    page.context.close()


def transform(page, pane=0):
    return page.locator(".wb-canvas > g").nth(pane).get_attribute("transform")


def test_both_graphs_are_drawn(compared):
    assert compared.locator(".wb-pane").count() == 2
    assert compared.locator(".wb-box").count() > 20
    assert compared.locator(".wb-legend").inner_text().count("e-class") == 3
    assert "rewritten" in compared.locator(".wb-caption").first.inner_text()


def test_a_click_tells_what_it_is_and_what_corresponds(compared):
    box = compared.locator(".wb-pane").nth(1).locator(".wb-box:not(.wb-opens)", has_text="matmul").first
    box.click()
    facts = compared.locator(".wb-facts").inner_text()
    assert "operator" in facts
    assert "e-class" in facts
    assert "analytic" in facts
    assert compared.locator(".wb-chosen").count() == 1


def test_rules_are_told_where_they_made_it(compared):
    compared.get_by_role("searchbox").fill("merge-matmuls")
    assert compared.locator(".wb-hit").count() >= 1
    compared.keyboard.press("Enter")
    assert "merge-matmuls" in compared.locator(".wb-facts").inner_text()


def test_search_counts_and_goes_round(compared):
    search = compared.get_by_role("searchbox")
    search.fill("transpose")
    hits = compared.locator(".wb-hit").count()
    assert compared.locator(".wb-controls").first.inner_text().startswith(f"{hits} found")
    seen = []
    for _ in range(hits + 1):
        compared.keyboard.press("Enter")
        seen.append(compared.evaluate("window.model.get('selected')"))
    assert seen[0] == seen[-1]
    compared.keyboard.press("Escape")
    assert compared.locator(".wb-dim").count() == 0


def test_keys_alone_suffice(compared):
    compared.locator(".wb-canvas").first.focus()
    before = transform(compared)
    compared.keyboard.press("+")
    zoomed = transform(compared)
    compared.keyboard.press("ArrowLeft")
    assert len({before, zoomed, transform(compared)}) == 3
    compared.keyboard.press("0")
    compared.keyboard.press("Enter")
    first = compared.evaluate("window.model.get('selected')")
    compared.keyboard.press("ArrowDown")
    second = compared.evaluate("window.model.get('selected')")
    assert first != second
    compared.keyboard.press("ArrowUp")
    assert compared.evaluate("window.model.get('selected')") == first


def test_dragging_pans_and_the_wheel_zooms_with_ctrl(compared):
    canvas = compared.locator(".wb-canvas").first
    box = canvas.bounding_box()
    at = (box["x"] + 20, box["y"] + box["height"] - 20)
    before = transform(compared)
    compared.mouse.move(*at)
    compared.mouse.down()
    compared.mouse.move(at[0] + 50, at[1] - 30)
    compared.mouse.up()
    moved = transform(compared)
    assert moved != before
    compared.keyboard.down("Control")
    compared.mouse.wheel(0, 100)
    compared.keyboard.up("Control")
    compared.wait_for_function(
        "t => document.querySelector('.wb-canvas > g').getAttribute('transform') !== t", arg=moved
    )


def test_layers_are_opened_and_left(browser):
    b = workbench.GraphBuilder()
    x = b.input("x", (4, 4))
    for _ in range(40):
        x = b.op("tanh", b.op("relu", b.op("matmul", x, b.weight((4, 4)))))
    graph = b.graph({"y": x})
    page, problems = show(
        browser, "viewer", {"data": graph.view().data, "step": 0, "selected": "", "answers": False}
    )
    assert page.locator(".wb-box").count() == 42
    page.locator(".wb-opens").nth(3).dblclick()
    assert page.locator(".wb-box").count() == 4
    assert "layer 1 of 40" in page.locator(".wb-caption").inner_text()
    page.get_by_label("back to the whole").click()
    page.locator(".wb-canvas").focus()
    page.keyboard.press("f")
    assert page.locator(".wb-box").count() == 122
    assert problems == []
    page.context.close()


def visible(page):
    return page.locator(".wb-box").evaluate_all("all => all.filter((b) => b.style.display !== 'none').length")


def test_steps_show_what_was_born(grown):
    first = visible(grown)
    grown.get_by_label("step on").click()
    second = visible(grown)
    assert second > first
    assert grown.evaluate("window.model.get('step')") == 1
    assert grown.locator(".wb-sign", has_text="+").count() == second - first
    assert grown.locator(".wb-cluster-label", has_text="∪").count() >= 1
    grown.evaluate("window.model.change('step', 0)")
    assert visible(grown) == first
    grown.locator(".wb-canvas").focus()
    grown.keyboard.press("]")
    assert visible(grown) == second


def test_the_table_sorts_and_leads_to_the_picture(grown):
    heading = grown.get_by_label("sort by e-nodes")
    heading.click()
    cells = grown.locator(".wb-table tbody tr td:nth-child(2)").all_inner_texts()
    assert [int(c) for c in cells] == sorted(int(c) for c in cells)
    grown.get_by_label("sort by e-nodes").click()
    grown.locator(".wb-table tbody tr").first.click()
    assert "e-nodes" in grown.locator(".wb-facts").inner_text()
    grown.wait_for_function("window.model.sent.at(-1)?.ask === 'more'")
    assert "asking" in grown.locator(".wb-busy").inner_text()


def test_answers_are_shown(grown):
    grown.locator(".wb-table tbody tr").first.click()
    key = grown.evaluate("window.model.get('selected')")
    grown.evaluate(
        "key => (window.model.listeners['msg:custom'] || []).forEach((f) => "
        "f({ key, title: 'Alternatives', columns: ['e-node'], rows: [[17]] }))",
        key,
    )
    assert "Alternatives" in grown.locator(".wb-facts").inner_text()
    assert "17" in grown.locator(".wb-facts").inner_text()
    assert grown.locator(".wb-busy").inner_text() == ""


def test_the_page_of_its_own_works_from_disk(browser, result, tmp_path):
    result.compare().view().save_html(tmp_path / "view.html")
    context = browser.new_context(offline=True)
    page, problems = context.new_page(), []
    page.on("console", lambda m: problems.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda e: problems.append(str(e)))
    page.on("requestfailed", lambda r: problems.append(r.url))
    page.goto((tmp_path / "view.html").as_uri())
    page.locator(".wb-box").first.click()
    assert "operator" in page.locator(".wb-facts").inner_text()
    assert problems == []
    context.close()


@pytest.fixture(scope="module")
def wide():
    graph = workbench.benchmark("bert")
    with workbench.Saturation(graph, workbench.rule_set("default")) as saturation:
        saturation.run()
        egraph = saturation.egraph()
    return egraph_data(
        Known.of(egraph, np.ones(len(egraph)), history=saturation.snapshots), part=Part(most=226)
    )


IN_SIGHT = """() => {
    const pane = document.querySelector('.wb-canvas').getBoundingClientRect();
    const inside = (r) => r.right > pane.left && r.left < pane.right
      && r.bottom > pane.top && r.top < pane.bottom;
    const boxes = [...document.querySelectorAll('.wb-box')].filter((b) => b.style.display !== 'none');
    const seen = boxes.map((b) => b.getBoundingClientRect()).filter(inside);
    return [boxes.length, seen.length, Math.max(...seen.map((r) => r.height))];
}"""


@pytest.mark.parametrize("width", [1280, 800])
def test_a_large_e_graph_opens_on_its_root_and_can_be_read(browser, wide, width):
    state = {"data": wide, "step": 0, "selected": "", "answers": False}
    page, problems = show(browser, "viewer", state)
    page.set_viewport_size({"width": width, "height": 800})
    page.get_by_role("button", name="fit into the pane").click()
    drawn, seen, height = page.evaluate(IN_SIGHT)
    assert 0 < seen < drawn  # not all of it, and not nothing
    assert height >= 0.6 * 21  # a box of one line, of text that can be read
    pane = wide["panes"][0]
    (root,) = (c["label"] for c in pane["levels"]["whole"]["clusters"] if c["key"] == pane["home"][0])
    assert page.evaluate(
        """(name) => {
        const labels = [...document.querySelectorAll('.wb-cluster-label')];
        const frame = labels.find((t) => t.textContent.includes(name));
        const [a, b] = [frame, document.querySelector('.wb-canvas')].map((e) => e.getBoundingClientRect());
        return a.right > b.left && a.left < b.right && a.bottom > b.top && a.top < b.bottom;
    }""",
        root,
    )
    assert problems == []
    page.context.close()


def test_the_wheel_zooms_only_after_a_click_into_the_picture(grown):
    canvas = grown.locator(".wb-canvas")
    canvas.hover()
    before = transform(grown)
    grown.mouse.wheel(0, -200)
    grown.wait_for_timeout(100)
    assert transform(grown) == before
    canvas.click(position={"x": 3, "y": 3})
    grown.mouse.wheel(0, -200)
    grown.wait_for_timeout(100)
    assert transform(grown) != before
