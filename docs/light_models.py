"""Optimise the onnx package's nine real architectures and print a table: python docs/light_models.py."""

import workbench
from workbench.devices.ranking import compare
from workbench.frontends.onnx.file import joined
from workbench.frontends.runtime import clean
from workbench.studies.benchmarks.light import light_model, light_names


def main() -> None:
    """Print one row per model, as soon as it is done, with costs measured on this machine."""
    print("| model | operators modelled | e-nodes | search, s | cost, ms | ONNX Runtime, ms |")
    print("|---|---|---|---|---|---|")
    for name in light_names():
        model = light_model(name)
        result = workbench.optimize(model, cost="cpu")
        assert result.certificate is not None
        assert result.certificate.passed, result.certificate
        modelled, opaque = (sum(d.values()) for d in (result.coverage.modelled, result.coverage.opaque))
        timing = compare(joined(clean(model).apart), result.graph, seconds=20)
        search = result.seconds["saturation"] + result.seconds["snapshot"] + result.seconds["extraction"]
        print(
            f"| {name} | {modelled} of {modelled + opaque} | {result.e_nodes} | {search:.2f} "
            f"| {result.cost_before / 1000:.2f} → {result.cost_after / 1000:.2f} "
            f"| {timing.before / 1000:.2f} → {timing.after / 1000:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
