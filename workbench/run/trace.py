"""Records of stepwise runs: the data that widgets, plots, the command line and files read."""

from __future__ import annotations

import enum
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

from workbench.run.display import Face
from workbench.support.messages import require
from workbench.support.wings import offered

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

N = TypeVar("N", int, float)


class StepKind(enum.Enum):
    """Kind of a step: the work that was done in it.

    The kind and the counts of a step are its facts; code that depends on the effect of a step reads them.
    """

    START = "start"  #: nothing yet: the graph that the run starts from (saturation, search)
    CUT = "cut"  #: a step that a limit cut short or undid (saturation, search, verification)

    ITERATION = "iteration"  #: saturation: every rule that is due, applied once everywhere
    MERGE = "merge"  #: saturation: merge rules applied once more, among the operators of an extraction

    ORIGINAL = "original"  #: extraction: the selection of the start graph
    TREE = "tree"  #: extraction: the selection of least tree cost
    DAG = "dag"  #: extraction: the greedy selection that counts shared parts once
    LOCAL_SEARCH = "local search"  #: extraction: local search from the best selection
    PRESOLVE = "presolve"  #: extraction: reductions; counts the candidates ``before`` and ``after``
    INCUMBENT = "incumbent"  #: extraction: a solver improved the selection or the bound
    OWN = "own"  #: extraction: the selection of an extractor that a user registered
    SETTLED = "settled"  #: extraction: bound and status are final

    EXPANSION = "expansion"  #: search: every rule was tried on a graph from the queue
    COMPARISON = "comparison"  #: search: a graph was only compared with the best, the budget being spent

    SCREENING = "screening"  #: verification: counts rules ``screened`` so far, of ``rules``, and ``refuted``
    PASS = "pass"  #: verification: a pass begins; counts its number ``pass`` and the ``open`` cases
    ROUND = "round"  #: verification: a round of axioms; counts the cases ``proved`` and still ``open``
    SEPARATE = "separate"  #: verification: each rule was proved in an e-graph of its own
    UNPROVED = "unproved"  #: verification: the last pass is over; counts the cases that stay ``open``
    DECISION = "decision"  #: verification: counts the rules ``decided`` so far, of ``rules``

    REFERENCE = "reference"  #: ablation: the run with all rules
    WITHOUT = "without"  #: ablation: a run without one rule

    ENUMERATION = "enumeration"  #: synthesis: counts ``terms`` of a ``size``, ``classes``, ``candidates``
    CHOICE = "choice"  #: synthesis: counts candidates ``derived``, ``kept``, ``refuted``, ``open``
    REDUCTION = "reduction"  #: synthesis: laws that the others imply; counts those ``dropped`` and ``kept``


