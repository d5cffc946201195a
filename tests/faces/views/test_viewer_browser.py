"""The viewer's module in a real browser without a network."""

import json
import time

import numpy as np
import pytest

import workbench
from tests.browser import needs_browser, show
from workbench.faces.views.compare import comparison_data
from workbench.faces.views.egraphs import Known, Part, egraph_data

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
        data = egraph_data(Known(egraph, np.ones(len(egraph)), history=saturation.snapshots))
    page, problems = show(browser, "viewer", {"data": data, "step": 0, "selected": "", "answers": True})
    yield page
    assert problems == []
    page.context.close()


def transform(page, pane=0):
    return page.locator(".wb-canvas > g").nth(pane).get_attribute("transform")


def test_both_graphs_are_drawn(compared):
    assert compared.locator(".wb-pane").count() == 2
    assert compared.locator(".wb-box").count() > 20
    assert compared.locator(".wb-legend").inner_text().count("value") == 3
    assert "rewritten" in compared.locator(".wb-caption").first.inner_text()


def test_a_click_names_it_and_its_counterparts(compared):
    box = compared.locator(".wb-pane").nth(1).locator(".wb-box:not(.wb-opens)", has_text="matmul").first
    box.click()
    facts = compared.locator(".wb-facts").inner_text()
    assert "operator" in facts
    assert "e-class" in facts
    assert "analytic" in facts
    assert compared.locator(".wb-chosen").count() == 1


def test_rules_are_reported_where_they_made_it(compared):
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
    return egraph_data(Known(egraph, np.ones(len(egraph)), history=saturation.snapshots), part=Part(most=226))


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


class Live:
    """A page with a view of an e-graph, and the kernel's half of the view, which answers its questions."""

    def __init__(self, browser, view, **options):
        self.view, self.said = view, []
        view.send = self.said.append
        state = {n: getattr(view, n) for n in ("data", "step", "selected", "answers", "draws")}
        self.page, self.problems = show(browser, "viewer", state, **options)

    def answer(self):
        """Answer the last question of the page."""
        self.page.wait_for_function("window.model.sent.length > 0")
        before = self.view.data
        self.view._told(self.view, self.page.evaluate("window.model.sent.pop()"), [])
        if self.view.data is not before:
            self.page.evaluate("data => window.model.change('data', data)", self.view.data)
        for message in self.said:
            self.page.evaluate("m => window.model.listeners['msg:custom'].forEach((f) => f(m))", message)
        self.said.clear()

    def boxes(self):
        return self.page.locator(".wb-box").count()


@pytest.fixture
def live(browser):
    pytest.importorskip("anywidget", reason="anywidget is not installed")
    b = workbench.GraphBuilder("sums")
    xs = [b.input(f"x{k}", (4,)) for k in range(6)]
    while len(xs) > 1:
        xs = [b.op("add", xs[0], xs[1]), *xs[2:]]
    with workbench.Saturation(b.graph({"y": xs[0]}), tuple(workbench.rule_set("ac"))) as saturation:
        saturation.run()
        view = saturation.egraph().view(most=20)
    found = Live(browser, view)
    yield found
    assert found.problems == []
    found.page.context.close()


CENTRE = """key => {
    const frame = [...document.querySelectorAll('.wb-cluster-label')]
      .find((t) => t.textContent.split(' ').includes(key)).getBoundingClientRect();
    return [frame.left, frame.top];
}"""


def test_more_is_drawn_in_place_where_it_is_asked_for(live):
    before = live.boxes()
    stub = live.page.locator(".wb-box", has_text="e-nodes").first
    key = live.page.evaluate(
        "() => [...document.querySelectorAll('.wb-box')].map((b) => b.dataset.key)"
        ".find((key) => key.startsWith('more')).slice(4)"
    )
    place = live.page.evaluate(CENTRE, key)
    stub.dispatch_event("click")
    assert live.page.locator(".wb-busy").inner_text() == "drawing …"
    live.answer()
    assert live.page.locator(".wb-busy").inner_text() == ""
    assert live.boxes() > before
    assert live.page.evaluate(CENTRE, key) == pytest.approx(place, abs=1.5)
    live.page.get_by_label("back to the picture from the roots").click()
    live.answer()
    assert live.boxes() == before


