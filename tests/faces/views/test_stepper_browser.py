"""The stepper's module in a real browser without a network."""

import pytest

from tests.browser import needs_browser, show
from workbench.faces.views import stepper_data
from workbench.run.trace import RuleStep, Step, StepKind, Trace

pytestmark = [pytest.mark.browser, needs_browser]


def state(live=False):
    steps = [
        Step(k, StepKind.ITERATION, 0.01 * (k + 1), 10 * 3**k, 6 * 2**k, cost=100.0 - 9 * k,
             rules=(RuleStep("matmul-merges", 5 * k, 0.002, 4 * k), RuleStep("<b>relu</b>", 2, 0.001, k % 2)))
        for k in range(6)
    ]  # fmt: skip
    data = stepper_data(Trace({"kind": "saturation", "graph": "bert", "e_node_limit": 5000}, steps))
    return {"data": data, "step": 0, "running": False, "live": live}


@pytest.fixture
def shown(browser):
    page, problems = show(browser, "stepper", state())
    yield page
    assert problems == []
    page.context.close()


def step(page):
    return page.evaluate("window.model.get('step')")


def test_everything_is_drawn(shown):
    assert shown.locator(".wb-heading").inner_text() == "Saturation of bert"
    assert shown.locator("svg.wb-chart").count() == 3
    assert "iteration 0 of 5 · 10 e-nodes" in shown.locator(".wb-label").inner_text()
    assert shown.locator(".wb-cell").count() == 5 + 3
    # Names are text, not markup.
    assert shown.locator(".wb-table b").count() == 0


def test_keys_move_one_step(shown):
    shown.locator(".wb-stepper").focus()
    for key, expected in (
        ("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("End", 5), ("ArrowRight", 5), ("Home", 0),
    ):  # fmt: skip
        shown.keyboard.press(key)
        assert step(shown) == expected
    assert shown.evaluate("window.model.saved") == 6


def test_the_slider_and_the_buttons_move_it(shown):
    shown.locator("input[type=range]").fill("3")
    assert step(shown) == 3
    shown.get_by_label("step back").click()
    assert step(shown) == 2
    shown.get_by_label("last step").click()
    assert step(shown) == 5
    assert "cost 55" in shown.locator(".wb-label").inner_text()


def test_a_click_on_a_plot_moves_the_step_and_all_cursors(shown):
    chart = shown.locator("svg.wb-chart").nth(0)
    box = chart.bounding_box()
    before = shown.locator(".wb-cursor").evaluate_all("all => all.map((c) => c.getAttribute('x'))")
    left, right = 56 / 460 * box["width"], (460 - 14) / 460 * box["width"]
    chart.click(position={"x": left + 0.6 * (right - left), "y": 100})
    assert step(shown) == 3
    after = shown.locator(".wb-cursor").evaluate_all("all => all.map((c) => c.getAttribute('x'))")
    assert all(a != b for a, b in zip(before, after, strict=True))
    heat = shown.locator("svg.wb-chart").nth(2)
    wide = heat.bounding_box()["width"]
    heat.click(position={"x": 0.96 * wide, "y": 35})
    assert step(shown) == 5


def test_play_goes_to_the_end_and_stops(shown):
    shown.locator("input[type=range]").fill("3")
    shown.get_by_label("play", exact=True).click()
    shown.wait_for_function("window.model.get('step') === 5")
    shown.get_by_label("play", exact=True).wait_for()


def test_it_follows_the_model(shown):
    shown.evaluate("window.model.change('step', 4)")
    assert "iteration 4 of 5" in shown.locator(".wb-label").inner_text()
    shown.evaluate("window.model.change('data', {...window.model.get('data'), title: 'more', steps: []})")
    assert shown.locator(".wb-label").inner_text() == "no step yet"


@pytest.mark.parametrize("width", [1280, 800])
def test_a_question_is_sent_and_the_same_answer_is_shown_again(browser, width):
    page, problems = show(browser, "stepper", {**state(), "answers": True, "answer": ""})
    page.set_viewport_size({"width": width, "height": 800})
    field, answer = page.get_by_label("why not"), page.locator(".wb-answer")
    # The whole hint is readable, and the field is not wider than the page.
    hint = field.evaluate(
        "e => { const c = document.createElement('canvas').getContext('2d');"
        " c.font = getComputedStyle(e).font; return c.measureText(e.placeholder).width; }"
    )
    assert hint < field.bounding_box()["width"] <= width
    for _ in range(2):
        field.fill("relu(x) == y")
        field.press("Enter")
        assert page.evaluate("window.model.sent.at(-1)") == {"command": "ask", "question": "relu(x) == y"}
        assert answer.inner_text() == "asking …"
        for said in ("", "<p>represented</p>"):
            page.evaluate("said => window.model.change('answer', said)", said)
        assert answer.inner_text().strip() == "represented"
    assert problems == []
    page.context.close()


def test_without_answers_there_is_no_question(shown):
    assert not shown.get_by_label("why not").is_visible()
