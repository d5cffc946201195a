"""Verdicts on equations: the most general law that holds, with the conditions that it needs."""

import os
import pickle

import pytest

from workbench.laws.synthesis import Grammar, Synthesis
from workbench.laws.synthesis import synthesis as module
from workbench.laws.synthesis.anti_unification import variants_of
from workbench.laws.synthesis.enumeration import Equation
from workbench.laws.synthesis.judge import Journal, Judged, judge, recheck
from workbench.laws.verification.evidence import Effort
from workbench.rules import parse_rules
from workbench.rules.language import parse_term
from workbench.rules.pattern import format_rule
from workbench.run.trace import StepKind, StopReason

MATRICES = dict.fromkeys("xyz", ("n", "n"))


def judged(*equations):
    variants = [
        variants_of(Equation(parse_term(a), parse_term(b), 0), MATRICES, {"n": 3}) for a, b in equations
    ]
    return judge(variants, effort=Effort(chain=0, draws=60, seconds=60.0), seed=0, jobs=1)


@pytest.mark.slow
def test_the_general_law_is_kept_and_a_wrong_equation_is_not():
    right, wrong = judged(
        ("concat[axis=-1](relu(x), relu(y))", "relu(concat[axis=-1](x, y))"), ("matmul(x, y)", "matmul(y, x)")
    )
    assert right.verdict.by_axioms
    assert "axis=a" in format_rule(right.law)
    assert wrong.law is None
    assert wrong.decided


@pytest.mark.slow
def test_a_law_for_some_axes_only_is_not_generalised_to_all():
    (one,) = judged(("concat[axis=-2](matmul(x, y), matmul(z, y))", "matmul(concat[axis=-2](x, z), y)"))
    assert one.verdict.verdict == "tested"


@pytest.mark.slow
def test_a_halt_leaves_equations_undecided():
    variants = [
        variants_of(Equation(parse_term("relu(relu(x))"), parse_term("relu(x)"), 0), MATRICES, {"n": 3})
    ]
    (one,) = judge(variants, effort=Effort(chain=0), seed=0, jobs=1, halt=lambda: True)
    assert (one.law, one.decided) == (None, False)


LAWS = parse_rules(
    "over: add(matmul(x, y), matmul(x, z)) => matmul(x, add(y, z))\n"
    "wrong: matmul(x, y) => matmul(y, x)\n"
    "pair: matmul(x, y) ; matmul(x, z)"
    " => slice[axis=-1, start=0, stop=dim(y, -1)](matmul(x, concat[axis=-1](y, z)))"
    " ; slice[axis=-1, start=dim(y, -1), stop=dim(y, -1) + dim(z, -1)](matmul(x, concat[axis=-1](y, z)))\n"
)


@pytest.mark.slow
def test_right_laws_pass_every_instance_and_a_wrong_one_does_not():
    over, wrong, pair = (recheck(law, 60) for law in LAWS)
    assert over == pair == (60, False, True)
    assert wrong[1]


def test_a_limit_is_reported():
    passed, _, complete = recheck(LAWS[0], 5000, seconds=0.05)
    assert not complete
    assert passed < 5000


def test_the_number_of_instances_is_checked():
    with pytest.raises(ValueError, match="must be positive, got 0"):
        recheck(LAWS[0], 0)


GRAMMAR = Grammar.of("add relu", "matrix: 2", operators=2)
EFFORT = Effort(chain=0, draws=60, seconds=60.0)
EQUATION = Equation(parse_term("add(x, y)"), parse_term("add(y, x)"), 2)
OTHER = Equation(parse_term("relu(x)"), parse_term("x"), 1)


def journal(path, seed=0):
    return Journal(path, GRAMMAR, EFFORT, seed)


def test_decided_outcomes_are_read_back(tmp_path):
    path = tmp_path / "new" / "j"
    first = journal(path)
    first.add(EQUATION, Judged(None, None, (), True))
    first.add(OTHER, Judged(None, None, (), False))
    again = journal(path)
    assert again.of(EQUATION) == Judged(None, None, (), True)
    assert again.of(OTHER) is None


def test_a_file_that_was_cut_is_read_up_to_its_last_whole_entry(tmp_path):
    path = tmp_path / "j"
    first = journal(path)
    first.add(EQUATION, Judged(None, None, (), True))
    whole = path.stat().st_size
    first.add(OTHER, Judged(None, None, (), True))
    path.write_bytes(path.read_bytes()[: whole + 3])
    again = journal(path)
    assert again.of(EQUATION) is not None
    assert again.of(OTHER) is None
    again.add(OTHER, Judged(None, None, (), True))
    assert journal(path).of(OTHER) is not None


def test_another_run_begins_anew(tmp_path):
    path = tmp_path / "j"
    journal(path).add(EQUATION, Judged(None, None, (), True))
    assert journal(path, seed=1).of(EQUATION) is None
    whole = path.read_bytes()
    path.write_bytes(whole[:20])
    assert journal(path).known == {}


class Code:
    """An object whose pickle runs a command when it is read."""

    def __init__(self, file):
        self.file = file

    def __reduce__(self):
        return os.system, (f"touch {self.file}",)


@pytest.mark.parametrize("first", [True, False])
def test_nothing_in_a_journal_is_run(tmp_path, first):
    code = pickle.dumps(Code(tmp_path / "ran"))
    path = tmp_path / "j"
    if first:
        path.write_bytes(code)
        with pytest.raises(ValueError, match="must be a journal"):
            journal(path)
    else:
        journal(path).add(EQUATION, Judged(None, None, (), True))
        path.write_bytes(path.read_bytes() + code)
        assert journal(path).of(EQUATION) is not None
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("content", [b"not a journal", b"operators: add", b"\x80\x04."])
def test_a_file_that_is_no_journal_is_refused_and_stays(tmp_path, content):
    path = tmp_path / "notes"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="must be a journal of a synthesis, or a new file"):
        journal(path)
    assert path.read_bytes() == content


@pytest.mark.slow
def test_a_run_that_was_ended_continues_with_the_same_laws(tmp_path, monkeypatch):
    whole = Synthesis(GRAMMAR, effort=EFFORT)
    whole.run()
    ended = Synthesis(GRAMMAR, effort=EFFORT, journal=tmp_path / "j")

    def stop(step):
        if step.kind is StepKind.CHOICE:
            raise KeyboardInterrupt

    ended.run(stop)
    kept = len(Journal(tmp_path / "j", GRAMMAR, EFFORT, 0).known)
    assert kept
    judged = []
    real = module.judge

    def counted(variants, **options):
        judged.extend(variants)
        return real(variants, **options)

    monkeypatch.setattr(module, "judge", counted)
    again = Synthesis(GRAMMAR, effort=EFFORT, journal=tmp_path / "j")
    assert again.run() is StopReason.FINISHED
    assert list(map(format_rule, again.rules)) == list(map(format_rule, whole.rules))
    assert kept + len(judged) == len(Journal(tmp_path / "j", GRAMMAR, EFFORT, 0).known)