def test_hops_around_an_e_class_are_drawn(live):
    live.page.locator(".wb-box:not(.wb-opens)").first.dispatch_event("click")
    live.page.get_by_label("show what is at most 1 hop away").click()
    live.answer()
    assert "at most 1 hop from e-class" in live.page.locator(".wb-caption").inner_text()


def test_a_failure_of_the_kernel_is_said(live):
    live.page.evaluate("window.model.sent.push({ ask: 'open', key: 'e-class 99999' })")
    live.answer()
    assert "failed: IndexError" in live.page.locator(".wb-busy").inner_text()


def test_without_a_kernel_it_says_what_is_needed(browser, live):
    state = {"data": live.view.data, "step": 0, "selected": "", "answers": False, "draws": False}
    page, problems = show(browser, "viewer", state)
    page.locator(".wb-box", has_text="e-nodes").first.dispatch_event("click")
    assert "kernel" in page.locator(".wb-facts").inner_text()
    assert page.get_by_label("back to the picture from the roots").count() == 0
    assert problems == []
    page.context.close()


def test_a_tip_describes_a_box(compared):
    box = compared.locator(".wb-box:not(.wb-opens)", has_text="matmul").first
    box.hover()
    tip = compared.locator(".wb-tip").first
    assert tip.is_visible()
    assert "cost: " in tip.inner_text()
    assert "µs" in tip.inner_text()
    inside, sheet = tip.bounding_box(), compared.locator(".wb-sheet").first.bounding_box()
    assert inside["x"] >= sheet["x"]
    assert inside["x"] + inside["width"] <= sheet["x"] + sheet["width"] + 1


def test_the_map_shows_the_part_and_a_click_moves_there(browser, wide):
    state = {"data": wide, "step": len(wide["steps"]) - 1, "selected": "", "answers": False}
    page, problems = show(browser, "viewer", state)
    page.wait_for_timeout(50)
    chart = page.locator(".wb-map")
    assert chart.is_visible()
    before, box = transform(page), chart.bounding_box()
    page.mouse.click(box["x"] + 8, box["y"] + box["height"] - 4)
    assert transform(page) != before
    frame = page.locator(".wb-map-frame").bounding_box()
    assert frame["width"] < box["width"] or frame["height"] < box["height"]
    assert problems == []
    page.context.close()


