"""The documentation: blocks of Python print what the page says, commands exist, every page is reached."""

import ast
import contextlib
import doctest
import importlib.util
import io
import re
import shlex
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.main import get_command

from tests.test_how_to import SAME, blocks
from workbench.faces import cli
from workbench.ops import operators
from workbench.rules import rule_set

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
WITH_BLOCKS = [p for p in PAGES if "```python" in p.read_text() and ">>>" not in p.read_text()]
SHELL = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", WITH_BLOCKS, ids=lambda p: p.stem)
def test_blocks_of_python_print_what_the_page_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for code, expected in blocks(page):
        said = io.StringIO()
        with contextlib.redirect_stdout(said), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            exec(compile(code, str(page), "exec"), names)
        if expected and not doctest.OutputChecker().check_output(expected, said.getvalue(), SAME):
            pytest.fail(f"{code}\nprints\n{said.getvalue()}\nthe page says\n{expected}")


@pytest.mark.parametrize("page", [p for p in PAGES if ">>>" in p.read_text()], ids=lambda p: p.stem)
def test_sessions_of_python_are_so(page):
    assert doctest.testfile(str(page), module_relative=False, optionflags=SAME).failed == 0


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=lambda p: p.stem)
def test_commands_of_the_shell_exist_with_their_options(page):
    commands = get_command(cli.app).commands
    for line in "".join(SHELL.findall(page.read_text())).splitlines():
        program, *words = shlex.split(line, comments=True) or [""]
        if program.startswith("bin/"):
            assert (ROOT / program).is_file(), line
        elif program.endswith("workbench"):
            command = commands[words[0]]
            command = getattr(command, "commands", {}).get("".join(words[1:2]), command)
            known = {o for p in command.params for o in (*p.opts, *p.secondary_opts)}
            options = {w.partition("=")[0] for w in words[1:] if w.startswith("-")}
            assert options <= known, line


@pytest.fixture
def made(monkeypatch):
    """Return the modules that write the generated pages."""
    monkeypatch.syspath_prepend(DOCS)
    names = ("links", "live", "operators", "reference")
    yield SimpleNamespace(**{name: importlib.import_module(name) for name in names})
    for name in names:
        sys.modules.pop(name, None)


@pytest.mark.slow
def test_the_page_of_operators_has_every_operator_with_types_form_and_laws(made):
    page = made.operators.operators_page()
    sections = dict(re.findall(r"^### (\w+)\n(.*?)(?=^##|\Z)", page, re.MULTILINE | re.DOTALL))
    known = {spec.name: spec for spec in operators() if not spec.module}
    assert sections.keys() == known.keys()
    for name, spec in known.items():
        assert ("- example: " in sections[name]) == (spec.infer is not None), name
        assert ("- as ONNX: " in sections[name]) == (spec.infer is not None), name
    assert "example: `matmul(float32[2, 3], float32[3, 4])` is `float32[2, 4]`" in sections["matmul"]
    assert "as ONNX: Sigmoid → Mul" in sections["swish"]
    laws = [rule for rule in rule_set("default") if "`" + rule.name + "`" not in page]
    assert laws == []


def test_everything_public_has_a_page_of_its_own_that_its_topic_lists(made):
    pages = made.reference.interface_pages()
    topics = made.reference.interface()
    assert next(iter(topics["Optimise a model"])) == "workbench.optimize"
    shown = {id(thing): name for things in topics.values() for name, thing in things.items()}
    for door in made.reference.DOORS:
        module = importlib.import_module(door)
        for name in module.__all__:
            page = pages["reference/" + shown[id(getattr(module, name))]]
            assert ".. auto" in page, name
    for topic in pages["interface"].split("{toctree}")[1].split()[1:-1]:
        for name in re.findall(r"^\w+ <(.*)>$", pages[topic], re.MULTILINE):
            assert f"reference/{name}" in pages


