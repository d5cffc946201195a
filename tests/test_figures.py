"""Figures in prose are those of the library, of the stored runs and of the stored outputs.

A figure is a number of things that the project counts, or a ratio. Each one in the pages below needs a fact that says
where it comes from; a figure in a notebook may also be in the notebook's stored outputs.
"""

import csv
import json
import re
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from workbench.rules import rule_set
from workbench.rules.verdicts import statuses
from workbench.studies.experiments.extraction import SAME
from workbench.studies.experiments.records import geometric_mean
from workbench.studies.experiments.results import latency

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"
#: Pages whose figures are checked. In docs/targets.md every row names the test of its figures.
PAGES = [
    ROOT / "README.md",
    *sorted(
        p for p in (ROOT / "docs").rglob("*.md") if p.name != "targets.md" and "generated" not in p.parts
    ),
    *sorted((ROOT / "workbench").glob("*/README.md")),
    ROOT / "rules" / "README.md",
    ROOT / "notebooks" / "README.md",
]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
#: Countable things.
THINGS = (
    "rules|theorems|theorem|tested|laws|operators|e-nodes|e-classes|networks|models|architectures|e-graphs|"
    "families|studies|runs|notebooks|primitives|functions|expressions|tiles"
)
KINDS = "default|published|stored|common|sound|wrong|real|dense|are"
FIGURE = re.compile(
    rf"(?<![\w.,-])\d[\d ]*\s(?:(?:{KINDS})\s)?(?:{THINGS})\b|"
    r"(?<![\w.])\d+\.\d+\s?(?:×|times\b)|\b\d+ of (?:the )?\d+\b"
)


#: E-graphs of the study that are from SmoothE, not from the extraction gym.
SMOOTHE = ("esyn", "mapped", "nonmapped")


def table(study):
    """Return the rows of a stored study."""
    with (RESULTS / study / "table.csv").open() as file:
        return list(csv.DictReader(file))


def verdicts():
    """Return the number of default rules, and of those that are theorems and tested."""
    found = Counter(rule_set("default").frame()["status"])
    assert found.keys() == {"theorem", "tested"}
    return found.total(), found["theorem"], found["tested"]


def library():
    """Return the number of recorded rules; how many are theorems is checked where the page is written."""
    return (len(statuses()),)


def speeds(network, digits):
    """Return how many times as fast a network of the zoo is made by the workbench, and by hand."""
    text = (RESULTS / "zoo" / "table.md").read_text()
    row = re.search(rf"^\| {network} \| .*", text, re.MULTILINE)[0]
    _, ours, _, by_hand = re.findall(r"([\d.]+)×", row)  # between them the original again, and onnxslim
    return f"{float(ours):.{digits}f}", f"{float(by_hand):.{digits}f}"


def deployed():
    """Return the numbers of models deployed, made faster, and written as they were."""
    text = (RESULTS / "deployment" / "table.md").read_text()
    return re.search(
        r"^(\d+) models: (\d+) faster than the original [^,]*, (\d+) kept unchanged", text, re.M
    ).groups()


def synthesised():
    """Return the number of TASO's rules that the laws found imply, of those refuted, and of the laws."""
    text = (RESULTS / "synthesis" / "table.md").read_text()
    laws = re.search(r"^\| taso \| 3-operators \|(?: \d+ \|){4} (\d+) \|", text, re.M)[1]
    derived, others, refuted = re.search(r"\| taso/graph_subst \| (\d+) \| (\d+) \| (\d+) \|", text).groups()
    assert (laws, others) == ("30", "0")
    return derived, refuted


def gym_rows(study):
    """Return the rows of a study on the extraction gym's own e-graphs by method."""
    found = {}
    for row in table(study):
        if row["source"] != "published" and row["instance"].partition("/")[0] not in SMOOTHE:
            found.setdefault(row["method"], []).append(row)
    assert len({len(rows) for rows in found.values()}) == 1
    return found


def gym(study="gym"):
    """Return the number of e-graphs of the gym with a proven optimum, their number, and the seconds."""
    exact = gym_rows(study)["exact"]
    proved = sum(row["status"] == "optimal" and row["scope"] == "e-graph" for row in exact)
    (limit,) = {row["limit"] for row in exact}
    return proved, len({row["instance"] for row in exact}), f"{float(limit):.0f}"


