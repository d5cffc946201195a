"""What the README says is so: commands, example, links, options."""

import os
import re
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from typer.main import get_command

from workbench.faces import cli
from workbench.studies.devices.measure import command_line

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
LINKED = [*PAGES, *sorted((ROOT / "docs" / "how-to").glob("*.md")), *ROOT.glob("*/README.md")]
COMMAND_LINE = (ROOT / "docs" / "command-line.md").read_text()


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def test_the_first_commands_are_scripts_that_can_run():
    commands = blocks("sh")[0]
    names = [line.split()[0] for line in commands.splitlines()]
    assert names == ["bin/demo", "bin/lab", "bin/test", "bin/test"]
    for name in names:
        assert os.access(ROOT / name, os.X_OK)


@pytest.mark.slow
def test_the_examples_are_short_and_run_as_shown(tmp_path):
    examples = blocks("python")
    assert max(len(example.splitlines()) for example in examples) <= 15
    # The comments' claims about the numbers.
    checks = "assert pulp.value(program.objective) < result.cost_after + 1e-3\n"
    checks += "assert bert.cost() > searched.cost() > saturated.cost()"
    done = subprocess.run(
        [sys.executable, "-c", "\n".join([*examples, checks])],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "certificate: equal" in done.stdout
    assert [p.name for p in tmp_path.iterdir()] == ["block.onnx"]
    # The text below the example states this of the result.
    operators = [n.op_type for n in onnx.load(tmp_path / "block.onnx").graph.node]
    assert operators == ["Conv", "Relu"]


@pytest.mark.parametrize("page", LINKED, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_links_lead_to_files(page):
    text = re.sub(r"^```.*?^```|`[^`\n]*`", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)]+)\)", text):
        if target.startswith("generated/"):
            continue  # made when the site is built
        assert "://" in target or (page.parent / target.partition("#")[0]).exists(), target


def test_pictures_are_small_files():
    assert len(re.findall(r"\]\((?!http)[^)]+\)", README)) > 10
    for picture in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", README):
        kind = b"<svg" if picture.endswith(".svg") else b"\x89PNG"
        assert (ROOT / picture).read_bytes().startswith(kind)
        assert (ROOT / picture).stat().st_size < 200_000


#: Options of other programs that pages name: tf2onnx, the scripts in bin/, git, pip, nbconvert.
ELSEWHERE = {
    "--rm",
    "--saved-model",
    "--output",
    "--all",
    "--nightly",
    "--new",
    "--depth",
    "--quiet",
    "--execute",
    "--to",
}


def test_every_command_is_described_and_every_option_named_exists():
    program = get_command(cli.app)
    commands = program.commands
    table = re.findall(r"^\| `workbench ([\w-]+)", COMMAND_LINE, re.MULTILINE)
    assert set(table) == {name for name, command in commands.items() if not command.hidden}
    every = [
        program,
        *commands.values(),
        *(s for c in commands.values() for s in getattr(c, "commands", {}).values()),
    ]
    known = {o for c in every for p in c.params for o in (*p.opts, *p.secondary_opts)}
    known |= set(re.findall(r"--[a-z-]+", command_line().format_help()))
    for page in PAGES:
        shown = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", page.read_text()))
        assert shown <= known | ELSEWHERE, page.name


@pytest.mark.parametrize("code", ["0", "1", "2", "3", "130"])
def test_exit_codes_are_those_of_the_command_line(code):
    listed = COMMAND_LINE[COMMAND_LINE.index("Exit codes:") :].partition("\n\n")[0]
    assert re.search(rf"\b{code}\b", listed)
    assert re.search(rf"\b{code}\b", cli.__doc__)