def test_pictures_are_saved_as_files(compared, tmp_path):
    with compared.expect_download() as waiting:
        compared.get_by_label("save the picture as SVG").click()
    path = tmp_path / "picture.svg"
    waiting.value.save_as(path)
    text = path.read_text(encoding="utf-8")
    assert text.startswith("<svg")
    assert "matmul" in text
    assert "var(" not in text
    with compared.expect_download() as waiting:
        compared.get_by_label("save the picture as PNG").click()
    waiting.value.save_as(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
    assert waiting.value.suggested_filename == "original.png"


def fills(page):
    return page.locator(".wb-box > rect").evaluate_all("all => all.map((r) => getComputedStyle(r).fill)")


def test_boxes_are_coloured_by_cost_on_demand(compared):
    before = fills(compared)
    compared.get_by_label("colour boxes by cost, or by operator").click()
    assert len(set(fills(compared))) >= 3
    assert fills(compared) != before
    assert "µs" in compared.locator(".wb-scale").inner_text()
    compared.get_by_label("colour boxes by cost, or by operator").click()
    assert fills(compared) == before


LUMINANCE = """([name, property]) => {
    const [r, g, b] = getComputedStyle(document.querySelector(name))[property].match(/[\\d.]+/g).map(Number);
    return (r + g + b) / 765;
}"""


def test_drawings_follow_the_theme_of_the_page(browser, result):
    state = {"data": comparison_data(result.compare()), "step": 0, "selected": "", "answers": False}
    for dark in (False, True):
        page, problems = show(browser, "viewer", state, dark=dark)
        paper = page.evaluate(LUMINANCE, [".wb-canvas", "backgroundColor"])
        ink = page.evaluate(LUMINANCE, [".wb-box text", "fill"])
        assert (ink - paper > 0.6) if dark else (paper - ink > 0.6)
        assert problems == []
        page.context.close()


def test_drawings_follow_the_theme_of_jupyterlab_when_it_changes(compared):
    light = compared.evaluate(LUMINANCE, [".wb-canvas", "backgroundColor"])
    compared.evaluate(
        "() => { document.body.style.setProperty('--jp-ui-font-color1', 'rgb(255, 255, 255)');"
        " document.body.dataset.jpThemeLight = 'false'; }"
    )
    compared.wait_for_function("document.querySelector('.wb-viewer').dataset.theme === 'dark'")
    assert compared.evaluate(LUMINANCE, [".wb-canvas", "backgroundColor"]) < 0.2 < light


@pytest.mark.parametrize("width", [1280, 800])
def test_labels_lie_within_their_boxes(browser, wide, result, width):
    for data in (wide, comparison_data(result.compare())):
        state = {"data": data, "step": 0, "selected": "", "answers": False}
        page, problems = show(browser, "viewer", state)
        page.set_viewport_size({"width": width, "height": 800})
        outside = page.locator(".wb-box").evaluate_all(
            """all => all.filter((g) => g.style.display !== 'none').flatMap((g) => {
                const frame = g.querySelector('rect').getBoundingClientRect();
                return [...g.querySelectorAll('text')].filter((t) => {
                  const box = t.getBoundingClientRect();
                  return t.textContent && (box.left < frame.left - 1 || box.right > frame.right + 1);
                }).map((t) => t.textContent);
            })"""
        )
        assert outside == []
        overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert page.evaluate(overflow) <= 0
        assert problems == []
        page.context.close()


@pytest.mark.slow
def test_an_e_graph_of_tens_of_thousands_of_e_nodes_is_drawn_in_part(browser):
    """Print the times of the first view, of a step and of a part opened in place."""
    pytest.importorskip("anywidget", reason="anywidget is not installed")
    b = workbench.GraphBuilder("sums")
    xs = [b.input(f"x{k}", (4,)) for k in range(12)]
    while len(xs) > 1:
        xs = [b.op("add", xs[0], xs[1]), *xs[2:]]
    limits = workbench.Limits(e_nodes=90_000, iterations=5)
    with workbench.Saturation(b.graph({"y": xs[0]}), tuple(workbench.rule_set("ac")), limits) as saturation:
        saturation.run()
        egraph, history = saturation.egraph(), saturation.snapshots
    assert len(egraph) > 20_000
    began = time.perf_counter()
    view = egraph.view(costs=np.ones(len(egraph)), history=history)
    made = time.perf_counter()
    live = Live(browser, view)
    live.page.wait_for_selector(".wb-box")
    shown = time.perf_counter()
    step = live.page.evaluate(
        """() => {
        const began = performance.now();
        document.querySelector('[aria-label="step back"]').click();
        document.querySelector('.wb-canvas').getBoundingClientRect();
        return performance.now() - began;
    }"""
    )
    print(f"{len(egraph)} e-nodes: view {made - began:.2f} s, page {shown - made:.2f} s, step {step:.0f} ms")
    assert live.boxes() <= 260
    assert live.page.locator(".wb-canvas *").count() < 3000
    assert len(json.dumps(view.data)) < 400_000
    assert live.problems == []
    live.page.context.close()
