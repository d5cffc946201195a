"""The study of blocking: growth and results of generic rules, of rules on demand, and of whole products."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt

from workbench.run.settings import same
from workbench.saturation.limits import Limits
from workbench.studies.experiments import config
from workbench.studies.experiments.plan import Plan, Record, Run, network_of
from workbench.studies.experiments.tables import about, cell, lines, missing, run_table, seconds_text
from workbench.support.formatting import thousands

if TYPE_CHECKING:
    import pandas as pd

    from workbench.kernels.accelerators import Unit
    from workbench.rules import RuleSet


#: The sets of rules: tiles one by one by generic rules or on demand of products, whole products in the
#: orientation of Glenside, and whole products in any orientation.
METHODS: Final = ("generic", "demanded", "glenside-orientation", "any-orientation")

#: The network that is not among the published ones.
MOBILENET: Final = "mobilenetv1"


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockingStudy(config.Study):
    """A study that puts the products of every network on every hardware unit by every set of rules.

    ``networks`` are published networks, ``mobilenetv1`` or model files; ``units`` are names of
    :func:`workbench.kernels.accelerators.units`, or files. ``e_nodes`` and ``seconds`` limit each saturation. With
    ``certify`` every result is compared with its original.
    """

    KIND: ClassVar[str] = "blocking"

    networks: config.Names
    units: config.Names
    methods: config.Names = METHODS
    e_nodes: PositiveInt = same(Limits, "e_nodes")
    seconds: PositiveFloat = same(Limits, "seconds")
    certify: bool = True
    grace: NonNegativeFloat = 300.0

    def __post_init__(self) -> None:
        from workbench.kernels.accelerators import unit

        config.check_published(self.networks, MOBILENET)
        config.check_names("methods", "method of blocking", self.methods, METHODS)
        for name in self.units:
            try:
                unit(name)
            except (LookupError, ValueError, OSError) as error:
                raise config.StudyError(f"units: {error}") from None


def make_plan(study: BlockingStudy, home: Path, folder: Path) -> Plan:
    """Plan a study's runs, network by network; files of units are relative to ``home``."""
    from workbench.kernels.accelerators import unit

    runs = []
    for given, name, method in product(study.networks, study.units, study.methods):
        model, model_config, absent = config.resource(given, home)
        if absent:
            raise config.StudyError(f"networks: {absent}")
        place = str(home / name) if name.endswith(".toml") else name
        settings = {
            "network": model_config,
            "unit": repr(unit(place)),  # another file of its name is another run
            "method": method,
            "e_nodes": study.e_nodes,
            "seconds": study.seconds,
            "certify": study.certify,
        }
        network, stem = config.title(given), Path(name).stem
        columns = {"network": network, "unit": stem, "by": "saturation"}
        known: dict[str, Any] = {"order": (model, place), "columns": columns, "figures": {"seconds": {}}}
        runs.append(Run(f"{network}-{stem}", method, settings, 2 * study.seconds, **known))
    return Plan.of(study, folder, block_one, runs)


def outcome(record: Record) -> str:
    """Return the outcome of a run in one line."""
    row = record["row"]
    return (
        f"{row['e_nodes']} e-nodes, {record['stop_reason']}; {row['products_left']} products left, "
        f"{row['tiles']} tiles, {row['cycles']:.0f} cycles"
    )


# -- in the process of a run ---------------------------------------------------------------------------
def rules_of(method: str, unit: Unit) -> RuleSet:
    """Return the rules of a method for a unit."""
    from workbench.kernels.accelerators import unit_rules
    from workbench.kernels.accelerators.glenside_rules import demanded, generic

    if method in ("generic", "demanded"):
        return (generic if method == "generic" else demanded)(unit)
    orientations = {"orientations": ("streamed-left",)} if method.startswith("glenside") else {}
    return unit_rules(unit, **orientations)


