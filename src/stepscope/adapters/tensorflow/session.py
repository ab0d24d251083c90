"""`Session`: TensorFlow's own session, under the contract.

Guarantees. Without options and metadata it is TensorFlow's session, untouched. Traced runs are seen
through the profiler, which disturbs them little; where the program profiles itself, through
TensorFlow's own step stats. With a deadline the run goes to a thread of its own, so that control
comes back in time whatever the ops do; a run that is left behind is named and ends by itself.
"""

from __future__ import annotations

import itertools
import re
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import tensorflow

from stepscope import options as opts
from stepscope.adapters.tensorflow.capture import LOCAL_CPU, Capture
from stepscope.adapters.tensorflow.failures import (
    both_classes,
    in_flight_unknown,
    new_error,
    nodes_missing,
    status_of,
)
from stepscope.adapters.tensorflow.function import raise_with
from stepscope.adapters.tensorflow.graphs import NodeInfo, nodes_of, sources_of
from stepscope.adapters.tensorflow.support import SESSION, check, check_watches, without_effect
from stepscope.metadata import (
    Completeness,
    InFlight,
    Loss,
    Placement,
    Recording,
    RunMetadata,
    Status,
    as_run_metadata_target,
)

_GRACE_S: Final = 0.03
"""How long after the deadline TensorFlow may take to cancel what it can."""
_NEVER_TIMED: Final = frozenset({"Const", "Placeholder", "_Arg", "VarHandleOp", "FIFOQueueV2"})
_FOLDED: Final = re.compile(r"/_\d+__cf__\d+$")
"""What the runtime adds to the name of a node that it replaced by its value."""
_step_ids = itertools.count(1)
v1 = tensorflow.compat.v1
_STOPPED: Final = (tensorflow.errors.DeadlineExceededError, tensorflow.errors.CancelledError)
"""How a run ends that was stopped from outside."""


class Session(v1.Session):  # type: ignore[misc, name-defined]
    """A `tf.compat.v1.Session` whose `run` takes our options and metadata, or TensorFlow's own."""

    def __init__(self, target: str = "", graph: Any = None, config: Any = None) -> None:
        self._session = None  # where the configuration is refused, there is none to be deleted
        if config is not None and not isinstance(config, v1.ConfigProto):
            config = v1.ConfigProto.FromString(opts.as_config(config).SerializeToString())
        super().__init__(target, graph=graph, config=config)
        self._stepscope_nodes: dict[Any, list[Any]] = {}
        self._stepscope_config = config if config is not None else v1.ConfigProto()
        self._stepscope_waiting: set[threading.Event] = set()
        self._stepscope_closed = False
        self._stepscope_threads: weakref.WeakSet[threading.Thread] = weakref.WeakSet()

    def run(
        self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None
    ) -> Any:
        """As TensorFlow's, with options and metadata under the contract."""
        plain = options is None and run_metadata is None
        if plain and not self._stepscope_config.operation_timeout_in_ms:
            return self._plain_run(fetches, feed_dict)
        asked = opts.as_run_options(options)
        resolved = asked.resolve() if asked is not None else opts.DEFAULT_RESOLVED
        check(resolved, SESSION)
        target = as_run_metadata_target(run_metadata)
        run = _SessionRun(self, fetches, feed_dict, asked, resolved)
        try:
            result = run.execute()
        except BaseException as error:  # noqa: BLE001 - raised again
            both_classes(error)
            raise_with(error, target.deliver(run.recording(error)))
        if target.asked_for:
            target.deliver(run.recording(None))
        return result

    def _plain_run(self, fetches: Any, feed_dict: Any) -> Any:
        """TensorFlow's own run, whose errors are ours as well and say how it ended."""
        try:
            return super().run(fetches, feed_dict)
        except (tensorflow.errors.OpError, KeyboardInterrupt) as error:
            both_classes(error)
            run = _SessionRun(self, fetches, feed_dict, None, opts.DEFAULT_RESOLVED)
            metadata = RunMetadata()
            metadata.record(run.recording(error))
            raise_with(error, metadata)

    def close(self) -> None:
        """As TensorFlow's; runs with a deadline give up what they are doing.

        TensorFlow waits for ops that cannot be cancelled. Where such a run was left to itself, or
        is now, that is done on another thread.
        """
        self._stepscope_closed = True
        if not any(thread.is_alive() for thread in self._stepscope_threads):
            super().close()
            return
        closing = threading.Thread(target=super().close, name="stepscope/close", daemon=True)
        closing.start()
        closing.join(_GRACE_S)
        for waiting in list(self._stepscope_waiting):
            waiting.set()

    def native_run(self, *args: Any, **kwargs: Any) -> Any:
        """TensorFlow's own `run`."""
        return super().run(*args, **kwargs)

    def make_callable(
        self, fetches: Any, feed_list: Sequence[Any] | None = None, accept_options: bool = False
    ) -> Callable[..., Any]:
        """As TensorFlow's; with `accept_options` it takes ours as well."""
        if not accept_options:
            function: Callable[..., Any] = super().make_callable(fetches, feed_list)
            return function
        feeds = list(feed_list or ())

        def call(*args: Any, options: Any = None, run_metadata: Any = None) -> Any:
            if len(args) != len(feeds):
                raise TypeError(f"This callable takes {len(feeds)} feeds, not {len(args)}.")
            given = dict(zip(feeds, args, strict=True))
            return self.run(fetches, given, options=options, run_metadata=run_metadata)

        return call


