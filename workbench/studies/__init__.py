"""The studies wing: experiments, benchmark networks, TASO's interface and search, analysis of runs.

Names are imported when they are first used.
"""

from typing import TYPE_CHECKING

from workbench.support.lazy import lazy_names

if TYPE_CHECKING:
    from workbench.studies.analysis.ablation import Ablation, ablation
    from workbench.studies.analysis.comparison import Comparison, compare
    from workbench.studies.analysis.rule_activity import contributions, rule_table
    from workbench.studies.benchmarks import benchmark
    from workbench.studies.experiments.registry import read_study
    from workbench.studies.search import BacktrackingSearch
    from workbench.studies.search.optimize import Searched, search_optimize

__all__ = [
    "Ablation",
    "BacktrackingSearch",
    "Comparison",
    "Searched",
    "ablation",
    "benchmark",
    "compare",
    "contributions",
    "read_study",
    "rule_table",
    "search_optimize",
]

__getattr__ = lazy_names(
    __name__,
    {
        "Ablation": ".analysis.ablation",
        "BacktrackingSearch": ".search",
        "Comparison": ".analysis.comparison",
        "Searched": ".search.optimize",
        "ablation": ".analysis.ablation",
        "benchmark": ".benchmarks",
        "compare": ".analysis.comparison",
        "contributions": ".analysis.rule_activity",
        "read_study": ".experiments.registry",
        "rule_table": ".analysis.rule_activity",
        "search_optimize": ".search.optimize",
    },
)
