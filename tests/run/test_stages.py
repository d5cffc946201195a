import pytest

from workbench.run.stages import STAGES, Stages


def test_stages_add_up_and_come_in_their_order():
    stages = Stages()
    for stage in ("certificate", "import", "certificate"):
        with stages(stage):
            pass
    assert list(stages.ordered()) == ["import", "certificate"]
    assert all(s >= 0 for s in stages.seconds.values())


def test_the_seconds_of_an_inner_stage_count_once(monkeypatch):
    times = iter([0.0, 1.0, 4.0, 10.0])
    monkeypatch.setattr("workbench.run.stages.time.perf_counter", lambda: next(times))
    stages = Stages()
    with stages("saturation"), stages("pricing"):
        pass
    assert stages.seconds == {"pricing": 3.0, "saturation": 7.0}


def test_a_stage_is_reported_when_it_begins_unless_it_is_quiet():
    seen = []
    stages = Stages(lambda stage, detail: seen.append((stage, detail)))
    with stages("import"):
        assert seen == [("import", None)]
    with stages("history", quiet=True):
        pass
    stages.tell("saturation", "step 1")
    assert seen == [("import", None), ("saturation", "step 1")]


def test_an_error_ends_the_stage_and_continues():
    stages = Stages()
    with pytest.raises(KeyError), stages("import"):
        raise KeyError
    assert list(stages.seconds) == ["import"]


def test_every_stage_that_people_read_of_has_words():
    assert all(words and words[0].islower() for words in STAGES.values())
