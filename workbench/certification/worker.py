"""The process that runs models of unknown origin: if it hangs, grows or crashes, its parent survives.

Run as ``python -m workbench.certification.worker MEMORY_BYTES``.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping, Sequence
from typing import IO, Any

import numpy as np

from workbench.support.messages import one_line
from workbench.support.processes import limit_memory, receive, send, served


def _load(content: bytes, folder: str | None) -> Any:
    import onnxruntime as ort
    from onnx import ModelProto

    from workbench.frontends.runtime import FOLDER, read_in_place, session_options

    model = ModelProto.FromString(content)
    read_in_place(model)
    options = session_options(threads=1, optimise=False, prepack=False, arena=False)
    if folder is not None:
        options.add_session_config_entry(FOLDER, folder)
    return ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"], enable_fallback=0
    )


def _run(session: Any, feeds: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    from workbench.frontends.runtime import run_session

    outputs = [o.name for o in session.get_outputs()]
    tensors = all(o.type.startswith("tensor") for o in (*session.get_inputs(), *session.get_outputs()))
    if tensors:
        found: Mapping[str, Any] = run_session(session, feeds)
    else:
        wanted = {i.name: feeds[i.name] for i in session.get_inputs()}
        found = dict(zip(outputs, session.run(None, wanted), strict=True))
    return {name: found[name] for name in names}


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Answer requests until the parent closes the pipe."""
    try:
        import onnxruntime as ort
    except (ImportError, MemoryError):  # the limit is less than what the library itself needs
        send(answers, ("memory", "out of memory"))
        return
    ort.set_default_logger_severity(4)
    sessions: dict[int, Any] = {}
    send(answers, ("ok", None))
    while True:
        try:
            name, *arguments = receive(requests)
        except EOFError:
            return
        answer: Any = None
        try:
            if name == "load":
                key, content, folder = arguments
                sessions[key] = _load(content, folder)
            elif name == "drop":
                sessions.pop(arguments[0], None)
            else:
                key, feeds, names = arguments
                with np.errstate(all="ignore"):
                    answer = _run(sessions[key], feeds, names)
            send(answers, ("ok", answer))
        except BrokenPipeError:
            raise
        except MemoryError:
            send(answers, ("memory", "out of memory"))
        except Exception as error:
            text = one_line(error, None)
            kind = "memory" if "bad_alloc" in text or "Failed to allocate memory" in text else "error"
            send(answers, (kind, text))


def main() -> None:
    """Serve on the standard streams; all other output of the process goes to the standard error."""
    requests, answers = served()
    limit_memory(int(sys.argv[1]) if len(sys.argv) > 1 else None)
    with contextlib.suppress(BrokenPipeError):  # the parent no longer waits for the answer
        serve(requests, answers)


if __name__ == "__main__":
    main()
