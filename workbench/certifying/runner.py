"""Run models in a process of their own, within limits on time and memory."""

from __future__ import annotations

import contextlib
import os
import re
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from onnx import ModelProto

from workbench.frames import command, environment, receive, send

#: What ONNX Runtime puts before the part of a message that says something.
_NOISE: Final = re.compile(
    r"\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : |Load model from .*? failed:|Error in execution: "
)
#: Messages longer than this are cut.
_LONGEST: Final = 300


class RunFailure(RuntimeError):
    """Raised when a model cannot be loaded or run: refused, failed, too long, or out of memory."""


class RunTimeout(RunFailure):
    """Raised when a model did not finish within its time."""


class OutOfTime(TimeoutError):
    """Raised when the time for the whole comparison is up."""


@dataclass(slots=True, eq=False)
class Loaded:
    """A model that the process has, or will have when it is run next."""

    key: int
    content: bytes
    folder: Path | None
    outputs: tuple[str, ...]
    there: bool = False


class Runner:
    """The owner of the process; it starts another one after a run that had to be ended.

    ``seconds`` is the limit on one run, ``memory`` the one on the process in bytes; after ``deadline`` (of
    ``time.monotonic``) nothing is run any more.
    """

    def __init__(self, *, seconds: float, memory: int, deadline: float = float("inf")) -> None:
        self.seconds, self.memory, self.deadline = seconds, memory, deadline
        self._process: subprocess.Popen[bytes] | None = None
        self._loaded: list[Loaded] = []
        self._count = 0

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def load(self, model: ModelProto, folder: Path | None = None) -> Loaded:
        """Load a model; raise :class:`RunFailure` when ONNX Runtime refuses it."""
        self._count += 1
        names = tuple(o.name for o in model.graph.output)
        loaded = Loaded(self._count, model.SerializeToString(), folder, names)
        self._ensure(loaded)
        self._loaded.append(loaded)
        return loaded

    def drop(self, loaded: Loaded) -> None:
        """Forget a model that is not run again."""
        if loaded in self._loaded:
            self._loaded.remove(loaded)
            if loaded.there and self._process is not None:
                self._call("drop", loaded.key)

    def run(
        self, loaded: Loaded, feeds: Mapping[str, Any], names: Sequence[str] | None = None
    ) -> dict[str, Any]:
        """Return outputs by name (``names``: some of them); raise :class:`RunFailure` when it fails.

        Raise :class:`OutOfTime` when no time is left for the comparison as a whole.
        """
        self._ensure(loaded)
        found: dict[str, Any] = self._call("run", loaded.key, dict(feeds), list(names or loaded.outputs))
        return found

    def once(
        self,
        model: ModelProto,
        folder: Path | None,
        feeds: Mapping[str, Any],
        names: Sequence[str] | None = None,
    ) -> dict[str, Any]:
        """Load a model, run it and forget it."""
        loaded = self.load(model, folder)
        try:
            return self.run(loaded, feeds, names)
        finally:
            self.drop(loaded)

    def kill(self) -> None:
        """End the process at once."""
        process, self._process = self._process, None
        for loaded in self._loaded:
            loaded.there = False
        if process is None:
            return
        with contextlib.suppress(OSError):
            process.kill()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        process.wait()

    def _ensure(self, loaded: Loaded) -> None:
        self._start()
        if not loaded.there:
            folder = None if loaded.folder is None else str(loaded.folder.resolve())
            self._call("load", loaded.key, loaded.content, folder)
            loaded.there = True

    def _start(self) -> None:
        if self._process is None:
            self._process = subprocess.Popen(
                command("workbench.certifying.worker", str(self.memory)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environment(),
                start_new_session=True,
            )
            self._answer(60.0)

    def _call(self, *message: Any) -> Any:
        assert self._process is not None
        assert self._process.stdin is not None
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise OutOfTime("the time for the comparison is up")
        try:
            send(self._process.stdin, message)
        except BrokenPipeError:
            self._lost()
        except BaseException:
            self.kill()
            raise
        return self._answer(min(self.seconds, left))

    def _answer(self, seconds: float) -> Any:
        assert self._process is not None
        stream = self._process.stdout
        assert stream is not None
        try:
            ready, _, _ = select.select([stream], [], [], seconds)
            if not ready:
                self.kill()
                if time.monotonic() >= self.deadline:
                    raise OutOfTime("the time for the comparison is up")
                raise RunTimeout(f"did not finish within {self.seconds:g} s")
            kind, value = receive(stream)
        except EOFError:
            self._lost()
        except BaseException:
            self.kill()
            raise
        if kind == "memory":
            self.kill()
            raise RunFailure(f"needs more than the {self.memory / 2**30:.1f} GiB of memory it may use")
        if kind == "error":
            raise RunFailure(plain(value))
        return value

    def _lost(self) -> None:
        process = self._process
        code = process.wait() if process is not None else None
        self.kill()
        if code in (-6, -9, 134, 137):
            raise RunFailure(f"needs more than the {self.memory / 2**30:.1f} GiB of memory it may use")
        raise RunFailure(f"ended the process that ran it (exit code {code})")


def plain(text: str) -> str:
    """Return ONNX Runtime's message without what says nothing, on one line of a bounded length."""
    text = " ".join(_NOISE.sub("", text.removeprefix("ONNX Runtime failed: ")).split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def machine_memory() -> int:
    """Return three quarters of this machine's memory in bytes, as the default limit of the process."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4 * 3
    except (ValueError, OSError, AttributeError):
        return 8 << 30
