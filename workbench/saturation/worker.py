"""The engine's process: it reads requests from a pipe, answers on another, and owns engines.

Run as ``python -m workbench.saturation.worker``.
"""

from __future__ import annotations

import contextlib
import gc
import os
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

# One thread, set before the engine is imported: with more, results differ from run to run.
os.environ["RAYON_NUM_THREADS"] = "1"

from workbench.support.processes import limit_memory, receive, send, served

if TYPE_CHECKING:
    from workbench.saturation.compile import CompiledRule
    from workbench.saturation.egglog_session import Base

#: Number of bases that are kept, including the last run's.
KEPT: Final = 3
#: Bytes by which the process may have grown when it rests; above that it ends.
GROWN: Final = 256 << 20


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Answer requests until the parent closes the pipe or the process has grown too large."""
    from workbench.ops.serialization import install
    from workbench.saturation.egglog_session import EngineError, bindings
    from workbench.saturation.engine import Engine

    bindings()
    engine: Engine | None = None
    bases: list[Base] = []
    sets: list[tuple[CompiledRule, ...]] = []
    memory: int | None = None
    size = _size()
    send(answers, ("ready", None))
    while True:
        try:
            name, argument = receive(requests)
        except EOFError:
            return
        try:
            if name == "operators":  # before the program that has them; needs no answer
                install(argument)
            elif name == "rules":  # for later programs; needs no answer
                sets.append(argument)
            elif name == "begin":
                program, place, memory = argument
                if place is not None:
                    program = replace(program, rules=sets[place])
                limit_memory(memory)
                engine = None
                for base in bases:
                    base.rest()
                gc.collect()
                engine = Engine(program, bases)
                bases = [engine.base, *(b for b in bases if b is not engine.base)][:KEPT]
                send(answers, ("ok", (engine.e_nodes, engine.e_classes)))
            elif name == "rest":
                limit_memory(None)
                engine = None
                for base in bases:
                    base.rest()
                gc.collect()
                if _size() - size > GROWN:
                    return
                send(answers, ("ok", None))
            elif engine is None:
                raise EngineError(f"a program must be loaded before {name}, got none")
            elif name == "snapshot":
                # The limit applies to the e-graph; reading it out needs additional memory.
                limit_memory(None)
                send(answers, ("ok", engine.columns()))
                limit_memory(memory)
            else:
                send(answers, ("ok", engine.classes() if name == "classes" else engine.iterate(argument)))
        except MemoryError:
            send(answers, ("memory", "the engine ran out of memory"))
        except Exception as error:  # the parent raises every failure again
            send(answers, ("error", error))


def _size() -> int:
    """Return the address space of this process in bytes, to which the limit applies; 0 if unknown."""
    with contextlib.suppress(OSError, ValueError):
        return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def main() -> None:
    """Serve on the standard streams; all other output is redirected to the standard error."""
    requests, answers = served()
    # The process makes no reference cycles, and a collection may take longer than a whole iteration.
    gc.disable()
    with contextlib.suppress(BrokenPipeError):  # the parent has gone
        serve(requests, answers)


if __name__ == "__main__":
    main()