class StopReason(enum.Enum):
    """The reason why a run stopped."""

    SATURATED = "saturated"
    E_NODE_LIMIT = "e-node limit"
    ITERATION_LIMIT = "iteration limit"
    TIME_LIMIT = "time limit"
    MEMORY_LIMIT = "memory limit"
    INTERRUPTED = "interrupted"
    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class RuleStep:
    """The work of one rule in one step.

    ``matches`` is the number found, ``seconds`` the time spent (the engine reports whole milliseconds, so a
    fast rule shows 0 unless the run was profiled), ``e_nodes`` the number that exist because of the rule.
    """

    rule: str
    matches: int
    seconds: float
    e_nodes: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a run: its kind, its size at the end, the work of each rule, the best cost and bound.

    ``counts`` are the numbers of the step's kind (:class:`StepKind`); ``cost`` and ``bound`` are None
    while none is known. ``phases`` are the seconds of the parts of a step, if it was taken apart. ``note`` is a text
    for people: nothing reads facts from it.
    """

    index: int
    kind: StepKind
    seconds: float
    e_nodes: int
    e_classes: int
    rules: tuple[RuleStep, ...] = ()
    cost: float | None = None
    bound: float | None = None
    note: str = ""
    counts: Mapping[str, int] = field(default_factory=dict, hash=False)
    phases: Mapping[str, float] = field(default_factory=dict, hash=False, compare=False)


class Trace(Face):
    """The steps of a run. ``meta`` describes the run: limits, rules, seed, versions, cost source.

    The costs of the steps may be computed when the steps are first looked at (:meth:`set_costs`).
    """

    __slots__ = ("_costs", "_steps", "meta")

    def __init__(self, meta: dict[str, Any] | None = None, steps: list[Step] | None = None) -> None:
        self.meta: dict[str, Any] = {} if meta is None else meta
        self._steps: list[Step] = [] if steps is None else steps
        self._costs: Callable[[], Mapping[int, float]] | None = None

    @property
    def steps(self) -> list[Step]:
        """Return the steps, with their costs."""
        if self._costs is not None:
            make, self._costs = self._costs, None
            self.set_costs(make())
        return self._steps

    def __repr__(self) -> str:
        last = f", {self._steps[-1].e_nodes} e-nodes" if self._steps else ""
        return f"Trace of {self.meta.get('graph', 'a run')!r}: {len(self._steps)} steps{last}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Trace) and (self.meta, self.steps) == (other.meta, other.steps)

    __hash__ = None  # type: ignore[assignment]  # it grows

    def add(self, step: Step) -> None:
        """Append a step."""
        self.steps.append(step)

    def __len__(self) -> int:
        return len(self._steps)

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def set_births(self, births: Mapping[tuple[int, str], int]) -> None:
        """Fill in the number of e-nodes that exist because of a rule, by (step, rule)."""
        for i, step in enumerate(self.steps):
            known = {r.rule for r in step.rules}
            rules = [replace(r, e_nodes=births.get((step.index, r.rule), 0)) for r in step.rules]
            here = ((rule, count) for (index, rule), count in births.items() if index == step.index)
            rules += [RuleStep(rule, 0, 0.0, count) for rule, count in here if rule not in known]
            self.steps[i] = replace(step, rules=tuple(rules))

    def set_costs(self, costs: Mapping[int, float] | Callable[[], Mapping[int, float]]) -> None:
        """Fill in the best cost known after each step; a function is called when the steps are first looked at."""
        if callable(costs):
            self._costs = costs
            return
        self.steps[:] = [replace(step, cost=costs.get(step.index, step.cost)) for step in self.steps]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the growth by iteration; see :func:`workbench.faces.plots.plot_growth`."""
        return offered("plot_growth")(self, ax)

    def frame(self) -> pd.DataFrame:
        """Return one row per step: seconds (also cumulative), sizes, matches, cost, bound, kind, note."""
        import pandas as pd

        columns = ["step", "seconds", "e_nodes", "e_classes", "matches", "cost", "bound", "kind", "note"]
        rows = [
            _record(s) | {"step": s.index, "matches": sum(r.matches for r in s.rules)} for s in self.steps
        ]
        frame = pd.DataFrame(rows, columns=columns)
        frame.insert(2, "elapsed", frame["seconds"].cumsum())
        return frame

    def rule_frame(self) -> pd.DataFrame:
        """Return one row per step and rule that matched or made an e-node."""
        import pandas as pd

        active = ((s.index, r) for s in self.steps for r in s.rules if r.matches or r.e_nodes)
        rows = [(step, r.rule, r.matches, r.seconds, r.e_nodes) for step, r in active]
        return pd.DataFrame(rows, columns=["step", "rule", "matches", "seconds", "e_nodes"])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trace, as Parquet if the path ends in ``.parquet``, otherwise as JSON lines.

        JSON lines begin with the meta data. A Parquet file has one row per step, and the meta data as JSON in
        the schema's metadata under ``trace``. The file is written completely or not at all.
        """
        from workbench.support.files import atomic_file

        with atomic_file(path) as file:
            if Path(path).suffix == ".parquet":
                self._write_parquet(file)
            else:
                lines = [json.dumps({"meta": self.meta})] + [json.dumps(_record(s)) for s in self.steps]
                file.write(("\n".join(lines) + "\n").encode())

    def _write_parquet(self, file: IO[bytes]) -> None:
        pa, pq = (require(name, "parquet") for name in ("pyarrow", "pyarrow.parquet"))
        number, count, text = pa.float64(), pa.int64(), pa.string()
        rule = pa.struct({"rule": text, "matches": count, "seconds": number, "e_nodes": count})
        sizes = {"index": count, "seconds": number, "e_nodes": count, "e_classes": count}
        others = {"rules": pa.list_(rule), "cost": number, "bound": number, "note": text}
        facts = {"kind": text, "counts": pa.map_(text, count), "phases": pa.map_(text, number)}
        schema = pa.schema(sizes | others | facts, metadata={"trace": json.dumps(self.meta)})
        pq.write_table(pa.Table.from_pylist([_record(s) for s in self.steps], schema), file)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Trace:
        """Read a trace back from either form; raise ValueError if the file is not a trace."""
        if Path(path).suffix == ".parquet":
            return cls._load_parquet(Path(path))
        trace = cls()
        for number, line in enumerate(Path(path).read_text().splitlines(), 1):
            try:
                record = json.loads(line)
                if "meta" in record:
                    trace.meta = record["meta"]
                else:
                    trace.add(_step(record))
            except (ValueError, TypeError, KeyError) as error:
                raise ValueError(f"{path}, line {number}: not a trace record ({error})") from None
        return trace

    @classmethod
    def _load_parquet(cls, file: Path) -> Trace:
        pa, pq = (require(name, "parquet") for name in ("pyarrow", "pyarrow.parquet"))
        try:
            table = pq.read_table(file)
            meta = json.loads((table.schema.metadata or {})[b"trace"])
            return cls(meta, [_step(record) for record in table.to_pylist()])
        except (pa.ArrowInvalid, ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{file}: not a trace in Parquet ({error})") from None


def _record(step: Step) -> dict[str, Any]:
    return asdict(step) | {"kind": step.kind.value}


def _step(record: dict[str, Any]) -> Step:
    rules = tuple(RuleStep(**r) for r in record.pop("rules"))
    kind, counts = StepKind(record.pop("kind")), dict(record.pop("counts"))
    phases = dict(record.pop("phases", None) or {})
    return Step(**record, rules=rules, kind=kind, counts=counts, phases=phases)


def cost_unit(trace: Trace) -> str:
    """Return the unit of a trace's costs: microseconds if a cost model priced them, otherwise none."""
    return "µs" if "cost_source" in trace.meta else ""


def by_rule(steps: Sequence[Step], figure: Callable[[RuleStep], N]) -> dict[str, list[N]]:
    """Return a figure of each rule by step, the rule with the largest sum first; rules without any are left out."""
    found: dict[str, list[Any]] = {}
    for k, step in enumerate(steps):
        for rule in step.rules:
            if value := figure(rule):
                found.setdefault(rule.rule, [0] * len(steps))[k] += value
    return dict(sorted(found.items(), key=lambda item: (-sum(item[1]), item[0])))


def sizes(trace: Trace) -> tuple[str, str]:
    """Return the names of a step's two sizes: e-nodes and e-classes, unless the run counts other things."""
    made, kept = trace.meta.get("sizes", ("e-nodes", "e-classes"))
    return made, kept
