"""Tensor watches: values of chosen tensors, handed to files or functions while a run executes.

Guarantees.
- Watches are checked before the run starts (`stepscope.runtime.debug.watches`), and the place for
  the dumps is written to before the run starts. Constants and fed values are published then, all
  other tensors right after the op that made them, before anything that reads them executes.
- Values handed out are copies: the engine never writes to them, and writing to them changes
  nothing.
- A dump that cannot be written fails the run: the error names the file, and carries the metadata
  of what ran until then. A function that raises does not fail the run: it is not called again
  during that run, its exception is logged, and the metadata's `completeness` counts the values it
  did not get.
- Within one run a function is called by one thread at a time. After the run has ended, whichever
  way, nothing more is published, not even by an op that was abandoned and ends later.
"""

from __future__ import annotations

import itertools
import logging
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from stepscope.graph import Operation
from stepscope.graph.dtypes import Array
from stepscope.metadata import Loss
from stepscope.runtime.debug.dump_files import DumpDirectory, clock, disk_usage
from stepscope.runtime.debug.graphs import debug_graphs
from stepscope.runtime.debug.ops import WatchedTensor, observe
from stepscope.runtime.debug.watches import FILE, MEMORY, Target, Watch, Watched, resolve_watches
from stepscope.runtime.execute.execution import RunState
from stepscope.runtime.execute.trace import clock as run_clock
from stepscope.runtime.plan.exec_graph import ExecGraph
from stepscope.runtime.plan.plan import Plan

DebugCallback = Callable[[str, int, str, Array | None], object]
"""Gets node name, output slot, debug op and value (None for an uninitialised variable)."""

_log: Final = logging.getLogger("stepscope.debug")
_callbacks: dict[str, DebugCallback] = {}
_callbacks_lock = threading.Lock()


def debug_callback(key: str, function: DebugCallback) -> Callable[[], None]:
    """Send the values of watches with the URL `memcbk://<key>` to a function of this process.

    It is called as `function(node_name, slot, debug_op, array)`; the array is its own copy, or
    None for an uninitialised variable. Returns what unregisters it (calling that twice is fine).
    A run uses the functions that were registered when it started. ValueError if the key is taken.
    """
    if not key or not isinstance(key, str):
        raise ValueError(f"A debug callback needs a key, a non-empty string, not {key!r}.")
    if not callable(function):
        raise TypeError(f"A debug callback must be a function, not {type(function).__name__}.")
    with _callbacks_lock:
        if key in _callbacks:
            raise ValueError(
                f"There is a debug callback for {MEMORY}{key} already: unregister it first, or "
                "use another key."
            )
        _callbacks[key] = function

    def unregister() -> None:
        with _callbacks_lock:
            if _callbacks.get(key) is function:
                del _callbacks[key]

    return unregister


