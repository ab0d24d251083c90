"""Sessions of training loops: they initialise, start input threads, call hooks and clean up.

Guarantees. Hooks' `begin` is called while the graph can still be changed; their `end` only if the
loop ended without an error (the end of the input is none). Whatever happens, leaving the `with`
block stops and joins the input threads and closes the session. An error of an input thread is
raised when the session is closed, which leaving the block does; until then `should_stop()` is true
(of a `SingularMonitoredSession` it raises the error). Nothing can be done with a closed session:
closing it once more, at the end of its block too, is a RuntimeError.

Recovery. `AbortedError` and `UnavailableError` say that a part of a cluster went away, not that the
program is wrong. Raised by a run, by a hook, by an input thread or while a session is made, they
make a `MonitoredSession` close its session, have its creator make another (which restores the last
checkpoint) and run again what was asked for: the caller sees no error. Hooks' `begin` is not called
again, their `after_create_session` is. A `SingularMonitoredSession` raises these errors like any
other.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from stepscope.errors import (
    AbortedError,
    OutOfRangeError,
    UnavailableError,
    UnimplementedError,
)
from stepscope.graph import GraphKeys, get_default_graph
from stepscope.metadata import RunMetadata
from stepscope.options import RunOptions, as_run_options
from stepscope.programs import log
from stepscope.programs.checkpoint_hook import CheckpointSaverHook
from stepscope.programs.coordinator import Coordinator
from stepscope.programs.hooks import StepCounterHook, SummarySaverHook
from stepscope.programs.queue_runner import start_queue_runners
from stepscope.programs.run_hooks import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from stepscope.programs.scaffold import ChiefSessionCreator, Scaffold, SessionCreator

_DEFAULT: Any = object()
_PREEMPTIONS = (AbortedError, UnavailableError)


class StepContext:
    """What the function given to `run_step_fn` works with."""

    def __init__(self, session: Any, run_with_hooks: Callable[..., Any]) -> None:
        self.session = session
        self.run_with_hooks = run_with_hooks

    def request_stop(self) -> None:
        """End the loop: raises StopIteration."""
        raise StopIteration("step_fn has requested the iterations to stop.")


class MonitoredSession:
    """A session with hooks. Use it in a `with` block and run until `should_stop()`."""

    StepContext = StepContext
    starts_queue_runners = True
    _recovers = True

    def __init__(
        self,
        session_creator: SessionCreator | None = None,
        hooks: Sequence[SessionRunHook] | None = None,
        stop_grace_period_secs: float = 120,
    ) -> None:
        """Begin: hooks may add to the default graph, then it is finalized and initialised."""
        self._graph = get_default_graph()
        self._graph_was_finalized = self._graph.finalized
        self._hooks = list(hooks or ())
        self._grace = stop_grace_period_secs
        self._creator = session_creator or ChiefSessionCreator()
        self._session: Any = None
        self._closed = False
        self._stop = False
        for hook in self._hooks:
            hook.begin()
        self._open()

    @property
    def graph(self) -> Any:
        """The graph; None once the session is closed."""
        return None if self._session is None else self._session.graph

    def should_stop(self) -> bool:
        """Whether the loop is to end: a hook or an input thread asks for it, or a thread failed."""
        if self._session is None:
            return True
        try:
            self._coord.raise_requested_exception()
        except _PREEMPTIONS as error:
            self._recover(error)
            self._open()
        except Exception:
            if not self._recovers:
                raise
            return True
        return self._stop or self._coord.should_stop()

    def run(
        self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None
    ) -> Any:
        """As `Session.run`, with the hooks' fetches, feeds and options added."""
        return self._recovering(lambda: self._run(fetches, feed_dict, options, run_metadata))

    def run_step_fn(self, step_fn: Callable[..., Any]) -> Any:
        """Call `step_fn(step_context)`, which may run with and without hooks."""
        names = tuple(inspect.signature(step_fn).parameters)
        if names not in (("step_context",), ("self", "step_context")):
            raise ValueError(
                "`step_fn` may either have one `step_context` argument, or `self` and "
                f"`step_context` arguments if it's an instance method. Got {names} instead."
            )
        return self._recovering(lambda: step_fn(StepContext(self._session, self._run)))

    def close(self) -> None:
        """End the loop: hooks are told, threads stopped, the session closed.

        Raises the error of an input thread, if one failed.
        """
        self._close(failed=False)

    # -- one call ------------------------------------------------------------------------------

    def _recovering(self, call: Callable[[], Any]) -> Any:
        """What `call` returns, with as many sessions as that takes."""
        if self._closed:
            raise RuntimeError("Session is already closed.")
        while True:
            if self._session is None:
                self._open()
            try:
                return call()
            except _PREEMPTIONS as error:
                self._recover(error)

    def _run(
        self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None
    ) -> Any:
        try:
            return self._run_with_hooks(fetches, feed_dict, options, run_metadata)
        except _PREEMPTIONS:
            raise
        except Exception as error:
            # An input thread that was preempted closes its queue: this error may follow from that.
            try:
                self._coord.raise_requested_exception()
            except _PREEMPTIONS:
                raise
            except Exception:  # noqa: BLE001 - closing the session raises it
                raise error from None
            raise

    def _run_with_hooks(self, fetches: Any, feed_dict: Any, options: Any, run_metadata: Any) -> Any:
        if self._stop:
            raise RuntimeError("Run called even after should_stop requested.")
        context = SessionRunContext(SessionRunArgs(fetches, feed_dict), self._session)
        asked = [hook.before_run(context) for hook in self._hooks]
        extra = [[] if a is None or a.fetches is None else a.fetches for a in asked]
        feeds = _merged_feeds(feed_dict, asked)
        chosen = _merged_options(options, asked)
        metadata = RunMetadata() if run_metadata is None else run_metadata
        own, *others = self._session.run([fetches, *extra], feeds, chosen, metadata)
        for hook, request, found in zip(self._hooks, asked, others, strict=True):
            results = None if request is None or request.fetches is None else found
            hook.after_run(context, SessionRunValues(results, chosen, metadata))
        self._stop = self._stop or context.stop_requested
        return own

    # -- one session after the other -----------------------------------------------------------

    def _open(self) -> None:
        """Have a session made, its input threads started and the hooks told."""
        while True:
            try:
                # A later session is of the same graph, whichever is the default one then.
                with self._graph.as_default():
                    self._open_once()
                return
            except _PREEMPTIONS as error:
                self._recover(error)

    def _open_once(self) -> None:
        self._session = self._creator.create_session()
        self._coord = Coordinator(clean_stop_exception_types=())
        self._stop = False
        try:
            if self._graph.get_collection(GraphKeys.QUEUE_RUNNERS):
                start_queue_runners(self._session, self._coord)
            for hook in self._hooks:
                hook.after_create_session(self._session, self._coord)
        except BaseException:
            self._shut()
            raise

    def _recover(self, error: AbortedError | UnavailableError) -> None:
        """Leave the session that was preempted; raises the error if there shall be no other."""
        if not self._recovers:
            raise error
        log.info(
            "An error was raised. This may be due to a preemption in a connected worker or "
            "parameter server. The current session will be closed and a new session will be "
            "created. Error: %s", error
        )  # fmt: skip
        self._shut()

    def _shut(self) -> None:
        """Stop and join the threads of the session, if there is one, and close it."""
        if self._session is None:
            return
        session, self._session = self._session, None
        try:
            self._coord.request_stop()
            self._coord.join(stop_grace_period_secs=self._grace, ignore_live_threads=True)
        except _PREEMPTIONS as error:
            if not self._recovers:
                raise
            log.error("A session is closed that was preempted: %s", error)
        finally:
            session.close()

    def _close(self, failed: bool) -> None:
        try:
            if not failed:
                for hook in self._hooks:
                    hook.end(self._session)
        finally:
            if self._closed:
                raise RuntimeError("Session is already closed.")
            self._closed = True
            try:
                self._shut()
            finally:
                if not self._graph_was_finalized:
                    self._graph._unsafe_unfinalize()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        at_end = kind is not None and issubclass(kind, (OutOfRangeError, StopIteration))
        self._close(failed=kind is not None and not at_end)
        return kind is None or at_end


