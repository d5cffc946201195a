"""The engine's process: reads requests from a pipe, answers on another, holds engines.

Run as ``python -m workbench.saturation.worker``.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

# One thread, set before the engine is imported: with more, results differ from run to run.
os.environ["RAYON_NUM_THREADS"] = "1"

from workbench.frames import limit_memory, receive, send

if TYPE_CHECKING:
    from workbench.saturation.base import Base
    from workbench.saturation.compile import CompiledRule

#: Bases that are kept, the last run's among them.
KEPT: Final = 3
#: Bytes by which the process may have grown when it rests; beyond that it ends.
GROWN: Final = 256 << 20


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Answer requests until the parent closes the pipe, or what is kept has grown too large."""
    from workbench.saturation.base import bindings
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
            if name == "rules":  # for programs to come; it needs no answer
                sets.append(argument)
                continue
            if name == "begin":
                program, place, memory = argument
                if place is not None:
                    program = replace(program, rules=sets[place])
                limit_memory(memory)
                engine = None
                rest(bases)
                engine = Engine(program, bases)
                bases = [engine.base, *(b for b in bases if b is not engine.base)][:KEPT]
                send(answers, ("ok", (engine.e_nodes, engine.e_classes, len(engine.rules))))
                continue
            if name == "rest":
                limit_memory(None)
                engine = None
                rest(bases)
                if _size() - size > GROWN:
                    return
                send(answers, ("ok", None))
                continue
            assert engine is not None
            if name == "snapshot":
                # The limit is on what the e-graph needs; reading it out comes on top.
                limit_memory(None)
                send(answers, ("ok", engine.columns()))
                limit_memory(memory)
            elif name == "classes":
                send(answers, ("ok", engine.classes()))
            else:
                send(answers, ("ok", engine.iterate(argument)))
        except MemoryError:
            send(answers, ("memory", "the engine ran out of memory"))
        except Exception as error:  # every failure goes to the parent, which raises it there
            send(answers, ("error", error))


def rest(bases: Iterable[Base]) -> None:
    """Drop what runs have put in, and keep the rules."""
    for base in bases:
        base.rest()
    gc.collect()


def _size() -> int:
    """Return the bytes of address space that this process has, which is what is limited; 0 where unknown."""
    with contextlib.suppress(OSError, ValueError):
        return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def main() -> None:
    """Serve on the standard streams; whatever else prints goes to the standard error."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What the process makes is without reference cycles, and a collection in the middle of an
    # iteration takes longer than a small one.
    gc.disable()
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    with contextlib.suppress(BrokenPipeError):  # the parent has gone
        serve(sys.stdin.buffer, answers)


if __name__ == "__main__":
    main()
