"""`QueueRunner`: threads of the program that keep a queue filled.

Guarantees. One thread per enqueue op runs it until it fails, the coordinator stops, or the queue is
closed. The last thread that ends because its input is at its end closes the queue, so that those
who take from it get the rest and then `OutOfRangeError`. Once the coordinator stops, pending
enqueues are cancelled: no thread hangs in a full queue. An error goes to the coordinator; without
one it ends its thread, and `exceptions_raised` has it.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from stepscope._messages import QueueRunnerDef
from stepscope.errors import (
    OpError,
    OutOfRangeError,
    error_code_from_exception_type,
    exception_type_from_error_code,
)
from stepscope.graph import GraphKeys, get_default_graph, get_default_session
from stepscope.programs import log
from stepscope.programs.coordinator import Coordinator
from stepscope.programs.scoped_names import in_scope, under_scope, without_scope


class QueueRunner:
    """The enqueue ops of a queue, each to be run in a thread of its own."""

    def __init__(
        self,
        queue: Any = None,
        enqueue_ops: Sequence[Any] | None = None,
        close_op: Any = None,
        cancel_op: Any = None,
        queue_closed_exception_types: tuple[type[OpError], ...] | None = None,
        queue_runner_def: Any = None,
        import_scope: str | None = None,
    ) -> None:
        """`close_op` and `cancel_op` close the queue, and are made if they are not given.

        Errors of `queue_closed_exception_types` (OutOfRangeError by default) mean the end of the
        input. With `queue_runner_def` everything comes from that message.
        """
        if queue_runner_def is not None:
            if queue is not None or enqueue_ops:
                raise ValueError("queue_runner_def and queue are mutually exclusive.")
            self._from_message(queue_runner_def, import_scope)
        else:
            self._from_arguments(queue, enqueue_ops, close_op, cancel_op)
            types = queue_closed_exception_types
            if types is not None and (
                not isinstance(types, tuple)
                or not types
                or not all(issubclass(t, OpError) for t in types)
            ):
                raise TypeError(
                    "queue_closed_exception_types, when provided, must be a tuple of tf.error "
                    f"types, but saw: {types}"
                )
            self._end_types = types or (OutOfRangeError,)
        self._lock = threading.Lock()
        self._running: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._errors: list[Exception] = []

    def _from_arguments(self, queue: Any, ops: Any, close_op: Any, cancel_op: Any) -> None:
        if queue is None or not ops:
            raise ValueError("Must provide queue and enqueue_ops.")
        self._queue = queue
        self._enqueue_ops = list(ops)
        self._close_op = queue.close() if close_op is None else close_op
        self._cancel_op = (
            queue.close(cancel_pending_enqueues=True) if cancel_op is None else cancel_op
        )

    def _from_message(self, message: Any, scope: str | None) -> None:
        element = get_default_graph().as_graph_element
        self._queue = element(under_scope(message.queue_name, scope))
        self._enqueue_ops = [element(under_scope(n, scope)) for n in message.enqueue_op_name]
        self._close_op = element(under_scope(message.close_op_name, scope))
        self._cancel_op = element(under_scope(message.cancel_op_name, scope))
        codes = message.queue_closed_exception_types
        self._end_types = tuple(map(exception_type_from_error_code, codes)) or (OutOfRangeError,)

    @property
    def queue(self) -> Any:
        return self._queue

    @property
    def enqueue_ops(self) -> list[Any]:
        return self._enqueue_ops

    @property
    def close_op(self) -> Any:
        return self._close_op

    @property
    def cancel_op(self) -> Any:
        return self._cancel_op

    @property
    def queue_closed_exception_types(self) -> tuple[type[OpError], ...]:
        return self._end_types

    @property
    def exceptions_raised(self) -> list[Exception]:
        """Errors of threads without a coordinator."""
        with self._lock:
            return list(self._errors)

    @property
    def name(self) -> str:
        """The name of the queue's node."""
        return str(self._queue.name)

    # -- threads -------------------------------------------------------------------------------

    def create_threads(
        self, sess: Any, coord: Coordinator | None = None, daemon: bool = False, start: bool = False
    ) -> list[threading.Thread]:
        """The threads: one per enqueue op, and with a coordinator one that cancels on its stop.

        None while those of an earlier call for that session still run.
        """
        with self._lock:
            if self._running.get(sess, 0) > 0:
                return []
            self._running[sess] = len(self._enqueue_ops)
            self._errors = []
        threads = [
            threading.Thread(
                target=self._fill,
                args=(sess, op, coord),
                name=f"QueueRunnerThread-{self.name}-{op.name}",
            )
            for op in self._enqueue_ops
        ]
        if coord is not None:
            name = f"QueueRunnerThread-{self.name}-close_on_stop"
            threads.append(
                threading.Thread(target=self._cancel_on_stop, args=(sess, coord), name=name)
            )
        for thread in threads:
            thread.daemon = daemon
            if coord is not None:
                coord.register_thread(thread)
            if start:
                thread.start()
        return threads

    def _fill(self, sess: Any, op: Any, coord: Coordinator | None) -> None:
        at_end = False
        try:
            enqueue = self._enqueuer(sess, op)
            while coord is None or not coord.should_stop():
                try:
                    enqueue()
                except self._end_types:
                    at_end = True
                    return
        except Exception as error:
            if coord is not None:
                coord.request_stop(error)
                return
            log.error("Exception in QueueRunner: %s", error)
            with self._lock:
                self._errors.append(error)
            raise
        finally:
            with self._lock:
                self._running[sess] = left = self._running.get(sess, 1) - 1
            if at_end and left == 0:
                self._quietly(sess, self._close_op)

    def _enqueuer(self, sess: Any, op: Any) -> Callable[[], Any]:
        """What a thread calls to put the next elements in."""
        made: Callable[[], Any] = sess.make_callable(op)
        return made

    def _cancel_on_stop(self, sess: Any, coord: Coordinator) -> None:
        coord.wait_for_stop()
        self._quietly(sess, self._cancel_op)

    def _quietly(self, sess: Any, op: Any) -> None:
        """Close the queue; that somebody did so before, or closed the session, is no error."""
        try:
            sess.run(op)
        except Exception as error:  # noqa: BLE001
            log.debug("Ignored exception: %s", error)

    # -- messages ------------------------------------------------------------------------------

    def to_proto(self, export_scope: str | None = None) -> Any:
        """The QueueRunnerDef message, names without the scope; None if it is not in it."""
        if not in_scope(self.name, export_scope):
            return None
        message = QueueRunnerDef(queue_name=without_scope(self.name, export_scope))
        message.enqueue_op_name.extend(
            without_scope(op.name, export_scope) for op in self._enqueue_ops
        )
        message.close_op_name = without_scope(self._close_op.name, export_scope)
        message.cancel_op_name = without_scope(self._cancel_op.name, export_scope)
        message.queue_closed_exception_types.extend(
            map(error_code_from_exception_type, self._end_types)
        )
        return message

    @staticmethod
    def from_proto(queue_runner_def: Any, import_scope: str | None = None) -> QueueRunner:
        """The queue runner of a message, in the default graph."""
        return QueueRunner(queue_runner_def=queue_runner_def, import_scope=import_scope)


def add_queue_runner(qr: QueueRunner, collection: str = GraphKeys.QUEUE_RUNNERS) -> None:
    """Have `start_queue_runners` start it."""
    get_default_graph().add_to_collection(collection, qr)


def start_queue_runners(
    sess: Any = None,
    coord: Coordinator | None = None,
    daemon: bool = True,
    start: bool = True,
    collection: str = GraphKeys.QUEUE_RUNNERS,
) -> list[threading.Thread]:
    """Start the threads of all queue runners of the session's graph, and return them.

    `sess` is the default session if it is left out. A monitored session starts them itself: then
    there is nothing to do.
    """
    session = get_default_session() if sess is None else sess
    if session is None:
        raise ValueError(
            "Cannot start queue runners: No default session is registered. Use `with "
            "sess.as_default()` or pass an explicit session to tf.start_queue_runners(sess=sess)"
        )
    if getattr(session, "starts_queue_runners", False):
        return []
    if not hasattr(session, "make_callable"):
        raise TypeError(f"sess must be a `tf.Session` object. Given class: {type(session)}")
    runners = session.graph.get_collection(collection)
    return [
        thread
        for runner in runners
        for thread in runner.create_threads(session, coord=coord, daemon=daemon, start=start)
    ]
