"""A small trace written by hand, with a limit reached and every figure known."""

from workbench.run.trace import RuleStep, Step, StepKind, Trace


def small_trace() -> Trace:
    meta = {
        "graph": "toy",
        "e_node_limit": 100,
        "iteration_limit": 15,
        "stop_reason": "e-node limit",
        "cost_before": 50.0,
        "cost_after": 20.0,
        "cost_bound": 19.0,
        "cost_source": "analytic (test device)",
        "operator_costs": {
            "before": {"matmul": 40.0, "add": 6.0, "relu": 4.0},
            "after": {"matmul": 15.0, "concat": 5.0},
        },
    }
    steps = [
        Step(0, StepKind.START, 0.0, 10, 8, (), 50.0, note="start graph"),
        Step(
            1,
            StepKind.ITERATION,
            0.5,
            30,
            20,
            (RuleStep("fuse", 4, 0.1, 3), RuleStep("merge", 9, 0.2, 17)),
            30.0,
        ),
        Step(
            2,
            StepKind.CUT,
            0.25,
            100,
            70,
            (RuleStep("merge", 90, 0.2, 70), RuleStep("idle", 5, 0.1, 0)),
            20.0,
            note="cut",
        ),
    ]
    return Trace(meta, steps)
