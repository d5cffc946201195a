import contextlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.devices.conftest import cpu as cpu
from tests.devices.conftest import pretended as pretended
from tests.devices.graphs import products
from tests.faces.cli.conftest import run as run
from workbench.frontends import save_onnx
from workbench.graph import GraphBuilder
from workbench.studies.experiments.config import SaturationMethod, SearchMethod, StudyError, read_object
from workbench.studies.experiments.plan import sweep
from workbench.studies.experiments.registry import read_study
from workbench.studies.experiments.tables import render
from zoo.studies.graph_records import pack
from zoo.studies.latency import (
    CHOSEN,
    ORIGINAL,
    TIME_IS_UP,
    TIMING,
    WAYS,
    LatencyStudy,
    Order,
    _chosen,
    do_run,
    draw,
    make_plan,
    named,
    outcome,
    quoted,
)

ROOT = Path(__file__).parents[3]
GPU = ROOT / "experiments" / "gpu.yaml"


def shared_operand():
    """Return two products that share an operand: ours is one product."""
    b = GraphBuilder("shared")
    x = b.input("x", (64, 128))
    left, right = (b.op("matmul", x, b.weight((128, 128))) for _ in range(2))
    return b.graph({"y": b.op("add", left, right)})


@pytest.fixture
def study(tmp_path):
    save_onnx(shared_operand(), tmp_path / "shared.onnx")
    return LatencyStudy(
        networks=("shared.onnx",),
        methods={"ours": SaturationMethod(), "search": SearchMethod(budget=3, seconds=20.0)},
        device="cpu",
        ways=("eager", "graph", "onnxruntime"),
        milliseconds=0.2,
        seconds=0.2,
        memory=20.0,
    )


def test_the_papers_benchmarks_are_planned_without_a_gpu(tmp_path, monkeypatch):
    monkeypatch.delenv("WORKBENCH_SHARED", raising=False)
    study = read_study(GPU)
    plan = make_plan(study, GPU.parent, tmp_path)
    assert len(plan.runs) == len(study.precisions) * len(study.networks) * (len(study.methods) + 1)
    assert {run.method for run in plan.runs if run.order.method is None} == {
        named(TIMING, precision) for precision in study.precisions
    }
    assert len({run.folder for run in plan.runs}) == len(plan.runs)
    assert all("WORKBENCH_SHARED is not set" in reason for reason in plan.skipped)


def test_a_dry_run_needs_neither_a_gpu_nor_files(run, tmp_path, monkeypatch):
    monkeypatch.delenv("WORKBENCH_SHARED", raising=False)
    for options in ((), ("--rehearse",)):
        code, out, _ = run("run", GPU, "--dry-run", "--results", tmp_path, *options)
        assert code == 0
        assert "bert:timing" in out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("device", "targets"),
    [
        ("cpu", ["torch", "torch+graph", "torch+compile", "torch+compile+graph", "onnxruntime", "onnxruntime+graph"]),
        ("cuda:1", ["torch:cuda:1", "torch:cuda:1+graph", "torch:cuda:1+compile", "torch:cuda:1+compile+graph",
                    "onnxruntime:cuda:1", "onnxruntime:cuda:1+graph"]),
    ],
)  # fmt: skip
def test_a_way_is_a_target_of_the_device(study, device, targets):
    assert [replace(study, device=device).target(way) for way in WAYS] == targets


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"device": "gpu"}, "device must be cpu, cuda or cuda:N, got 'gpu'"),
        ({"precisions": ["flaot16"]}, "precisions: .*did you mean float16"),
        ({"ways": ["egaer"]}, "ways: .*did you mean eager"),
        ({"shown": ["our"]}, "shown: .*did you mean ours"),
        ({"caches": "hot"}, "caches must be one of"),
        ({"milliseconds": 0}, "milliseconds must be greater than 0"),
        ({"cost": "measurd"}, "measurd"),
        ({"methods": {"timing": {"by": "saturation"}}}, "'timing' is a name of the study's own"),
        ({"rehearsal": {"device": "gpu"}}, "rehearsal: device must be"),
        ({"rehearsal": {"devices": "cpu"}}, "rehearsal: unknown key 'devices'"),
    ],
)
def test_wrong_settings_are_refused(given, message):
    right = {"networks": ["bert"], "methods": {"ours": {"by": "saturation"}}}
    with pytest.raises(StudyError, match=message):
        read_object(LatencyStudy, right | given)


def test_the_rehearsal_is_the_same_study_on_the_cpu():
    study = read_study(GPU)
    rehearsed = study.rehearsed()
    assert rehearsed.device == "cpu"
    assert (rehearsed.methods, rehearsed.ways) == (study.methods, study.ways)
    with pytest.raises(StudyError, match="rehearsal is missing"):
        rehearsed.rehearsed()


