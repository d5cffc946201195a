"""The engine's process: reads requests from a pipe, answers on another, holds one engine.

Run as ``python -m workbench.saturation.worker MEMORY_BYTES``.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from typing import IO

# One thread, set before the engine is imported: with more, results differ from run to run.
os.environ["RAYON_NUM_THREADS"] = "1"

from workbench.frames import limit_memory, receive, send


def serve(requests: IO[bytes], answers: IO[bytes], memory: int | None = None) -> None:
    """Answer requests until the parent closes the pipe."""
    from workbench.saturation.engine import Engine

    engine: Engine | None = None
    send(answers, ("ready", None))
    while True:
        try:
            name, argument = receive(requests)
        except EOFError:
            return
        try:
            if name == "begin":
                engine = Engine(argument)
                send(answers, ("ok", (engine.e_nodes, engine.e_classes, len(engine.rules))))
            elif name == "snapshot":
                assert engine is not None
                # The limit is on what the e-graph needs; reading it out comes on top.
                limit_memory(None)
                send(answers, ("ok", engine.columns()))
                limit_memory(memory)
            elif name == "classes":
                assert engine is not None
                send(answers, ("ok", engine.classes()))
            else:
                assert engine is not None
                send(answers, ("ok", engine.iterate(argument)))
        except MemoryError:
            send(answers, ("memory", "the engine ran out of memory"))
        except Exception as error:  # every failure goes to the parent, which raises it there
            send(answers, ("error", error))


def main() -> None:
    """Serve on the standard streams; whatever else prints goes to the standard error."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What the process makes is without reference cycles, and a collection in the middle of an
    # iteration takes longer than a small one.
    gc.disable()
    memory = int(sys.argv[1]) if len(sys.argv) > 1 else None
    limit_memory(memory)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    serve(sys.stdin.buffer, answers, memory)


if __name__ == "__main__":
    main()