class Debugger:
    """The watches of one run: made before it, closed after it."""

    def __init__(
        self,
        options: Any,
        plan: Plan,
        state: RunState,
        feeds: Sequence[Array] = (),
        targets: Sequence[Operation] = (),
    ) -> None:
        """Check the watches, prepare where they go, publish what is known before the run.

        `feeds` are the fed values in the order of the plan's arguments.
        """
        if options.reset_disk_byte_usage:
            disk_usage.reset()
        self.paused: dict[int, int] = {}
        """Nanoseconds that publishing took after each step: time that is not the next step's."""
        self._plan = plan
        self._closed = False
        self._losses: list[Loss] = []
        with _callbacks_lock:
            registered = dict(_callbacks)
        watches, skipped = resolve_watches(options, plan.graph, registered)
        if skipped:
            self._losses.append(
                Loss("debug ops", skipped, "could not be created, which the watch tolerates")
            )
        unheard = sum(not watch.targets for watch in watches)
        if unheard:
            self._losses.append(
                Loss("debug watches", unheard, "name no debug_urls, so that nobody gets the values")
            )
        self._callbacks = {
            key: _Callback(key, registered[key]) for key in _addresses(watches, MEMORY)
        }
        self._directories = {root: DumpDirectory(root) for root in _addresses(watches, FILE)}
        self._by_port: dict[tuple[int, int], list[Watch]] = {}
        for watch in watches:
            port = (watch.tensor.source.index, watch.tensor.source_slot)
            self._by_port.setdefault(port, []).append(watch)
        self.watched: frozenset[tuple[int, int]] = frozenset(
            port for port in self._by_port if plan.steps[port[0]].executes
        )
        """The (step, slot)s an executor has to show."""
        self._publish_run(options, watches, state, targets)
        state.watch = self._watch
        self._show_what_is_given(feeds)

    def _publish_run(
        self, options: Any, watches: Sequence[Watch], state: RunState, targets: Sequence[Operation]
    ) -> None:
        if not self._directories:
            return
        graph = self._plan.graph
        description = {
            "global_step": options.global_step,
            "session_run_index": state.step_id,
            "executor_step_index": _count_run(graph, options.SerializeToString()),
            "input_names": sorted(t.name for t in graph.feeds),
            "output_names": sorted({t.name for t in graph.fetches}),
            "target_nodes": sorted(op.name for op in targets),
        }
        graphs = debug_graphs(graph, watches)
        for directory in self._directories.values():
            directory.publish_run(graphs, description)

    def _show_what_is_given(self, feeds: Sequence[Array]) -> None:
        """Publish fed values and constants: no executor has a step for them."""
        fed = {
            node.index: value
            for node, value in zip(self._plan.graph.args.values(), feeds, strict=False)
        }
        for index, slot in sorted(self._by_port.keys() - self.watched):
            value = self._plan.steps[index].kernel.value
            self._publish(index, slot, fed[index] if value is None else value)

    # -- while the run executes ----------------------------------------------------------------

    def _watch(self, index: int, slot: int, value: Any) -> None:
        if self._closed:
            return
        began = run_clock()
        self._publish(index, slot, value)
        self.paused[index] = self.paused.get(index, 0) + run_clock() - began

    def _publish(self, index: int, slot: int, value: Any) -> None:
        step = self._plan.steps[index]
        observed = observe(value, step.node.output_dtypes[slot], step.shapes[slot])
        for watch in self._by_port[index, slot]:
            result = watch.debug_op.compute(observed)
            if result is not None:
                self._hand_out(watch, result)

    def _hand_out(self, watch: Watch, result: WatchedTensor) -> None:
        tensor, name = watch.tensor, watch.debug_op.name
        micros = clock.micros()
        for target in watch.targets:
            if target.scheme == FILE:
                self._directories[target.address].publish_tensor(
                    tensor.source.device, tensor.node, tensor.slot, name, result, micros
                )
            else:
                self._callbacks[target.address].call(tensor, name, result)

    # -- afterwards ----------------------------------------------------------------------------

    def close(self) -> None:
        """Publish nothing more."""
        self._closed = True

    @property
    def losses(self) -> list[Loss]:
        """What was asked for and not delivered."""
        return self._losses + [c.loss for c in self._callbacks.values() if c.loss is not None]


def _addresses(watches: Sequence[Watch], scheme: str) -> list[str]:
    targets: dict[Target, None] = dict.fromkeys(t for w in watches for t in w.targets)
    return [t.address for t in targets if t.scheme == scheme]


class _Callback:
    """A registered function during one run."""

    def __init__(self, key: str, function: DebugCallback) -> None:
        self._key = key
        self._function = function
        self._lock = threading.RLock()
        self._failure = ""
        self._missed = 0

    def call(self, tensor: Watched, debug_op: str, result: WatchedTensor) -> None:
        with self._lock:
            if self._failure:
                self._missed += 1
                return
            try:
                self._function(tensor.node, tensor.slot, debug_op, _copy(result))
            except Exception as error:  # noqa: BLE001 - the user's function: reported, not raised
                self._missed = 1
                self._failure = (
                    f"the callback of {MEMORY}{self._key} raised {type(error).__name__}: {error} "
                    f"at {tensor.name}:{debug_op}, and was not called again"
                )
                _log.exception("%s", self._failure)

    @property
    def loss(self) -> Loss | None:
        if not self._failure:
            return None
        return Loss(f"debug values for {MEMORY}{self._key}", self._missed, self._failure)


def _copy(result: WatchedTensor) -> Array | None:
    if result.handle:
        return np.array(result.handle.encode(), dtype=object)
    return None if result.value is None else np.array(result.value)


# -- how often each kind of run was watched --------------------------------------------------------

_run_counts: weakref.WeakKeyDictionary[ExecGraph, dict[bytes, Any]] = weakref.WeakKeyDictionary()
_run_counts_lock = threading.Lock()


def _count_run(graph: ExecGraph, options: bytes) -> int:
    """How many runs of this graph had these options before."""
    with _run_counts_lock:
        counts = _run_counts.setdefault(graph, {})
        return int(next(counts.setdefault(options, itertools.count())))
