"""Which runs of a program `tf.contrib.tfprof.ProfileContext` traces, profiles and writes to files.

Every run that begins within the context is a step, counted from 0, whichever session runs it. The
rules are TensorFlow 1.15's: steps that were asked for are traced; where none were, after the first
ten each set of fetches once, and by chance more while less than half of the graph has been seen. A
profile is written after the steps that were asked for, else after the hundredth. At most a hundred
steps are traced.

What an engine adds is how its runs are seen (`watching`), and what a profiler is (`new_profiler`).
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from stepscope.whole_files import write_whole

__all__ = ["ContextStep", "ProfileSteps"]

_WARM_UP: Final = 10
_MOST: Final = 100
_COVERED: Final = 0.5
_VIEWS: Final = {
    "scope": "profile_name_scope",
    "graph": "profile_graph",
    "op": "profile_operations",
    "code": "profile_python",
}


@dataclass(frozen=True, slots=True)
class ContextStep:
    """A run within a context, before it begins: whether it is to be traced and written after."""

    number: int
    traced: bool
    dumped: bool


class ProfileSteps:
    """What `ProfileContext` is on every engine.

    Any number of threads may run sessions within it; each run is a step of its own, and what is
    done after a step (profiling, writing) is done for one after the other. A run that fails is
    counted, and adds nothing to the profile.
    """

    def __init__(
        self,
        profile_dir: str | os.PathLike[str] = "",
        trace_steps: Sequence[int] | None = None,
        dump_steps: Sequence[int] | None = None,
        enabled: bool = True,
        debug: bool = False,
    ) -> None:
        """Traces `trace_steps` and writes a profile to the directory after each of `dump_steps`.

        Where one of them is None the context chooses. With `debug` the metadata of each traced
        step are written there as text. With `enabled=False` nothing is done at all.
        """
        self._enabled = enabled
        if enabled and not profile_dir:
            raise ValueError("profile_dir must name a directory for the profiles; it was empty")
        if trace_steps is not None and len(trace_steps) > _MOST:
            raise ValueError(
                f"trace_steps may have {_MOST} steps at most, as all traces are kept; there were "
                f"{len(trace_steps)}"
            )
        self._folder = Path(profile_dir)
        self._debug = debug
        self._chooses = trace_steps is None
        self._to_trace = set(trace_steps or ())
        self._to_dump = {_MOST} if dump_steps is None else set(dump_steps)
        self._next_is_traced = self._next_is_dumped = False
        self._auto: list[tuple[str, Mapping[str, Any], frozenset[int]]] = []
        self._views: dict[str, dict[int, Any]] = {}
        self._step = self._traced = 0
        self._seen: set[str] = set()
        self._chance = random.Random(111)
        self._profiler: Any = None
        self._lock = threading.RLock()
        self._active: AbstractContextManager[Any] | None = None

    # -- what a program calls ------------------------------------------------------------------

    def add_auto_profiling(
        self, cmd: str, options: Mapping[str, Any], profile_steps: Collection[int]
    ) -> None:
        """Trace these steps, and after each show a view: `scope`, `graph`, `op` or `code`."""
        if cmd not in _VIEWS:
            raise ValueError(f"unknown cmd: {cmd!r}; there are {', '.join(_VIEWS)}")
        if self._enabled:
            with self._lock:
                self._auto.append((cmd, options, frozenset(profile_steps)))
                self._to_trace |= set(profile_steps)

    def get_profiles(self, cmd: str) -> dict[int, Any]:
        """What `add_auto_profiling` of that view found, by step."""
        if cmd not in self._views:
            raise ValueError(
                f"no {cmd!r} profile was made: add_auto_profiling({cmd!r}, ...) asks for it, and "
                f"{self._step} steps ran within the context"
            )
        return self._views[cmd]

    def trace_next_step(self) -> None:
        """Trace the run that begins next, and add it to the profiler."""
        self._next_is_traced = self._enabled

    def dump_next_step(self) -> None:
        """Write the profile after the run that begins next."""
        self._next_is_dumped = self._enabled

    @property
    def profiler(self) -> Any:
        """The profiler that traced steps are added to; None where nothing is enabled."""
        with self._lock:
            if self._profiler is None and self._enabled:
                self._profiler = self.new_profiler()
            return self._profiler

    def __enter__(self) -> Self:
        if self._enabled:
            self._active = self.watching()
            self._active.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        active, self._active = self._active, None
        if active is not None:
            active.__exit__(kind, error, trace)

    # -- what an engine adds -------------------------------------------------------------------

    def new_profiler(self) -> Any:
        """A `Profiler` of the default graph."""
        raise NotImplementedError

    def watching(self) -> AbstractContextManager[Any]:
        """While active, `begins` is called before each run, and `ended` after what it names."""
        raise NotImplementedError

    def begins(self, fetches: Callable[[], str]) -> ContextStep | None:
        """A run begins, of what `fetches` says: what is to be done about it, None for nothing."""
        with self._lock:
            number, self._step = self._step, self._step + 1
            asked, self._next_is_traced = self._next_is_traced, False
            dumped, self._next_is_dumped = self._next_is_dumped, False
            traced = self._is_traced(number, fetches, asked=asked)
            self._traced += traced
            dumped = dumped or number in self._to_dump
            return ContextStep(number, traced, dumped) if traced or dumped else None

    def _is_traced(self, number: int, fetches: Callable[[], str], *, asked: bool) -> bool:
        if self._traced > _MOST:
            return False
        if asked or number in self._to_trace:
            return True
        if not self._chooses or number <= _WARM_UP:
            return False
        what = fetches()
        if what not in self._seen:
            self._seen.add(what)
            return True
        return bool(
            self.profiler._coverage < _COVERED
            and number < _MOST
            and self._chance.randint(0, 10) < 2
        )

    def ended(self, step: ContextStep, graph: Any, metadata: Any) -> None:
        """A run ended well that was to be traced (`metadata` of it), written, or both."""
        with self._lock:
            profiler = self.profiler
            if step.traced:
                if self._debug:
                    self._write(f"run_meta_{step.number}", f"{metadata}".encode())
                profiler._graph = graph
                profiler.add_step(step.number, metadata)
            if step.dumped:
                self._write(f"profile_{step.number}", profiler.serialize_to_string())
            for cmd, options, steps in self._auto:
                if step.number in steps:
                    found = getattr(profiler, _VIEWS[cmd])(options)
                    self._views.setdefault(cmd, {})[step.number] = found

    def _write(self, name: str, data: bytes) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        write_whole(self._folder / name, [data])