class SingularMonitoredSession(MonitoredSession):
    """A monitored session that takes what makes one in its own arguments, and never recovers."""

    _recovers = False

    def __init__(
        self,
        hooks: Sequence[SessionRunHook] | None = None,
        scaffold: Scaffold | None = None,
        master: str = "",
        config: Any = None,
        checkpoint_dir: Any = None,
        stop_grace_period_secs: float = 120,
        checkpoint_filename_with_path: Any = None,
    ) -> None:
        creator = ChiefSessionCreator(
            scaffold, master, config, checkpoint_dir, checkpoint_filename_with_path
        )
        super().__init__(creator, hooks, stop_grace_period_secs)

    def raw_session(self) -> Any:
        """The session below; None once closed."""
        return self._session


def MonitoredTrainingSession(
    master: str = "",
    is_chief: bool = True,
    checkpoint_dir: Any = None,
    scaffold: Scaffold | None = None,
    hooks: Sequence[SessionRunHook] | None = None,
    chief_only_hooks: Sequence[SessionRunHook] | None = None,
    save_checkpoint_secs: Any = _DEFAULT,
    save_summaries_steps: Any = _DEFAULT,
    save_summaries_secs: Any = _DEFAULT,
    config: Any = None,
    stop_grace_period_secs: float = 120,
    log_step_count_steps: int | None = 100,
    max_wait_secs: float = 7200,  # noqa: ARG001 - only a worker waits
    save_checkpoint_steps: Any = _DEFAULT,
    summary_dir: Any = None,
    save_graph_def: bool = True,
) -> MonitoredSession:
    """A monitored session that counts steps and writes summaries and checkpoints.

    It goes on from the last checkpoint of `checkpoint_dir`, and saves one there every ten minutes,
    or as often as it is told. Summaries go to `summary_dir`, or else there, too. `is_chief=False`
    is an `UnimplementedError`.
    """
    if not is_chief:
        raise UnimplementedError.without_op(
            "MonitoredTrainingSession(is_chief=False): the embedded engine runs in one process; "
            "run the workers of a cluster on TensorFlow.",
        )
    scaffold = scaffold or Scaffold()
    every_secs, every_steps = _intervals(save_summaries_secs, save_summaries_steps, None, 100)
    saved_secs, saved_steps = _intervals(save_checkpoint_secs, save_checkpoint_steps, 600, None)
    all_hooks = list(chief_only_hooks or ())
    directory = summary_dir or checkpoint_dir
    if directory:
        if log_step_count_steps:
            all_hooks.append(StepCounterHook(log_step_count_steps, output_dir=directory))
        if every_steps or every_secs:
            all_hooks.append(
                SummarySaverHook(
                    save_steps=every_steps or None,
                    save_secs=None if every_steps else every_secs,
                    output_dir=directory,
                    scaffold=scaffold,
                )
            )
    if checkpoint_dir and (saved_secs or saved_steps):
        all_hooks.append(
            CheckpointSaverHook(
                checkpoint_dir,
                save_steps=saved_steps or None,
                save_secs=saved_secs or None,
                scaffold=scaffold,
                save_graph_def=save_graph_def,
            )
        )
    creator = ChiefSessionCreator(scaffold, master, config, checkpoint_dir)
    return MonitoredSession(creator, [*all_hooks, *(hooks or ())], stop_grace_period_secs)