class _SessionRun:
    """One run with options."""

    def __init__(
        self,
        session: Session,
        fetches: Any,
        feed_dict: Any,
        asked: opts.RunOptions | None,
        resolved: opts.ResolvedRunOptions,
    ) -> None:
        self._session = session
        self._fetches = fetches
        self._feed_dict = feed_dict
        self._asked = asked
        self._options = resolved
        self._step_id = next(_step_ids)
        self._capture = Capture(resolved.trace_level)
        self._native = v1.RunMetadata()
        self._outcomes: tuple[InFlight, ...] = ()
        self._key = _signature(fetches, feed_dict)
        self._deadline_epoch = 0
        configured = _config_of(session).operation_timeout_in_ms
        self._timeout_ms = resolved.timeout_in_ms or configured

    # -- executing -----------------------------------------------------------------------------

    def execute(self) -> Any:
        check_watches(self._options.debug_options, self._session.graph)
        timeout_ms = self._timeout_ms
        self._deadline_epoch = time.time_ns() + timeout_ms * 1_000_000
        if timeout_ms > 0 and self._options.inter_op_thread_pool != -1:
            return self._execute_elsewhere(timeout_ms / 1000)
        try:
            result = self._execute()
        except _STOPPED:
            self._outcomes = self._at_deadline()
            raise
        if 0 < timeout_ms * 1_000_000 < self._capture.ended - self._capture.started:
            self._outcomes = self._at_deadline()
            raise self._timed_out()
        return result

    def _execute(self) -> Any:
        with self._capture as capture:
            options = self._native_options(capture)
            return self._session.native_run(
                self._fetches, self._feed_dict, options=options, run_metadata=self._native
            )

    def _native_options(self, capture: Capture) -> Any:
        """TensorFlow's options for this run: tracing is ours unless the profiler is taken."""
        asked = self._asked
        data = asked.SerializeToString() if asked is not None else b""
        options = v1.RunOptions.FromString(data)
        options.trace_level = 0
        if self._options.trace_level:
            if capture.batch is None:
                options.trace_level = v1.RunOptions.SOFTWARE_TRACE
                capture.losses.clear()
            if self._key not in self._session._stepscope_nodes:
                options.output_partition_graphs = True
        return options

    def _execute_elsewhere(self, timeout_s: float) -> Any:
        """On a thread of its own, given up on soon after the deadline, or when it is closed."""
        box: list[Any] = []
        graph = v1.get_default_graph()
        over = threading.Event()

        def work() -> None:
            try:
                with graph.as_default():
                    box.append((self._execute(), None))
            except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
                box.append((None, error))
            over.set()

        session = self._session
        session._stepscope_waiting.add(over)
        try:
            thread = threading.Thread(target=work, name="stepscope/session_run", daemon=True)
            session._stepscope_threads.add(thread)
            thread.start()
            over.wait(timeout_s + _GRACE_S)
            if not box and session._stepscope_closed:
                over.clear()
                over.wait(_GRACE_S)  # what can be cancelled ends now
        except BaseException:  # an interrupt: the run goes on without us
            self._give_up()
            raise
        finally:
            session._stepscope_waiting.discard(over)
        if not box:
            self._give_up()
            if session._stepscope_closed:
                raise new_error("CancelledError", "The session was closed while the run was going.")
            raise self._timed_out()
        result, error = box[0]
        if error is not None:
            if isinstance(error, _STOPPED):
                self._outcomes = self._at_deadline()
            raise error
        return result

    def _give_up(self) -> None:
        """Leave the run to itself: what TensorFlow could cancel it did, the rest goes on."""
        self._capture.abandon()
        if not self._capture.level:
            return
        stopped = {row.name for row in self._capture.unfinished()}
        self._outcomes = tuple(
            InFlight(name, "cancelled" if name in stopped else "abandoned")
            for name in self._ready_but_not_done()
        )

    def _at_deadline(self) -> tuple[InFlight, ...]:
        """What the run was doing when its time was up, as far as it was traced."""
        capture = self._capture
        if not capture.level:
            return ()
        at = self._deadline_epoch
        found = {
            row.name: InFlight(row.name, "waited_for", row.end_ns - at)
            for row in capture.rows()
            if row.start_ns < at < row.end_ns
        }
        stopped = [row.name for row in capture.unfinished()]
        if not found and not stopped:
            stopped = self._ready_but_not_done()
        found |= {name: InFlight(name, "cancelled") for name in stopped}
        return tuple(found.values())

    def _timed_out(self) -> Exception:
        return new_error(
            "DeadlineExceededError",
            f"Timed out waiting for notification (timeout of {self._timeout_ms} ms)",
        )

    # -- what it was ---------------------------------------------------------------------------

    def _graphs(self) -> list[Any]:
        known = self._session._stepscope_nodes
        if len(self._native.partition_graphs):
            known[self._key] = list(self._native.partition_graphs)
        return known.get(self._key, [])

    def _nodes(self, _names: set[str]) -> Mapping[str, NodeInfo]:
        return nodes_of(self._graphs())

    def _ready_but_not_done(self) -> list[str]:
        """The nodes that had all they need and did not end: what a stopped run was doing."""
        nodes = self._nodes(set()) or self._asked_for()
        done = self._capture.done()
        done |= {_FOLDED.sub("", name) for name in done}
        done |= {name for name, info in nodes.items() if info.op in _NEVER_TIMED}
        # What a node that is done needed is done too, under whatever name it ran.
        stack = [name for name in done if name in nodes]
        while stack:
            info = nodes[stack.pop()]
            before = {n for n, _ in info.inputs}.union(info.controls) - done
            done |= before
            stack += [name for name in before if name in nodes]
        return [
            name
            for name, info in nodes.items()
            if name not in done
            and all(n in done for n, _ in info.inputs)
            and all(c in done for c in info.controls)
        ]

    def _asked_for(self) -> Mapping[str, NodeInfo]:
        """The nodes that the fetches need, from the user's own graph."""
        every = nodes_of([self._session.graph.as_graph_def()])
        needed: dict[str, NodeInfo] = {}
        stack = [name.partition(":")[0] for name in self._key[0]]
        while stack:
            name = stack.pop()
            if name in every and name not in needed:
                needed[name] = every[name]
                stack += [n for n, _ in every[name].inputs] + list(every[name].controls)
        return needed

    def recording(self, error: BaseException | None) -> Recording:
        """The run as it ended."""
        capture = self._capture
        graphs = self._graphs()
        traced = self._options.trace_level > 0
        capture.failed = error is not None
        status = status_of(error, self._outcomes)
        losses = [*capture.losses, *without_effect(self._options, _config_of(self._session))]
        if not status.ok:
            losses += self._missing(status)
        if self._options.output_partition_graphs and not graphs:
            losses.append(Loss("partition graphs", 0, "TensorFlow gives none of a run that failed"))
        native = len(self._native.step_stats.dev_stats) > 0
        asked_graphs = self._options.output_partition_graphs

        def columns() -> Any:
            if native:
                return RunMetadata.FromString(self._native.SerializeToString()).ops
            return capture.columns(self._step_id, self._nodes)

        return Recording(
            engine=SESSION,
            step_id=self._step_id,
            status=status,
            completeness=Completeness(tuple(losses)),
            overhead=capture.overhead,
            ops=columns if traced else None,
            partition_graphs=(lambda: graphs) if asked_graphs else None,
            cost_graph=(
                (lambda: self._native.cost_graph) if self._native.HasField("cost_graph") else None
            ),
            placements=self._placements if traced else None,
            sources=(lambda: sources_of(self._session.graph)) if traced else None,
            run_options=self._asked,
        )

    def _missing(self, status: Status) -> list[Loss]:
        """What a run that ended early did not come to."""
        losses = []
        if self._options.trace_level:
            executed = {row.name for row in self._capture.rows()}
            missing = (self._nodes(set()) or self._asked_for()).keys() - executed
            if missing:
                losses.append(nodes_missing(status, len(missing)))
        if not status.in_flight:
            why = "nothing named it" if self._options.trace_level else "nothing was traced"
            losses.append(in_flight_unknown(why))
        return losses

    def _placements(self) -> list[Placement]:
        requested = {op.name: op.device for op in self._session.graph.get_operations()}
        found = []
        for name, info in self._nodes(set()).items():
            if name not in requested:
                continue
            wish, device = requested[name], info.device or LOCAL_CPU
            same = not wish or v1.DeviceSpec.from_string(wish).to_string() in device
            reason = "default" if not wish else "asked for" if same else "soft placement"
            found.append(Placement(name, info.op, wish, device, reason))
        return found


def _config_of(session: Any) -> Any:
    """The configuration of our own session; TensorFlow's own sessions do not tell theirs."""
    config = getattr(session, "_stepscope_config", None)
    return config if config is not None else v1.ConfigProto()


def _signature(fetches: Any, feed_dict: Any) -> Any:
    """What tells one kind of run from another: the names fetched and fed."""
    names = tuple(str(getattr(f, "name", f)) for f in _leaves(fetches))
    feeds = tuple(sorted(str(getattr(k, "name", k)) for k in feed_dict or ()))
    return names, feeds


def _leaves(fetches: Any) -> Iterator[Any]:
    """What a fetch structure holds; its dictionaries may have keys of any kind."""
    if isinstance(fetches, Mapping):
        fetches = fetches.values()
    elif not isinstance(fetches, (list, tuple)):
        yield fetches
        return
    for item in fetches:
        yield from _leaves(item)