def test_the_page_of_options_has_every_command_as_it_is_typed(made):
    page = made.reference.options_page()
    sections = dict(re.findall(r"^## ([\w -]+)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    assert "workbench optimize [OPTIONS] MODEL\n" in sections["optimize"]
    assert not re.search(r"\{\w+\}|\[\[|<path>|<str>", page)
    for name, command in get_command(cli.app).commands.items():
        for words, leaf in made.reference.leaves(name, command):
            for option in (
                o for p in leaf.params for o in p.opts if o.startswith("--") and not command.hidden
            ):
                assert option in sections[words]


def test_the_search_knows_what_people_ask_for():
    (entries,) = re.findall(
        r"^SEARCHED = (\{.*?^\})", (DOCS / "conf.py").read_text(), re.MULTILINE | re.DOTALL
    )
    pages = ast.literal_eval(entries)
    assert "Hugging Face" in pages["docs/how-to/torch-tensorflow"]
    assert "own rule" in pages["docs/how-to/rule"]
    assert "install" in pages["README"]
    assert "batch" in pages["docs/models"]
    assert [p for p in pages if not (ROOT / f"{p}.md").is_file() and "generated" not in p] == []


@pytest.mark.browser
def test_the_box_filters_rules_by_words_verdict_and_set(launch):
    page = launch().new_page()
    rows = "<table><tbody><tr><td>{}<td>{}<td>{}</tr></tbody></table>"
    page.set_content(
        "<article><section><div class=filter></div>"
        "<section><p>Rule sets: ac, all.</p>" + rows.format("swap", "theorem", "add(x, y) => add(y, x)")
        + "</section><section><p>Rule sets: fast, default (without all).</p>"
        + rows.format("pool", "tested", "avgpool") + "</section></section></article>"
        "<script>" + (DOCS / "_static" / "filter.js").read_text() + "</script>"
    )  # fmt: skip
    count = page.locator("output")
    assert count.inner_text() == "2 of 2 rules"
    page.get_by_label("filter rules").fill("x add")
    assert count.inner_text() == "1 of 2 rules"
    page.get_by_label("filter rules").fill("")
    page.get_by_label("verdict").select_option("tested")
    assert page.locator("tr:visible").inner_text().split() == ["pool", "tested", "avgpool"]
    page.get_by_label("verdict").select_option("every verdict")
    page.get_by_label("set").select_option("all")
    assert page.locator("tr:visible").inner_text().startswith("swap")


def test_every_page_and_notebook_is_in_a_table_of_contents():
    index = (DOCS / "index.md").read_text()
    for page in [*(p.stem for p in PAGES if p.stem != "index")]:
        assert re.search(rf"^{page}$", index, re.MULTILINE), page
    for notebook in (ROOT / "notebooks").glob("*.ipynb"):
        assert f"../notebooks/{notebook.stem}\n" in index
    for wing in (ROOT / "workbench").glob("*/README.md"):
        assert f"../workbench/{wing.parent.name}/README\n" in index


def test_the_site_loads_nothing_from_elsewhere():
    """What themes and extensions would fetch is switched off in the settings."""
    settings = (DOCS / "conf.py").read_text()
    assert "nb_ipywidgets_js: dict[str, dict[str, str]] = {}" in settings
    assert "https://" not in settings


@pytest.mark.slow
def test_frames_and_links_to_live_views_name_views_that_are_written(made):
    pages = [*PAGES, *DOCS.glob("how-to/*.md")]
    text = "".join(page.read_text() for page in pages) + made.operators.operators_page()
    assert set(re.findall(r'"(?:\.\./)+views/(\w+)\.html"', text)) == made.live.VIEWS.keys()
    # The page of ideas shows the graph and the rule of its own examples.
    assert made.live.FACTOR in (DOCS / "ideas.md").read_text()
    assert made.live.egraph_view().data["title"]


def test_links_of_a_site_are_checked_files_and_places(made, tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "index.html").write_text('<p id="here">')
    (tmp_path / "a.html").write_text(
        '<a href="b/"></a><a href="b/index.html#here"></a><a href="https://elsewhere"></a><a href="#top"></a>'
        '<img src="none.png"><a href="b/index.html#gone"></a><i id="top">'
    )
    assert list(made.links.broken(tmp_path)) == [
        "a.html: none.png leads to no file", "a.html: b/index.html#gone leads to no place in its file",
    ]  # fmt: skip
    assert "docs/links.py" in (ROOT / "bin/docs").read_text()


def test_continuous_integration_builds_the_site():
    assert re.search(r"^bin/docs\b", (ROOT / ".ci/run").read_text(), re.MULTILINE)
    assert "--fail-on-warning" in (ROOT / "bin/docs").read_text()