def _intervals(
    secs: Any, steps: Any, usual_secs: int | None, usual_steps: int | None
) -> tuple[Any, Any]:
    """How often something happens: one that is given takes the place of the usual other."""
    if secs is _DEFAULT and steps is _DEFAULT:
        return usual_secs, usual_steps
    return (None if secs is _DEFAULT else secs), (None if steps is _DEFAULT else steps)


# -- what hooks ask for ------------------------------------------------------------------------


def _merged_feeds(own: Any, asked: Sequence[SessionRunArgs | None]) -> Any:
    feeds: dict[Any, Any] = {}
    for request in asked:
        if request is not None and request.feed_dict:
            _refuse_both(feeds, request.feed_dict, "Same tensor is fed by two hooks.")
            feeds.update(request.feed_dict)
    if not feeds:
        return own
    _refuse_both(own or {}, feeds, "Same tensor is fed by a SessionRunHook and user.")
    return {**feeds, **(own or {})}


def _refuse_both(one: Mapping[Any, Any], other: Mapping[Any, Any], message: str) -> None:
    both = [key for key in other if key in one]
    if both:
        raise RuntimeError(f"{message} Conflict(s): {both}")


def _merged_options(own: Any, asked: Sequence[SessionRunArgs | None]) -> RunOptions:
    """All options in one: the larger of two numbers, either of two switches, all watches."""
    merged = RunOptions()
    for options in (own, *(request.options for request in asked if request is not None)):
        given = as_run_options(options)
        if given is None:
            continue
        before = {name: getattr(merged, name) for name in _LARGER}
        merged.MergeFrom(given)
        for name, value in before.items():
            setattr(merged, name, max(value, getattr(given, name)))
    return merged


_LARGER = (
    "trace_level", "timeout_in_ms", "inter_op_thread_pool", "output_partition_graphs",
    "report_tensor_allocations_upon_oom", "allocation_log_buffer_size",
)  # fmt: skip