def test_another_kind_has_no_rehearsal(run):
    code, _, err = run("run", ROOT / "experiments" / "headline.yaml", "--rehearse", "--dry-run")
    assert (code, len(err.splitlines())) == (2, 1)
    assert "kind optimisation has no rehearsal" in err


def test_without_its_gpu_a_study_ends_in_one_line_and_writes_nothing(run, tmp_path, monkeypatch):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.delenv("WORKBENCH_SHARED", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    code, _, err = run("run", GPU, "--only", "bert:workbench", "--results", tmp_path / "results")
    assert code == 2
    assert err.splitlines()[-1].startswith("workbench: cuda is missing: torch")
    assert not list(tmp_path.rglob("*.json"))


def test_without_torch_a_study_ends_in_one_line(run, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    monkeypatch.delenv("WORKBENCH_SHARED", raising=False)
    code, _, err = run("run", GPU, "--only", "bert:workbench", "--results", tmp_path / "results")
    assert code == 2
    assert err.splitlines()[-1].startswith("workbench: torch is not installed (try pip install")
    assert not list(tmp_path.rglob("*.json"))


@pytest.mark.torch
def test_a_study_measures_optimises_times_and_continues(study, tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    plan = make_plan(study, tmp_path, tmp_path / "results")
    told = []
    records = list(sweep(plan, plan.runs, tell=told.append))
    assert [r["name"] for r in records] == ["shared:ours", "shared:search", "shared:timing"]
    assert not any(r["failed"] for r in records), [r["row"]["notes"] for r in records]
    assert "measuring on cpu" in told[-1]
    ours, _, timing = records
    assert ours["row"]["cost_source"].startswith("recorded table: torch")
    assert "estimated" not in ours["row"]["cost_source"]
    rows = {(row["target"], row["form"]): row for row in timing["latency"]["rows"]}
    assert rows["torch+graph", ORIGINAL]["skipped"] == "CUDA graphs need a CUDA device"
    for target in ("torch", "onnxruntime"):
        assert rows[target, ORIGINAL]["speedup"] == 1
        assert rows[target, "ours"]["rounds"] >= 5
    assert timing["result"]["differences"]["ours" if ours["graph"] else ORIGINAL] < 1e-4
    assert "timed in alternation" in outcome(timing)
    frame, text = render(plan)
    assert "## float32: against the papers" in text
    assert "| ours | 1 |" in text
    assert "| shared | " in text
    assert "nan" not in text
    assert frame["torch: speed-up"].notna().all()
    figures = draw(plan, frame, plan.records())
    assert list(figures) == ["speed-up", "optimiser-time"]
    assert list(sweep(plan, plan.runs)) == []
    (place,) = (plan.place(run) for run in plan.runs if run.method == TIMING)
    (place / "run.json").unlink()
    again = list(sweep(plan, plan.runs, tell=told.append))
    assert [r["name"] for r in again] == ["shared:timing"]
    assert len(told) == 2, "neither listed nor measured again"
    other = make_plan(replace(study, milliseconds=0.3), tmp_path, tmp_path / "results")
    assert len([r for r in sweep(other, other.runs, tell=told.append) if not r["failed"]]) == 3
    assert "measuring on cpu" in told[-1], "prices that were measured in another way are not taken"


@pytest.mark.slow
@pytest.mark.torch
def test_the_rehearsal_of_the_papers_benchmarks_runs_through(run, tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.delenv("WORKBENCH_SHARED", raising=False)
    code, out, err = run(
        "run", GPU, "--rehearse", "--only", "squeezenet", "--no-reports", "--results", tmp_path, "-j", 2
    )
    assert code == 0, err
    assert "8 of 8 runs done now" in out
    folder = tmp_path / "scratch" / "gpu"
    assert {"speed-up.png", "optimiser-time.png", "k-multi.png"} <= {f.name for f in folder.iterdir()}
    assert "| squeezenet |" in (folder / "table.md").read_text()


@pytest.mark.slow
@pytest.mark.torch
def test_runs_without_enough_memory_are_records_of_one_line_and_the_measurements_stay(study, tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    plan = make_plan(replace(study, memory=0.3), tmp_path, tmp_path / "results")
    records = list(sweep(plan, plan.runs))
    assert [r["failed"] for r in records] == [True] * 3
    assert all(r["row"]["notes"] and "\n" not in r["row"]["notes"] for r in records)
    assert len(list((tmp_path / "results" / "operators").glob("*.parquet"))) == 1
    enough = make_plan(study, tmp_path, tmp_path / "results")
    again = list(sweep(enough, enough.runs, force=True))
    assert not any(r["failed"] for r in again), [r["row"]["notes"] for r in again]


def timed(study, tmp_path, graphs=None):
    """Time a network with results in this process, and return the rows by target and form, and the record."""
    plan = make_plan(study, tmp_path, tmp_path / "results")
    (run,) = (run for run in plan.runs if run.method == TIMING)
    found = {"ours": pack(products())} if graphs is None else graphs
    record = do_run(study, replace(run, order=Order(run.order.network, "float32", graphs=found)))
    return {(row["target"], row["form"]): row for row in record["latency"]["rows"]}, record


@pytest.fixture
def of_products(study, tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    save_onnx(products(), tmp_path / "shared.onnx")
    return study


def test_equal_graphs_are_timed_once_and_missing_ones_are_named(of_products, tmp_path):
    text = pack(products())
    rows, record = timed(of_products, tmp_path, {"ours": text, "other": text})
    same, first = rows["torch", "other"], rows["torch", "ours"]
    assert same["same_as"] == "ours"
    assert same["median_us"] == first["median_us"]
    assert record["notes"] == ["without results of search"]


def test_a_runtime_without_the_gpu_is_a_row_with_the_reason(of_products, tmp_path, monkeypatch):
    import onnxruntime

    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CPUExecutionProvider"])
    monkeypatch.setattr(
        LatencyStudy, "target", lambda self, way: "onnxruntime:cuda" if "onnx" in way else "torch"
    )
    rows, _ = timed(replace(of_products, ways=("eager", "onnxruntime")), tmp_path)
    assert "has no CUDAExecutionProvider (try pip" in rows["onnxruntime:cuda", ORIGINAL]["skipped"]
    assert rows["torch", ORIGINAL]["median_us"] > 0


@pytest.mark.parametrize("kind", ["OutOfMemoryError", "other"])
def test_a_graph_that_does_not_fit_is_a_row_with_the_reason_and_the_others_are_timed(
    of_products, tmp_path, monkeypatch, kind
):
    import torch

    from workbench.torch.executor import Program

    call, error = Program.__call__, getattr(torch, kind, RuntimeError)

    def fails(self, *inputs):
        if "too-large" in self.graph.name:
            raise error("CUDA out of memory. Tried to allocate 2.00 GiB\nmore of it")
        return call(self, *inputs)

    monkeypatch.setattr(Program, "__call__", fails)
    large = pack(replace(products(), name="too-large"))
    rows, record = timed(replace(of_products, ways=("eager", "onnxruntime")), tmp_path, {"ours": large})
    assert rows["torch", "ours"]["skipped"].startswith("CUDA out of memory")
    assert "\n" not in rows["torch", "ours"]["skipped"]
    assert rows["torch", ORIGINAL]["median_us"] > 0
    assert rows["onnxruntime", "ours"]["median_us"] > 0
    assert "out of memory" in record["result"]["differences"]["ours"]


def test_the_folder_of_results_is_called_after_the_gpu(study, monkeypatch):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA H100 80GB HBM3")
    assert replace(study, device="cuda").place("gpu") == "nvidia-h100-80gb-hbm3"
    assert study.place("latency") == "latency"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert replace(study, device="cuda").place("gpu") == "gpu"


def test_every_way_of_a_gpu_is_timed_or_says_why_it_is_not(of_products, pretended, tmp_path, monkeypatch):
    monkeypatch.setattr(type(pretended), "title", "a GPU")
    monkeypatch.setattr(type(pretended), "provenance", lambda self: {"gpu": "a GPU"})
    monkeypatch.setattr(pretended.torch, "compile", lambda body, **options: body)
    for module in ("workbench.devices.device", "workbench.torch.executor"):
        monkeypatch.setattr(f"{module}.open_device", lambda *args, **options: pretended)
    monkeypatch.setattr("workbench.torch.kernels._fused", lambda *args: [])
    monkeypatch.setattr("zoo.studies.latency._compiled_in_time", lambda *args: {})
    rows, record = timed(replace(of_products, device="cuda", ways=WAYS), tmp_path)
    reasons = {target: row.get("skipped", "") for (target, form), row in rows.items() if form == ORIGINAL}
    assert list(reasons) == [
        of_products.__class__.target(replace(of_products, device="cuda"), w) for w in WAYS
    ]
    assert [bool(reason) for reason in reasons.values()] == [False] * 4 + [True] * 2
    assert "has no CUDAExecutionProvider" in reasons["onnxruntime:cuda+graph"]
    assert pretended.recorded >= 4, "two graphs, each recorded as it is and compiled"
    assert record["latency"]["titles"]["torch:cuda+compile+graph"] == "a GPU, torch.compile, as a CUDA graph"
    assert len(record["result"]["clocks"]) == 1 + len(WAYS)


def test_a_graph_that_fails_while_it_is_timed_loses_no_other(of_products, tmp_path, monkeypatch):
    from workbench.torch.executor import Torch

    timers = Torch.timers
    calls = []

    @contextlib.contextmanager
    def failing(self, models, seed):
        with timers(self, models, seed) as found:

            def timer():
                calls.append(models[0].name)
                if models[0].name == "too-large" and len(calls) > 8:
                    raise RuntimeError("CUDA out of memory")
                return found[0]()

            yield [timer]

    monkeypatch.setattr(Torch, "timers", failing)
    large = pack(replace(products(), name="too-large"))
    rows, record = timed(replace(of_products, ways=("eager",)), tmp_path, {"ours": large})
    assert rows["torch", "ours"]["skipped"] == "CUDA out of memory"
    assert rows["torch", ORIGINAL]["rounds"] >= 5
    assert rows["torch", CHOSEN]["same_as"] == ORIGINAL
    json.dumps(record, allow_nan=False)


def test_a_compiler_that_takes_too_long_is_given_up(of_products, tmp_path):
    rows, _ = timed(replace(of_products, ways=("eager", "compile"), compiling=0.2), tmp_path)
    assert rows["torch+compile", ORIGINAL]["skipped"] == TIME_IS_UP
    assert rows["torch", ORIGINAL]["median_us"] > 0


@pytest.mark.slow
@pytest.mark.torch
def test_what_was_compiled_ahead_is_timed(of_products, tmp_path):
    rows, _ = timed(replace(of_products, ways=("compile",)), tmp_path)
    row = rows["torch+compile", ORIGINAL]
    assert "median_us" in row or row["skipped"].startswith("torch.compile: ")


def test_operators_that_cannot_be_measured_end_the_command_with_the_programs_code(
    study, tmp_path, monkeypatch
):
    pytest.importorskip("torch", reason="torch is not installed")
    folder = tmp_path / "results" / "operators"
    plan = make_plan(study, tmp_path, tmp_path / "results")
    monkeypatch.setattr(
        "zoo.studies.latency.subprocess.run", lambda *a, **k: type("Done", (), {"returncode": 1})
    )
    with pytest.raises(StudyError, match="could not be measured: the program ended with code 1"):
        list(sweep(plan, plan.runs))
    assert [f.suffix for f in folder.iterdir()] == [".json"], "what was listed stays"
    monkeypatch.setattr(
        "zoo.studies.latency.subprocess.run", lambda *a, **k: type("Done", (), {"returncode": 130})
    )
    with pytest.raises(KeyboardInterrupt):
        list(sweep(plan, plan.runs))


def test_the_fastest_is_chosen_and_the_original_if_none_is_faster_for_sure():
    slow, fast, same, noisy = [10.0] * 9, [8.0] * 9, [9.95] * 9, [5.0, 15.0] * 4 + [5.0]
    tried = {ORIGINAL: slow, "a": same, "b": fast, "c": noisy, "search": [1.0] * 9}
    assert _chosen(tried, ["a", "b", "c"]) == "b"
    assert _chosen(tried, ["a", "c", ORIGINAL]) == ORIGINAL
    assert _chosen({"b": fast}, ["a", "b"]) == ORIGINAL
    assert _chosen({}, ["b"]) == ORIGINAL


def test_cuda_graphs_are_quoted_before_other_ways():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(
        {"target": ["torch:cuda", "torch:cuda+graph", "x+graph"], "median": [1.0, 1.0, None]}
    )
    assert quoted(frame) == "torch:cuda+graph"
    assert quoted(frame[:1]) == "torch:cuda"
    assert quoted(frame[2:]) is None


def test_a_run_that_times_on_a_gpu_may_reserve_all_memory(study, tmp_path):
    plan = make_plan(replace(study, device="cuda"), tmp_path, tmp_path)
    assert [plan.job(run).memory is None for run in plan.runs] == [False, False, True]


@pytest.mark.gpu
@pytest.mark.torch
def test_a_study_runs_on_a_gpu(study, tmp_path):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("torch finds no GPU")
    whole = replace(study, device="cuda", ways=WAYS, precisions=("float32", "tf32", "float16"))
    plan = make_plan(whole, tmp_path, tmp_path / "results")
    records = list(sweep(plan, plan.runs))
    assert not any(r["failed"] for r in records), [r["row"]["notes"] for r in records]
    timing = [r for r in records if r["row"]["by"] == TIMING]
    assert len(timing) == 3
    for record in timing:
        assert any("median_us" in r for r in record["latency"]["rows"] if r["target"] == "torch:cuda+graph")
        assert json.dumps(record["result"]["clocks"])