def best_in_gym(study):
    """Return the number of e-graphs, and on how many the gym's two best methods have the least cost, as ours has."""
    costs = {
        method: {row["instance"]: float(row["cost"] or "inf") for row in rows}
        for method, rows in gym_rows(study).items()
    }
    least = {name: min(found[name] for found in costs.values()) for name in costs["exact"]}
    ours, program, greedy = (
        sum(cost - least[name] <= SAME * abs(least[name]) for name, cost in costs[method].items())
        for method in ("exact", "gym-faster-ilp-cbc-timeout", "gym-faster-greedy-dag")
    )
    assert ours == len(least)
    return ours, program, greedy


def whole_gym():
    """Return the number of all e-graphs of the gym, the proven ones, and those on which its methods are as good."""
    e_graphs, program, greedy = best_in_gym("gym-all")
    proved, number, seconds = gym("gym-all")
    assert (number, seconds) == (e_graphs, gym()[2])
    return e_graphs, proved, program, greedy


def headline():
    """Return how much cheaper the results on the nine networks are, by saturation, TASO's search, and fusions."""
    found = []
    for method in ("workbench", "taso-sound-1.05", "runtime-fusions"):
        rows = [row for row in table("headline") if row["method"] == method]
        assert len({row["network"] for row in rows}) == len(rows) == 9
        found.append(f"{geometric_mean([float(r['original']) / float(r['optimized']) for r in rows]):.2f}")
    return tuple(found)


def trained():
    """Return how many times as fast a step of SegFormer is beside torch's own compiler."""
    (row,) = (r for r in table("training") if (r["network"], r["then"]) == ("segformer", "inductor"))
    return (f"{float(row['speedup']):.2f}",)


def with_kernels(study):
    """Return how many times as fast two networks are with kernels in C, on one thread."""
    found = {r["network"]: r["speedup"] for r in table(study) if r["threads"] == "1"}
    return tuple(f"{float(found[name]):.2f}" for name in ("resnet18", "mobilenet_v2"))


def winograd():
    """Return how much more memory transformed weights take, by F(2, 3) along both axes."""
    return (f"{(4 * 4) / (3 * 3):.1f}",)


#: For each page the sentences with figures, and where these come from. None: somebody else's figure, quoted,
#: or a setting that is described.
FACTS = {
    "README.md": {
        r"of (\d+) common architectures (\d+) gained, and (\d+) were": deployed,
        r"SegFormer-B2 at 512×512 \| ([\d.]+) times as fast \(by hand: ([\d.]+)\)": lambda: speeds(
            "segformer_b2_512", 1
        ),
        r"ResNet-18 is then ([\d.]+) times as fast, MobileNetV2 ([\d.]+) times": partial(
            with_kernels, "fast-algorithms"
        ),
        r"without AVX-512 they are ([\d.]+) and ([\d.]+) times as fast": partial(
            with_kernels, "fast-algorithms-avx2"
        ),
        r"MobileOne-S0 in its training form \| ([\d.]+) times as fast \(by hand: the same\)": lambda: tuple(
            set(speeds("mobileone_s0", 1))
        ),
        r"TinyBERT-L2 as .* \| ([\d.]+) times as fast \(by hand: ([\d.]+)\)": lambda: speeds(
            "ms_marco_tinybert_l2", 2
        ),
        r"Of the (\d+) default rules (\d+) are theorems. The other (\d+) are\s+tested": verdicts,
        r"a step of SegFormer-B0 at 512×512 is ([\d.]+) times as fast": trained,
        r"finds thirty; from these all (\d+) sound rules of TASO's file follow, and none of its (\d+) wrong": (
            synthesised
        ),
        r"(\d+) of (\d+) e-graphs of the\s+extraction gym within (\d+) s each": gym,
        r"On none of the (\d+) has a method of the gym's own program a lower cost; its\s+integer program\s+is as "
        r"good on (\d+), and its best greedy method on (\d+)": lambda: best_in_gym("gym"),
        r"Of \[all its (\d+) e-graphs that hold a\s+term\][^,]*, but for 17 large files, (\d+) are proven, and the "
        r"gym is better on none: the same two\s+methods are as good on (\d+) and (\d+)": whole_gym,
        r"On the nine published networks the results are ([\d.]+)× cheaper than the originals by analytic costs"
        r"\s+of a T4, those of our TASO ([\d.]+)×, and those of the fusions that every runtime makes itself"
        r"\s+([\d.]+)×": headline,
    },
    "rules/README.md": {r"(\d+) rules: \d+ theorem, \d+ tested": library},
    "docs/models.md": {r"says 1\.3× on a V100": None},
    "docs/views.md": {r"at most 200 e-nodes at first": None},
    "docs/how-to/c-target.md": {
        r"([\d.]+) times with F\(2, 3\)": winograd,
        r"1\.5 times the work of the best one": None,
    },
    "docs/how-to/composites.md": {r"27 primitives: 24 functions": None},
    "docs/how-to/extract-anything.md": {r"4 of the 47 expressions": None},
    "08-movement": {r"1\.05 times as much": None},
    "12-systolic-array": {r"made 262 000 e-classes in a minute": None},
}  # fmt: skip


