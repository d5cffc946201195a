"""The common base of stepwise objects: iterate, run to the end, run in a thread, stop."""

from __future__ import annotations

import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

from workbench.run.display import Face
from workbench.run.trace import Step, StopReason, Trace


class Stepwise(Face, ABC):
    """An object that advances by :meth:`step` until it has a reason to stop.

    A run that was interrupted, by Ctrl-C or by :meth:`stop`, can be resumed. While it runs in a thread it
    must not be stepped elsewhere.
    """

    trace: Trace
    stop_reason: StopReason | None

    def __init__(self) -> None:
        self.stop_reason = None
        self._thread: threading.Thread | None = None
        self._halt = threading.Event()
        self._watchers: list[weakref.WeakMethod[Callable[[], None]]] = []

    @abstractmethod
    def step(self) -> Step:
        """Take one step; raise StopIteration if none is left."""

    @property
    def unfinished(self) -> bool:
        """Return whether a step is left to take."""
        return self.stop_reason in (None, StopReason.INTERRUPTED)

    def watch(self, told: Callable[[], None]) -> None:
        """Call a method after every step of a run and at its end, as long as its object lives."""
        self._watchers.append(weakref.WeakMethod(told))

    def _tell(self) -> None:
        for watcher in self._watchers:
            if (told := watcher()) is not None:
                told()

    def __iter__(self) -> Iterator[Step]:
        while self.unfinished and not self._halt.is_set():
            try:
                step = self.step()
            except StopIteration:
                return
            self._tell()
            yield step

    def drive(self, progress: Callable[[Step], None] | None = None) -> StopReason:
        """Step until there is a reason to stop, and return it; Ctrl-C stops and keeps the steps taken."""
        try:
            for step in self:
                if progress is not None:
                    progress(step)
        except KeyboardInterrupt:
            self.stop_reason = StopReason.INTERRUPTED
        finally:
            self._halt.clear()
        if self.stop_reason is None:
            self.stop_reason = StopReason.INTERRUPTED
        self._tell()
        return self.stop_reason

    def start(
        self, progress: Callable[[Step], None] | None = None, done: Callable[[], None] | None = None
    ) -> None:
        """Run in a new thread unless one is running already; :meth:`stop` ends it."""
        if self._thread is not None and self._thread.is_alive():
            return

        def run() -> None:
            try:
                self.drive(progress)
            finally:
                if done is not None:
                    done()

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()

    def stop(self, *, wait: bool = True) -> None:
        """End a run in a thread after its current step; the object stays valid and can be resumed.

        If ``wait`` is false, the step may still be running on return.
        """
        if self._thread is None or not self._thread.is_alive():
            return
        self._halt.set()
        if wait:
            self._thread.join()
