"""The data of the browser of runs, its static face, and its page."""

import base64
import json
import re
import zlib

import pytest

from tests.studies.experiments.test_results import record, store
from tests.studies.experiments.test_stored_runs import trace
from workbench.faces.views.runs import first_choice, runs_data, runs_html, runs_page
from workbench.results import browse
from workbench.studies.experiments.store import save_record


@pytest.fixture
def stored(tmp_path):
    rows = [
        {"target": "cpu", "form": "ours", "speedup": 1.5},
        {"target": "cpu", "form": "rival", "speedup": 1.1},
    ]
    made = [record("bert", "ours"), record("vgg19", "<b>ours</b>", optimized=160.0)]
    made[1]["row"]["bound"] = 150.0
    made[0]["provenance"]["began"] = "2026-01-02"
    store(tmp_path / "one", *made)
    store(tmp_path / "two", record("nasneta", "ours") | {"latency": {"rows": rows}})
    save_record(tmp_path / "two" / "runs" / "stepped", record("nasrnn", "ours"), trace())
    save_record(tmp_path / "two" / "runs" / "lost", record("lost", "ours") | {"failed": True})
    return browse(tmp_path)


def run(data, label):
    return next(r for r in data["runs"] if r["label"] == label)


def figures(data, label):
    keys = [m["key"] for m in data["measures"]]
    return dict(zip(keys, run(data, label)["values"], strict=True))


def test_figures_are_those_of_the_records_and_unused_ones_are_left_out(stored):
    data = runs_data(stored)
    assert figures(data, "vgg19:<b>ours</b>")["speedup"] == pytest.approx(25.0)
    assert figures(data, "vgg19:<b>ours</b>")["gap"] == pytest.approx(6.25)
    assert "classes" not in figures(data, "bert:ours")
    assert figures(data, "nasneta:ours")["measured"] == 1.5
    assert set(figures(data, "lost:ours").values()) == {None}
    assert json.loads(json.dumps(data, allow_nan=False)) == data


def test_a_card_names_the_facts_that_are_known(stored):
    facts = dict(run(runs_data(stored), "nasrnn:ours")["facts"])
    assert facts["cost"] == "200 → 100"
    assert facts["certificate"] == "passed"
    assert facts["commit"] == "0123456789ab"
    assert facts["record"] == "two/runs/stepped"
    assert "" not in facts.values()
    timed = run(runs_data(stored), "nasneta:ours")
    assert dict(timed["facts"])["measured"] == "ours on cpu: 1.500×; rival on cpu: 1.100×"


def test_a_trace_is_packed_and_a_broken_one_is_skipped(stored):
    packed = run(runs_data(stored), "nasrnn:ours")["trace"]
    assert len(json.loads(zlib.decompress(base64.b64decode(packed)))["steps"]) == 4
    file = stored["nasrnn:ours"].trace_file
    file.write_bytes(b"not Parquet")
    data = runs_data(stored)
    assert run(data, "nasrnn:ours")["trace"] == ""
    (line,) = data["skipped"]
    assert line.startswith("the trace of two/nasrnn:ours: ")
    assert "\n" not in line


def test_it_opens_on_the_study_that_was_run_last(stored):
    data = runs_data(stored)
    assert first_choice(data)["chosen"] == ["one / ours", "one / <b>ours</b>"]
    assert first_choice(data)["across"] == "speedup"
    assert first_choice(data, "two")["across"] == "measured"


def test_nothing_stored_is_a_page_too(tmp_path):
    empty = browse(tmp_path)
    assert runs_data(empty)["runs"] == []
    assert "0 runs" in runs_html(empty)
    assert "<noscript>" in runs_page(empty)


def test_the_face_lists_studies_and_runs_without_a_script(stored):
    face = stored._repr_mimebundle_()["text/html"]
    assert "<script" not in face
    assert "https://" not in face
    assert "&lt;b&gt;ours&lt;/b&gt;" in face
    assert face.count("<details") == 2


def test_the_page_is_one_file_that_loads_nothing(stored, tmp_path):
    stored.save_html(tmp_path / "runs.html")
    page = (tmp_path / "runs.html").read_text()
    assert page == stored.page()
    assert not re.search(r"""(src|href)=["']?https?:""", page)
    assert "import " not in re.sub(r"//.*", "", page.partition("<script")[2].partition("const state")[0])
    assert "<b>ours" not in page
    assert "</script" not in page.partition('<script type="module">')[2].rpartition("</script>")[0]
