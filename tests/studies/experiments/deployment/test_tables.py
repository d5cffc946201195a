from workbench.studies.experiments.deployment.tables import remarks


def record(name, title, skipped=""):
    row = {"network": name, "method": "default", "repeat": 0}
    figures = {"target": "torch+compile", "form": "original"} | ({"skipped": skipped} if skipped else {})
    return {"row": row, "latency": {"rows": [figures], "titles": {"torch+compile": title}}}


def test_models_that_ran_otherwise_or_not_at_all_are_named():
    records = [
        record("a", "compiled"),
        record("b", "compiled without its patterns"),
        record("c", "compiled without its patterns"),
        record("d", "torch+compile", "no torch form"),
    ]
    assert remarks("torch+compile", "compiled", records) == [
        "b, c: compiled without its patterns.\nNot timed: d (no torch form)."
    ]
    assert remarks("onnxruntime-1", "one thread", records[:1]) == []
