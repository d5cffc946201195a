"""The record of a stepwise run: what widgets, plots, the command line and files read."""

from __future__ import annotations

import enum
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.face import Face

if TYPE_CHECKING:
    import pandas as pd


class StopReason(enum.Enum):
    """Say why a run stopped."""

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
    """Hold what one rule did in one step.

    ``matches`` found, ``seconds`` spent (the engine reports whole milliseconds, so a fast rule shows
    0 unless the run was profiled), ``e_nodes`` that exist because of it.
    """

    rule: str
    matches: int
    seconds: float
    e_nodes: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """Hold one step: its size at the end, what the rules did, the best cost and bound known, if any."""

    index: int
    seconds: float
    e_nodes: int
    e_classes: int
    rules: tuple[RuleStep, ...] = ()
    cost: float | None = None
    bound: float | None = None
    note: str = ""


@dataclass(slots=True)
class Trace(Face):
    """Collect steps. ``meta`` says what the run was: limits, rules, seed, versions, cost source."""

    meta: dict[str, Any] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)

    def add(self, step: Step) -> None:
        """Append a step."""
        self.steps.append(step)

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def set_births(self, births: Mapping[tuple[int, str], int]) -> None:
        """Fill in how many e-nodes exist because of a rule, by (step, rule)."""
        for i, step in enumerate(self.steps):
            known = {r.rule for r in step.rules}
            rules = [replace(r, e_nodes=births.get((step.index, r.rule), 0)) for r in step.rules]
            rules += [
                RuleStep(rule, 0, 0.0, count)
                for (index, rule), count in births.items()
                if index == step.index and rule not in known
            ]
            self.steps[i] = replace(step, rules=tuple(rules))

    def set_costs(self, costs: Mapping[int, float]) -> None:
        """Fill in the best cost known after each step, by step."""
        self.steps[:] = [replace(step, cost=costs.get(step.index, step.cost)) for step in self.steps]

    def frame(self) -> pd.DataFrame:
        """Return one row per step: seconds (also cumulative), e-nodes, e-classes, matches, cost."""
        import pandas as pd

        columns = ["step", "seconds", "e_nodes", "e_classes", "matches", "cost", "bound", "note"]
        rows = [
            (
                s.index,
                s.seconds,
                s.e_nodes,
                s.e_classes,
                sum(r.matches for r in s.rules),
                s.cost,
                s.bound,
                s.note,
            )
            for s in self.steps
        ]
        frame = pd.DataFrame(rows, columns=columns)
        frame.insert(2, "elapsed", frame["seconds"].cumsum())
        return frame

    def rule_frame(self) -> pd.DataFrame:
        """Return one row per step and rule that matched or made an e-node."""
        import pandas as pd

        rows = [
            (s.index, r.rule, r.matches, r.seconds, r.e_nodes)
            for s in self.steps
            for r in s.rules
            if r.matches or r.e_nodes
        ]
        return pd.DataFrame(rows, columns=["step", "rule", "matches", "seconds", "e_nodes"])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trace, as Parquet where the path ends in ``.parquet``, else as JSON lines.

        JSON lines begin with the meta data; in Parquet, a row a step, they are JSON in the schema's
        metadata under ``trace``. The file appears whole or not at all.
        """
        target = Path(path)
        temporary = target.with_name(target.name + ".part")
        if target.suffix == ".parquet":
            self._write_parquet(temporary)
        else:
            lines = [json.dumps({"meta": self.meta})] + [json.dumps(asdict(s)) for s in self.steps]
            temporary.write_text("\n".join(lines) + "\n")
        temporary.replace(target)

    def _write_parquet(self, file: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        number, count, text = pa.float64(), pa.int64(), pa.string()
        rule = pa.struct({"rule": text, "matches": count, "seconds": number, "e_nodes": count})
        sizes = {"index": count, "seconds": number, "e_nodes": count, "e_classes": count}
        others = {"rules": pa.list_(rule), "cost": number, "bound": number, "note": text}
        schema = pa.schema(sizes | others, metadata={"trace": json.dumps(self.meta)})
        pq.write_table(pa.Table.from_pylist([asdict(s) for s in self.steps], schema), file)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Trace:
        """Read a trace back from either form; raise ValueError where it is not one."""
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
            except (json.JSONDecodeError, TypeError, KeyError) as error:
                raise ValueError(f"{path}, line {number}: not a trace record ({error})") from None
        return trace

    @classmethod
    def _load_parquet(cls, file: Path) -> Trace:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            table = pq.read_table(file)
            meta = json.loads((table.schema.metadata or {})[b"trace"])
            return cls(meta, [_step(record) for record in table.to_pylist()])
        except (pa.ArrowInvalid, ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{file}: not a trace in Parquet ({error})") from None


def _step(record: dict[str, Any]) -> Step:
    rules = tuple(RuleStep(**r) for r in record.pop("rules"))
    return Step(**record, rules=rules)


def sizes(trace: Trace) -> tuple[str, str]:
    """Return what the two sizes of a step count: e-nodes and e-classes, unless the run counts others."""
    made, kept = trace.meta.get("sizes", ("e-nodes", "e-classes"))
    return made, kept