#: The studies whose stored runs are of one commit.
OF_ONE_COMMIT = (
    "headline",
    "zoo",
    "deployment",
    "branches",
    "movement",
    "gym",
    "scaling",
    "composites",
    "training",
)


@pytest.mark.parametrize("studies", [OF_ONE_COMMIT, ("fast-algorithms",), ("latency",)], ids=lambda s: s[0])
def test_stored_runs_are_of_one_commit_without_changes(studies):
    commits = Counter()
    for study in studies:
        for file in (RESULTS / study / "runs").glob("*/run.json"):
            run = json.loads(file.read_text())
            if not run["name"].rpartition(":")[2].startswith("gym-"):  # methods of another program
                commits[run["provenance"]["commit"]] += 1
    assert len(commits) == 1, commits
    assert not next(iter(commits)).endswith("+")


def test_the_published_networks_have_their_measured_times_in_the_page_of_targets():
    frame = latency(RESULTS / "latency")
    frame = frame[frame["form"] == "workbench"].set_index(["network", "target"])["speedup"]
    rows = re.findall(
        r"^\| (\w+) \|.*\| ([\d.]+)× \| ([\d.]+)× \|$", (ROOT / "docs/targets.md").read_text(), re.M
    )
    found = [(name, f"{frame[name, 'torch']:.2f}", f"{frame[name, 'onnxruntime']:.2f}") for name, *_ in rows]
    assert found == rows
    assert len(rows) == 9


def prose(text):
    """Return a text without its code."""
    return re.sub(r"^```.*?^```|`[^`\n]*`", "", text, flags=re.MULTILINE | re.DOTALL)


def name_of(page):
    return page.stem if page.suffix == ".ipynb" else str(page.relative_to(ROOT))


@pytest.mark.parametrize(("page", "sentence"), [(p, s) for p, facts in FACTS.items() for s in facts])
def test_a_figure_is_that_of_its_source(page, sentence):
    notebooks = [n for n in NOTEBOOKS if n.stem == page]
    text = told(notebooks[0]) if notebooks else (ROOT / page).read_text()
    (found,) = re.finditer(sentence, prose(text))
    source = FACTS[page][sentence]
    if source is not None:
        assert found.groups() == tuple(map(str, source()))


def told(notebook):
    """Return the prose of a notebook."""
    cells = json.loads(notebook.read_text())["cells"]
    return "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")


def shown(notebook):
    """Return the stored outputs of a notebook as text, without pictures."""
    cells = json.loads(notebook.read_text())["cells"]
    parts = [
        o.get("text", "") or o.get("data", {}).get("text/plain", "")
        for c in cells
        for o in c.get("outputs", ())
    ]
    parts += [o.get("data", {}).get("text/html", "") for c in cells for o in c.get("outputs", ())]
    return re.sub(r'base64,[^"]*', "", "\n".join("".join(part) for part in parts))


@pytest.mark.parametrize("page", [*PAGES, *NOTEBOOKS], ids=name_of)
def test_a_figure_has_a_source(page):
    text = prose(told(page) if page.suffix == ".ipynb" else page.read_text())
    known = [m.span() for s in FACTS.get(name_of(page), ()) for m in re.finditer(s, text)]
    outputs = shown(page) if page.suffix == ".ipynb" else ""
    for figure in FIGURE.finditer(text):
        (number, *_) = re.findall(r"[\d.]+", figure[0])
        if re.search(rf"(?<![\d.]){re.escape(number)}(?![\d.])", outputs):
            continue
        assert any(a <= figure.start() < b for a, b in known), (
            f"a figure must have a source in FACTS, got {figure[0]!r} (or leave it out)"
        )


@pytest.mark.parametrize("page", [*PAGES, *NOTEBOOKS, *sorted(RESULTS.glob("*/table.md"))], ids=name_of)
def test_verdicts_are_counted_in_one_vocabulary(page):
    """Rules are theorems, tested, unknown, refuted, vacuous or rejected; other words count nothing."""
    text = told(page) + shown(page) if page.suffix == ".ipynb" else page.read_text()
    assert re.findall(r"\b\d+ (?:proved|proven|unproved|verified|trusted|sound and)\b", text) == []
    assert re.findall(r"(?:\| |>|: )(?:proved|verified|trusted)(?= \||<|:)", text) == []
