"""Measurement of a spec on this machine: ``python -m workbench.studies.devices.measure SPEC.json RESULTS.json``.

Only torch, numpy and the standard library are needed. An existing results file is continued, so a long spec
can be measured in several sessions; Ctrl-C keeps the measurements made so far. Exit codes: 0 done; 1 the
device no longer answers; 2 usage or bad input; 3 results cannot be written; 130 interrupted.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from workbench.devices.device import DeviceMissing, open_device
from workbench.studies.devices.operators import CACHES, DeviceLost, Protocol, measure_instances
from workbench.studies.devices.spec_io import Results, read_results, read_spec, write_results
from workbench.support.files import UnwritableOutput, check_writable


def _measure(given: argparse.Namespace) -> None:
    """Measure the instances of a spec and write the results, also while they grow."""
    device = open_device(given.device, tf32=given.tf32, threads=given.threads)
    spec, out, protocol = read_spec(given.spec), given.out, Protocol(given.milliseconds, given.caches)
    check_writable(out)
    results = Results(device.provenance(), protocol.record())
    if out.exists() and not given.fresh:
        earlier = read_results(out)
        if not earlier.continues(results):
            raise ValueError(
                f"{out} contains results of {earlier.device.get('device')} by {earlier.protocol} "
                "(try another file, or --fresh to replace it)"
            )
        earlier.device = results.device
        results = earlier
    began, said = time.perf_counter(), -math.inf

    def say(text: str, *, last: bool = False) -> None:
        """Print progress on stderr, at most one line per second."""
        nonlocal said
        now = time.perf_counter()
        if not given.quiet and (last or now - said > 1):
            said = now
            print(f"[{now - began:6.1f} s] {text}", file=sys.stderr, flush=True)

    keep = partial(write_results, out, results)
    measure_instances(
        spec.instances,
        device,
        results,
        protocol=protocol,
        seconds=given.seconds,
        progress=lambda done, of: say(f"{done} of {of} instances, {len(results.failures)} failed"),
        keep=keep,
    )
    # Record the clocks and the temperature of the device after it has worked.
    results.device = device.provenance()
    keep()
    counts = len(results.measured), len(results.failures), results.left
    say("{} instances measured, {} failed, {} left".format(*counts), last=True)


def command_line() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(prog="python -m workbench.studies.devices.measure", description=__doc__)
    parser.add_argument("spec", type=Path, metavar="SPEC.json")
    parser.add_argument("out", type=Path, metavar="RESULTS.json")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N (default: cpu)")
    parser.add_argument("--threads", type=int, help="threads of an operator on the CPU")
    parser.add_argument("--tf32", action="store_true", help="allow TF32 in float32 products")
    parser.add_argument("--caches", choices=CACHES, default="weights", help="caches before a run")
    parser.add_argument("--milliseconds", type=float, default=10.0, help="how long an operator is sampled")
    parser.add_argument("--seconds", type=float, default=math.inf, help="limit on measuring instances")
    parser.add_argument("--fresh", action="store_true", help="replace existing results")
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    given = command_line().parse_args(arguments)
    try:
        _measure(given)
    except KeyboardInterrupt:
        code, said = 130, f"interrupted; {given.out} keeps the measurements"
    except DeviceLost as error:
        code, said = 1, f"{error}; {given.out} keeps the measurements"
    except UnwritableOutput as error:
        code, said = 3, str(error)
    except (ValueError, OSError, DeviceMissing) as error:
        code, said = 2, str(error)
    else:
        return 0
    print(f"measure: {said}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
