"""A separate process that runs models of unknown origin: if it hangs, grows or crashes, its parent survives.

The process is this module: ``python -m workbench.certification.runner MEMORY_BYTES``.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, NoReturn

import numpy as np
from onnx import ModelProto

from workbench.frontends.onnx.prepare import read_in_place
from workbench.frontends.runtime import FOLDER, RuntimeFailure, run_session, session_options
from workbench.support.deadline import OutOfTime
from workbench.support.messages import one_line
from workbench.support.processes import Child, limit_memory, out_of_memory, receive, send, served

#: The prefixes of ONNX Runtime's messages that carry no information.
_NOISE: Final = re.compile(
    r"\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : |Load model from .*? failed:|Error in execution: "
)
#: Messages longer than this are truncated.
_LONGEST: Final = 300


@dataclass(slots=True, eq=False)
class Loaded:
    """A model that the process has loaded (``there``), or will load before its next run."""

    key: int
    content: bytes
    folder: Path | None
    outputs: tuple[str, ...]
    there: bool = False


class Runner:
    """The owner of the process; it starts a new process after a run that had to be killed.

    ``seconds`` is the time limit of one run, ``memory`` the limit of the process in bytes. After ``deadline``
    (in ``time.monotonic`` seconds) nothing is run any more.
    """

    def __init__(self, *, seconds: float, memory: int, deadline: float = float("inf")) -> None:
        self.seconds, self.memory, self.deadline = seconds, memory, deadline
        self._process: Child | None = None
        self._loaded: list[Loaded] = []
        self._count = 0

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def load(self, model: ModelProto, folder: Path | None = None) -> Loaded:
        """Load a model; raise :class:`RuntimeFailure` if ONNX Runtime refuses it."""
        self._count += 1
        names = tuple(o.name for o in model.graph.output)
        loaded = Loaded(self._count, model.SerializeToString(), folder, names)
        self._ensure(loaded)
        self._loaded.append(loaded)
        return loaded

    def drop(self, loaded: Loaded) -> None:
        """Release a model that will not be run again."""
        if loaded in self._loaded:
            self._loaded.remove(loaded)
            if loaded.there and self._process is not None:
                self._call("drop", loaded.key)

    def run(
        self, loaded: Loaded, feeds: Mapping[str, Any], names: Sequence[str] | None = None
    ) -> dict[str, Any]:
        """Run a model; return its outputs, or those of ``names``; raise RuntimeFailure, or OutOfTime if time is up."""
        self._ensure(loaded)
        return self._call("run", loaded.key, dict(feeds), list(names or loaded.outputs))

    def once(
        self,
        model: ModelProto,
        folder: Path | None,
        feeds: Mapping[str, Any],
        names: Sequence[str] | None = None,
    ) -> dict[str, Any]:
        """Load a model, run it and release it; return its outputs by name, as :meth:`run`.

        Args:
            model: The model.
            folder: The folder of its external data, if it has any.
            feeds: The inputs by name.
            names: The outputs to return; by default all.
        """
        loaded = self.load(model, folder)
        try:
            return self.run(loaded, feeds, names)
        finally:
            self.drop(loaded)

    def kill(self) -> None:
        """Kill the process at once; the next call starts another one."""
        process, self._process = self._process, None
        for loaded in self._loaded:
            loaded.there = False
        if process is not None:
            process.kill()

    def _ensure(self, loaded: Loaded) -> None:
        if self._process is None:
            self._process = Child("workbench.certification.runner", str(self.memory))
            self._answer(60.0)
        if not loaded.there:
            folder = None if loaded.folder is None else str(loaded.folder.resolve())
            self._call("load", loaded.key, loaded.content, folder)
            loaded.there = True

    def _call(self, *message: Any) -> Any:
        assert self._process is not None
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise OutOfTime("the time for the comparison is up")
        try:
            self._process.send(message)
        except BrokenPipeError:
            self._lost()
        except BaseException:
            self.kill()
            raise
        return self._answer(min(self.seconds, left))

    def _answer(self, seconds: float) -> Any:
        assert self._process is not None
        try:
            if not self._process.answered(seconds):
                self.kill()
                if time.monotonic() >= self.deadline:
                    raise OutOfTime("the time for the comparison is up")
                raise RuntimeFailure(f"did not finish within {self.seconds:g} s", late=True)
            kind, value = self._process.receive()
        except EOFError:
            self._lost()
        except BaseException:
            self.kill()
            raise
        if kind == "memory":
            self._exhausted()
        if kind == "error":
            raise RuntimeFailure(plain(value))
        return value

    def _lost(self) -> NoReturn:
        code = self._process.wait() if self._process is not None else None
        if not out_of_memory(code):
            self.kill()
            raise RuntimeFailure(f"ended the process that ran it (exit code {code})")
        self._exhausted()

    def _exhausted(self) -> NoReturn:
        self.kill()
        raise RuntimeFailure(f"needs more than the {self.memory / 2**30:.1f} GiB of memory it may use")


def plain(text: str) -> str:
    """Return ONNX Runtime's message without its uninformative prefixes, as one line of bounded length."""
    text = " ".join(_NOISE.sub("", text.removeprefix("ONNX Runtime failed: ")).split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def machine_memory() -> int:
    """Return three quarters of this machine's memory in bytes, the default limit of the process."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4 * 3
    except (ValueError, OSError, AttributeError):
        return 8 << 30


# -- in the process -----------------------------------------------------------------------------------
def _load(content: bytes, folder: str | None) -> Any:
    import onnxruntime as ort

    model = ModelProto.FromString(content)
    read_in_place(model)
    options = session_options(threads=1, optimise=False, prepack=False, arena=False)
    if folder is not None:
        options.add_session_config_entry(FOLDER, folder)
    return ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"], enable_fallback=0
    )


def _run(session: Any, feeds: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    inputs, outputs = session.get_inputs(), session.get_outputs()
    if all(value.type.startswith("tensor") for value in (*inputs, *outputs)):
        found: Mapping[str, Any] = run_session(session, feeds)
    else:
        given = session.run(None, {i.name: feeds[i.name] for i in inputs})
        found = {output.name: value for output, value in zip(outputs, given, strict=True)}
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