def block_one(study: BlockingStudy, run: Run) -> Record:
    """Put a network on a unit once, and return the figures with the trace."""
    from workbench.kernels.accelerators import AcceleratorCost, Placement, unit
    from workbench.optimizer.pipeline import optimize
    from workbench.optimizer.summary import running_operators
    from workbench.studies.benchmarks import mobilenetv1

    model, place = run.order
    chosen = unit(place)
    done = optimize(
        mobilenetv1() if model == MOBILENET else network_of(model),
        rules=rules_of(run.method, chosen),
        cost=AcceleratorCost(chosen),
        e_nodes=study.e_nodes,
        saturation_seconds=study.seconds,
        extraction_seconds=study.seconds,
        seconds=4 * study.seconds,
        certify=study.certify,
        seed=run.seed,
    )
    placed, certificate = done.placement, done.certificate
    assert isinstance(placed, Placement)
    calls = done.graph.operators().get(chosen.name, 0)  # the tiles of a literal program
    row = {
        "e_nodes": done.e_nodes,
        "e_classes": done.e_classes,
        "iterations": done.iterations,
        "saturation": done.seconds["saturation"],
        "extraction": done.seconds["extraction"],
        "products": len(placed.layers),
        "products_left": sum(left.count for left in placed.left if not left.what.startswith("depthwise")),
        "depthwise_left": sum(left.count for left in placed.left if left.what.startswith("depthwise")),
        "tiles": placed.tiles + calls,
        "cycles": done.cost_after * chosen.clock,
        "utilisation": placed.utilisation,
        "certified": None if certificate is None else certificate.passed,
    }
    return {
        "row": row,
        "status": done.solution.status.value,
        "stop_reason": done.stop_reason.value,
        "seconds": dict(done.seconds),
        "result": {
            "operators_before": running_operators(done.original),
            "operators_after": running_operators(done.graph),
        },
        "trace": done.trace,
    }


COLUMNS: Final = (
    "network", "unit", "method", "repeat", "e_nodes", "e_classes", "iterations", "saturation", "extraction",
    "stop_reason", "status", "products", "products_left", "depthwise_left", "tiles", "cycles", "utilisation",
    "certified", "failed", "notes",
)  # fmt: skip


def table(records: Iterable[Record]) -> pd.DataFrame:
    """Return one row per run."""
    whole = ["e_nodes", "e_classes", "iterations", "products", "products_left", "depthwise_left", "tiles"]
    return run_table(records, COLUMNS, whole)


def markdown(plan: Plan, frame: pd.DataFrame, records: Sequence[Record]) -> str:
    """Return the table as text, with a description of the sets of rules."""
    head = ["network", "unit", "rules", "e-nodes", "saturation", "extraction", "ended by", "result",
            "dense products left", "depthwise left", "tiles", "cycles", "certified"]  # fmt: skip
    rows = [
        [
            str(row["network"]), str(row["unit"]), str(row["method"]), _number(row["e_nodes"]),
            seconds_text(row["saturation"]), seconds_text(row["extraction"]), str(row["stop_reason"]),
            str(row["status"]), _number(row["products_left"]), _number(row["depthwise_left"]),
            _number(row["tiles"]), _number(row["cycles"]), cell(row["certified"]),
        ]
        for row in frame.to_dict("records")
    ]  # fmt: skip
    described = about(
        records,
        ".",
        "*generic*: rules like Glenside's, which fill, cut and join their own results. *demanded*: tiles "
        "one by one, each rule on demand of a product. *glenside-orientation*: a product is one operator, "
        "kernels stream and the image stays. *any-orientation*: the extraction chooses the operand that "
        "stays.",
        "Rules on demand are not a discovery: they state how a product is blocked, and the extraction "
        "chooses among the ways. Cycles are those of the unit's file, of the vector unit and of memory "
        "together.",
    )
    parts = ["# Blocking: networks cut into the tiles of hardware units", described, lines(head, rows)]
    return "\n\n".join([*parts, *missing(plan)]) + "\n"


def _number(value: Any) -> str:
    import pandas as pd

    return "" if pd.isna(value) else thousands(round(value))
