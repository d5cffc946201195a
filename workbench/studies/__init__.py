"""The studies wing: experiments, benchmark networks, TASO's interface and search, analysis of runs.

Names are imported when they are first used.
"""

from typing import TYPE_CHECKING

from workbench.support.lazy import door

if TYPE_CHECKING:
    from workbench.studies.analysis.ablation import Ablation as Ablation
    from workbench.studies.analysis.ablation import ablation as ablation
    from workbench.studies.analysis.comparison import Comparison as Comparison
    from workbench.studies.analysis.comparison import compare as compare
    from workbench.studies.analysis.diff import diff as diff
    from workbench.studies.analysis.rule_activity import contributions as contributions
    from workbench.studies.analysis.rule_activity import rule_table as rule_table
    from workbench.studies.benchmarks import benchmark as benchmark
    from workbench.studies.benchmarks.light import demonstration as demonstration
    from workbench.studies.devices.floors import floors as floors
    from workbench.studies.devices.floors import peak as peak
    from workbench.studies.experiments.registry import read_study as read_study
    from workbench.studies.search import BacktrackingSearch as BacktrackingSearch
    from workbench.studies.search.optimize import Searched as Searched
    from workbench.studies.search.optimize import search_optimize as search_optimize
    from workbench.studies.zoo import find_zoo as find_zoo

__getattr__, __all__ = door(
    __name__,
    {
        "analysis.ablation": "Ablation ablation",
        "analysis.comparison": "Comparison compare",
        "analysis.diff": "diff",
        "analysis.rule_activity": "contributions rule_table",
        "benchmarks": "benchmark",
        "benchmarks.light": "demonstration",
        "devices.floors": "floors peak",
        "experiments.registry": "read_study",
        "search": "BacktrackingSearch",
        "search.optimize": "Searched search_optimize",
        "zoo": "find_zoo",
    },
)
