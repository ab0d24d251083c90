"""`Supervisor`: what ran a training program before there were monitored sessions.

Guarantees. The graph is final once a supervisor is made. `managed_session` starts input threads
and, with a `logdir`, three threads beside the program: one writes the summaries every
`save_summaries_secs`, one the speed in steps per second, one a checkpoint every `save_model_secs`
(each at once, too). Leaving the block asks them all to stop, waits for them, closes the writer and
the session, and raises the first error of any of them; the end of the input is none.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final

from stepscope._messages import MetaGraphDef, SessionLog, Summary
from stepscope.export import FileWriter
from stepscope.graph import Graph, GraphKeys, get_default_graph
from stepscope.graph.dtypes import int32, int64
from stepscope.layers.global_steps import global_step as step_now
from stepscope.ops.flow import ordering
from stepscope.ops.io.summaries import merge_all
from stepscope.ops.state import variable_collections as variables
from stepscope.programs import log
from stepscope.programs.coordinator import Coordinator, LooperThread
from stepscope.programs.saving.meta_graphs import write_graph
from stepscope.programs.saving.saver import Saver
from stepscope.programs.session_manager import SessionManager

_DEFAULT: Final = 0


class Supervisor:
    """Makes sessions, saves checkpoints and summaries, and stops threads.

    `saver=None`, `summary_op=None` or `summary_writer=None` turn off what it would do with them.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default():
    ...     w = tf.Variable(2.0)
    ...     step = w.assign_add(1.0)
    ...     supervisor = tf.train.Supervisor()
    ...     with supervisor.managed_session() as session:
    ...         while not supervisor.should_stop():
    ...             if session.run(step) == 5.0:
    ...                 supervisor.request_stop()
    ...         print(session.run(w))
    5.0
    """

    USE_DEFAULT = _DEFAULT

    def __init__(
        self,
        graph: Graph | None = None,
        ready_op: Any = _DEFAULT,
        ready_for_local_init_op: Any = _DEFAULT,
        is_chief: bool = True,
        init_op: Any = _DEFAULT,
        init_feed_dict: Mapping[Any, Any] | None = None,
        local_init_op: Any = _DEFAULT,
        logdir: str | os.PathLike[str] | None = None,
        summary_op: Any = _DEFAULT,
        saver: Any = _DEFAULT,
        global_step: Any = _DEFAULT,
        save_summaries_secs: float = 120,
        save_model_secs: float = 600,
        recovery_wait_secs: float = 30,
        stop_grace_secs: float = 120,
        checkpoint_basename: str = "model.ckpt",
        session_manager: SessionManager | None = None,
        summary_writer: Any = _DEFAULT,
        init_fn: Callable[[Any], None] | None = None,
        local_init_run_options: Any = None,
    ) -> None:
        """`init_fn(session)` is called after `init_op` has run; both only without a checkpoint."""
        self._graph = graph or get_default_graph()
        with self._graph.as_default():
            self.ready_op = _chosen(
                ready_op, GraphKeys.READY_OP, variables.report_uninitialized_variables
            )
            self.ready_for_local_init_op = _chosen(
                ready_for_local_init_op, GraphKeys.READY_FOR_LOCAL_INIT_OP, lambda: None
            )
            self.init_op = _chosen(
                init_op, GraphKeys.INIT_OP, variables.global_variables_initializer
            )
            self.local_init_op = _chosen(local_init_op, GraphKeys.LOCAL_INIT_OP, _local_init)
            self.saver = _chosen(saver, GraphKeys.SAVERS, _saver)
            self.summary_op = _chosen(summary_op, GraphKeys.SUMMARY_OP, merge_all)
            self.global_step = _chosen(global_step, GraphKeys.GLOBAL_STEP, _step_by_name)
        self.is_chief = is_chief
        self.init_feed_dict = init_feed_dict
        self.coord = Coordinator()
        self._stop_grace_secs, self._init_fn = stop_grace_secs, init_fn
        self._logdir = os.fspath(logdir) if logdir and is_chief else None
        self.save_path = str(Path(self._logdir) / checkpoint_basename) if self._logdir else None
        self.save_summaries_secs = save_summaries_secs if is_chief else None
        self.save_model_secs = save_model_secs if is_chief else None
        self.summary_writer: Any = self._writer(summary_writer) if is_chief else None
        self._graph_written = False
        self.session_manager = session_manager or SessionManager(
            local_init_op=self.local_init_op,
            ready_op=self.ready_op,
            ready_for_local_init_op=self.ready_for_local_init_op,
            graph=self._graph,
            recovery_wait_secs=recovery_wait_secs,
            local_init_run_options=local_init_run_options,
        )
        self._graph.finalize()

    def _writer(self, given: Any) -> Any:
        if given is not _DEFAULT:
            return given
        return FileWriter(self._logdir) if self._logdir else None

    # -- sessions ------------------------------------------------------------------------------

    @contextmanager
    def managed_session(
        self,
        master: str = "",
        config: Any = None,
        start_standard_services: bool = True,
        close_summary_writer: bool = True,
    ) -> Iterator[Any]:
        """A block with a session that is ready; leaving it stops everything."""
        session = None
        try:
            session = self.prepare_or_wait_for_session(
                master, config, start_standard_services=start_standard_services
            )
            yield session
        except Exception as error:  # noqa: BLE001 - `stop` raises it
            self.request_stop(error)
        finally:
            try:
                self.stop(close_summary_writer=close_summary_writer)
            finally:
                if session is not None:
                    session.close()

    def prepare_or_wait_for_session(
        self,
        master: str = "",
        config: Any = None,
        wait_for_checkpoint: bool = False,
        max_wait_secs: float = 7200,
        start_standard_services: bool = True,
    ) -> Any:
        """A session that is ready, with its threads started; end with `stop`."""
        self.coord.clear_stop()
        if self.summary_writer is not None:
            self.summary_writer.reopen()
        if not self.is_chief:
            session = self.session_manager.wait_for_session(master, config, max_wait_secs)
        else:
            session = self.session_manager.prepare_session(
                master, init_op=self.init_op, saver=self.saver, checkpoint_dir=self._logdir,
                wait_for_checkpoint=wait_for_checkpoint, max_wait_secs=max_wait_secs,
                config=config, init_feed_dict=self.init_feed_dict, init_fn=self._init_fn,
            )  # fmt: skip
            self._write_graph()
            if start_standard_services:
                log.info("Starting standard services.")
                self.start_standard_services(session)
        if start_standard_services:
            log.info("Starting queue runners.")
            self.start_queue_runners(session)
        return session

    def start_standard_services(self, sess: Any) -> list[threading.Thread] | None:
        """Start the threads that save; None without a `logdir`."""
        if not self.is_chief:
            raise RuntimeError(
                "Only chief supervisor can start standard services. Because only chief supervisors "
                "can write events."
            )
        if not self._logdir:
            log.warning("Standard services need a 'logdir' passed to the SessionManager")
            return None
        writer, step = self.summary_writer, self.global_step
        if step is not None and writer is not None:
            writer.add_session_log(SessionLog(status=SessionLog.START), step_now(sess, step))
        threads: list[LooperThread] = []
        if self.save_summaries_secs and writer is not None:
            if self.summary_op is not None:
                threads.append(_SummaryThread(self, sess))
            if step is not None:
                threads.append(_StepCounterThread(self, sess))
        if self.saver is not None and self.save_model_secs:
            threads.append(_CheckpointThread(self, sess))
        for thread in threads:
            thread.start()
        return list(threads)

    def start_queue_runners(
        self, sess: Any, queue_runners: Iterable[Any] | None = None
    ) -> list[threading.Thread]:
        """Start the threads of the graph's queue runners, or of those given."""
        if queue_runners is None:
            queue_runners = self._graph.get_collection(GraphKeys.QUEUE_RUNNERS)
        return [
            thread
            for runner in queue_runners
            for thread in runner.create_threads(sess, coord=self.coord, daemon=True, start=True)
        ]

    def loop(
        self,
        timer_interval_secs: float | None,
        target: Callable[..., Any],
        args: Sequence[Any] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> LooperThread:
        """A thread that calls `target` every so many seconds until the supervisor stops."""
        return LooperThread.loop(self.coord, timer_interval_secs, target, args, kwargs)

    def summary_computed(self, sess: Any, summary: Any, global_step: int | None = None) -> None:
        """Write a summary that was fetched, under the count of steps as it is."""
        if self.summary_writer is None:
            raise RuntimeError("Writing a summary requires a summary writer.")
        if global_step is None and self.global_step is not None:
            global_step = step_now(sess, self.global_step)
        self.summary_writer.add_summary(summary, global_step)

    # -- stopping ------------------------------------------------------------------------------

    def stop(
        self,
        threads: Iterable[threading.Thread] | None = None,
        close_summary_writer: bool = True,
        ignore_live_threads: bool = False,
    ) -> None:
        """Ask all threads to stop and wait for them; raises what one of them reported."""
        self.coord.request_stop()
        try:
            self.coord.join(threads, self._stop_grace_secs, ignore_live_threads)
        finally:
            if close_summary_writer and self.summary_writer is not None:
                self.summary_writer.add_session_log(SessionLog(status=SessionLog.STOP))
                self.summary_writer.close()
                self._graph_written = False

    def request_stop(self, ex: Any = None) -> None:
        """Ask all threads to stop, because of an error if one is given."""
        self.coord.request_stop(ex)

    def should_stop(self) -> bool:
        """Whether somebody asked to."""
        return self.coord.should_stop()

    def stop_on_exception(self) -> AbstractContextManager[None]:
        """A block whose error stops all threads."""
        return self.coord.stop_on_exception()

    def wait_for_stop(self) -> None:
        """Wait until somebody asks to stop."""
        self.coord.wait_for_stop()

    # Their names before there were others.
    PrepareSession = prepare_or_wait_for_session
    StartQueueRunners = start_queue_runners
    StartStandardServices = start_standard_services
    Stop = stop
    RequestStop = request_stop
    Loop = loop
    ShouldStop = should_stop
    StopOnException = stop_on_exception
    WaitForStop = wait_for_stop
    SummaryComputed = summary_computed

    def _write_graph(self) -> None:
        if self._logdir:
            write_graph(self._graph.as_graph_def(add_shapes=True), self._logdir, "graph.pbtxt")
        if self.summary_writer is not None and not self._graph_written:
            self.summary_writer.add_graph(self._graph)
            described = MetaGraphDef(graph_def=self._graph.as_graph_def(add_shapes=True))
            self.summary_writer.add_meta_graph(described)
            self._graph_written = True


class _SummaryThread(LooperThread):
    """Writes the summaries, again and again."""

    def __init__(self, supervisor: Supervisor, session: Any) -> None:
        super().__init__(supervisor.coord, supervisor.save_summaries_secs)
        self._supervisor, self._session = supervisor, session

    def run_loop(self) -> None:
        supervisor, step = self._supervisor, None
        if supervisor.global_step is None:
            summary = self._session.run(supervisor.summary_op)
        else:
            fetches = [supervisor.summary_op, supervisor.global_step]
            summary, step = self._session.run(fetches)
        log.info("Recording summary at step %s.", step)
        supervisor.summary_writer.add_summary(summary, step)


class _StepCounterThread(LooperThread):
    """Writes how many steps a second there were since the last time."""

    def __init__(self, supervisor: Supervisor, session: Any) -> None:
        super().__init__(supervisor.coord, supervisor.save_summaries_secs)
        self._supervisor, self._session = supervisor, session
        self._tag = f"{supervisor.global_step.op.name}/sec"

    def start_loop(self) -> None:
        self._then = time.monotonic()
        self._step = step_now(self._session, self._supervisor.global_step)

    def run_loop(self) -> None:
        step, now = step_now(self._session, self._supervisor.global_step), time.monotonic()
        done, took = step - self._step, now - self._then
        self._step, self._then = step, now
        speed = done / took if took > 0 else float("inf")
        summary = Summary()
        summary.value.add(tag=self._tag, simple_value=speed)
        self._supervisor.summary_writer.add_summary(summary, step)
        log.info("%s: %g", self._tag, speed)


class _CheckpointThread(LooperThread):
    """Saves the variables, again and again."""

    def __init__(self, supervisor: Supervisor, session: Any) -> None:
        super().__init__(supervisor.coord, supervisor.save_model_secs)
        self._supervisor, self._session = supervisor, session

    def run_loop(self) -> None:
        supervisor, step = self._supervisor, self._supervisor.global_step
        log.info("Saving checkpoint to path %s", supervisor.save_path)
        supervisor.saver.save(self._session, supervisor.save_path, global_step=step)
        if supervisor.summary_writer is not None and step is not None:
            entry = SessionLog(status=SessionLog.CHECKPOINT, checkpoint_path=supervisor.save_path)
            supervisor.summary_writer.add_session_log(entry, step_now(self._session, step))


def _chosen(given: Any, key: str, make: Callable[[], Any]) -> Any:
    """What was given; else the first of the graph's collection; else one that is made for it."""
    if given is not _DEFAULT:
        return given
    graph = get_default_graph()
    found = graph.get_collection(key)
    if found:
        return found[0]
    made = make()
    if made is not None:
        graph.add_to_collection(key, made)
    return made


def _local_init() -> Any:
    return ordering.group(variables.local_variables_initializer())


def _saver() -> Saver | None:
    return Saver() if variables.global_variables() else None


def _step_by_name() -> Any:
    try:
        found = get_default_graph().get_tensor_by_name("global_step:0")
    except KeyError:
        return None
    return found if found.dtype.base_dtype in (int32, int64) else None
