"""Queues between threads: who waits, who is served first, and who is woken."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from patience import patient
from stepscope.errors import CancelledError, DeadlineExceededError, OutOfRangeError
from stepscope.graph.dtypes import int32
from stepscope.graph.graph import Graph
from stepscope.graph.shapes import SCALAR
from stepscope.ops.cancellation import CancellationToken
from stepscope.ops.state import queues
from stepscope.ops.state.queue_cells import QueueCell, ShuffleQueueCell
from stepscope.options import RunOptions
from stepscope.runtime import Session

TIMEOUT = patient(30)


class Run:
    """A run's context, as far as a queue looks at it."""

    def __init__(self) -> None:
        self.cancellation = CancellationToken()
        self.step_id = 1
        self.rendezvous = None
        self.memory = None

    def cancel(self) -> None:
        self.cancellation.cancel(lambda: CancelledError(None, None, "the run was cancelled"))


class Waiting:
    """A call in a thread of its own, of which we know when it waits in a line of the queue."""

    def __init__(self, line: Any, call: Callable[[], Any]) -> None:
        self._result: Any = None
        self._error: BaseException | None = None
        before = len(line)
        self._thread = threading.Thread(target=self._work, args=(call,))
        self._thread.start()
        while len(line) == before and self._thread.is_alive():
            self._thread.join(0.001)

    def _work(self, call: Callable[[], Any]) -> None:
        try:
            self._result = call()
        except BaseException as error:  # noqa: BLE001 - raised again in the test's thread
            self._error = error

    @property
    def waits(self) -> bool:
        return self._thread.is_alive()

    def result(self) -> Any:
        self._thread.join(TIMEOUT)
        assert not self._thread.is_alive()
        if self._error is not None:
            raise self._error
        return self._result


@pytest.fixture
def queue() -> QueueCell:
    return QueueCell("q", 2, [int32], [SCALAR])


def elements(*values: int) -> list[tuple[np.ndarray]]:
    return [(np.array(v, np.int32),) for v in values]


def put(queue: QueueCell, *values: int, run: Run | None = None) -> Waiting:
    context = run or Run()
    return Waiting(queue._enqueuers, lambda: queue.enqueue(context, elements(*values)))


def take(queue: QueueCell, count: int = 1, run: Run | None = None, up_to: bool = False) -> Waiting:
    context = run or Run()

    def call() -> list[int]:
        return [int(e[0]) for e in queue.dequeue(context, count, up_to)]

    return Waiting(queue._dequeuers, call)


def test_blocked_enqueuers_are_served_in_the_order_they_came(queue: QueueCell) -> None:
    put(queue, 1, 2).result()
    waiting = [put(queue, i) for i in range(3, 9)]
    assert all(w.waits for w in waiting)
    assert [take(queue).result()[0] for _ in range(8)] == [1, 2, 3, 4, 5, 6, 7, 8]
    for w in waiting:
        w.result()


def test_blocked_dequeuers_are_served_in_the_order_they_came(queue: QueueCell) -> None:
    first, second, third = take(queue, 3), take(queue), take(queue)
    put(queue, 1, 2, 3, 4, 5).result()
    assert [first.result(), second.result(), third.result()] == [[1, 2, 3], [4], [5]]


def test_more_than_the_capacity_passes_through(queue: QueueCell) -> None:
    many = take(queue, 100)
    put(queue, *range(100)).result()
    assert many.result() == list(range(100))
    assert queue.size == 0


def test_a_cancelled_dequeue_gives_back_what_it_had(queue: QueueCell) -> None:
    run = Run()
    waiting = take(queue, 3, run)
    put(queue, 1, 2).result()
    run.cancel()
    with pytest.raises(CancelledError, match="the run was cancelled"):
        waiting.result()
    assert [take(queue).result(), take(queue).result()] == [[1], [2]]


def test_a_cancelled_enqueue_leaves_the_line(queue: QueueCell) -> None:
    put(queue, 1, 2).result()
    run = Run()
    cancelled, next_one = put(queue, 3, run=run), put(queue, 4)
    run.cancel()
    with pytest.raises(CancelledError):
        cancelled.result()
    assert [take(queue).result()[0] for _ in range(3)] == [1, 2, 4]
    next_one.result()


def test_a_run_that_is_cancelled_already_does_not_wait(queue: QueueCell) -> None:
    run = Run()
    run.cancel()
    with pytest.raises(CancelledError):
        take(queue, run=run).result()
    assert len(queue._dequeuers) == 0


def test_closing_lets_pending_enqueues_in_first(queue: QueueCell) -> None:
    put(queue, 1, 2).result()
    pending = put(queue, 3)
    closing = Waiting(queue._enqueuers, lambda: queue.close(Run()))
    late = put(queue, 4)
    assert [take(queue).result()[0] for _ in range(3)] == [1, 2, 3]
    pending.result()
    closing.result()
    with pytest.raises(CancelledError) as error:
        late.result()
    assert error.value.message == f"FIFOQueue '{queue.name}' is closed."
    assert queue.closed


def test_closing_can_cancel_pending_enqueues(queue: QueueCell) -> None:
    put(queue, 1, 2).result()
    pending = put(queue, 3)
    queue.close(Run(), cancel_pending_enqueues=True)
    with pytest.raises(CancelledError, match="Enqueue operation was cancelled"):
        pending.result()
    assert take(queue, 5, up_to=True).result() == [1, 2]


def test_closing_wakes_who_waits_for_what_cannot_come(queue: QueueCell) -> None:
    waiting = take(queue, 2)
    put(queue, 1).result()
    queue.close(Run())
    with pytest.raises(OutOfRangeError) as error:
        waiting.result()
    assert error.value.message == (
        f"FIFOQueue '{queue.name}' is closed and has insufficient elements "
        "(requested 2, current size 1)"
    )
    assert take(queue).result() == [1]
    with pytest.raises(CancelledError, match="is already closed"):
        queue.close(Run())


def test_a_shuffling_queue_keeps_some_to_choose_from_until_it_is_closed() -> None:
    queue = ShuffleQueueCell("s", 100, [int32], [SCALAR], min_after_dequeue=90, seeds=(1, 2))
    put(queue, *range(100)).result()
    first = take(queue, 10).result()
    waiting = take(queue)
    assert waiting.waits
    queue.close(Run())
    rest = [*waiting.result(), *take(queue, 100, up_to=True).result()]
    assert sorted(first + rest) == list(range(100))
    assert first + rest != list(range(100))


def test_many_producers_and_consumers_lose_nothing(queue: QueueCell) -> None:
    producers = [put(queue, *range(i * 100, i * 100 + 100)) for i in range(4)]
    consumers = [take(queue, 50) for _ in range(8)]
    taken = sorted(v for c in consumers for v in c.result())
    for p in producers:
        p.result()
    assert taken == list(range(400))


# -- in a session --------------------------------------------------------------------------------


@pytest.fixture
def graph() -> Graph:
    return Graph()


def test_a_deadline_ends_a_blocked_dequeue_and_the_queue_lives_on(graph: Graph) -> None:
    with graph.as_default():
        q = queues.FIFOQueue(2, "float32", [[2]])
        put_one, get = q.enqueue([[1.0, 2.0]]), q.dequeue()
        with Session(graph=graph) as session:
            with pytest.raises(DeadlineExceededError):
                session.run(get, options=RunOptions(timeout_in_ms=50))
            session.run(put_one)
            assert session.run(get).tolist() == [1, 2]


def test_what_is_enqueued_is_copied(graph: Graph) -> None:
    from stepscope.ops.arrays.constants import placeholder

    with graph.as_default():
        q = queues.FIFOQueue(2, "float32", [[2]])
        x = placeholder("float32", [2])
        put_x, get = q.enqueue(x), q.dequeue()
        with Session(graph=graph) as session:
            fed = np.array([1.0, 2.0], np.float32)
            session.run(put_x, {x: fed})
            fed[:] = 9
            assert session.run(get).tolist() == [1, 2]


def test_a_shared_name_is_one_queue(graph: Graph) -> None:
    with graph.as_default():
        one = queues.FIFOQueue(2, "int32", shared_name="shared")
        two = queues.FIFOQueue(2, "int32", shared_name="shared", name="other")
        with Session(graph=graph) as session:
            session.run(one.enqueue(5))
            assert session.run(two.dequeue()) == 5


def test_what_a_queue_says_of_itself(graph: Graph) -> None:
    with graph.as_default(), graph.name_scope("input"):
        q = queues.FIFOQueue(2, ["float32", "int64"], [[2], []], ["a", "b"], name="pairs")
    assert q.name == q.queue_ref.op.name == "input/pairs"
    assert [d.name for d in q.dtypes] == ["float32", "int64"]
    assert [s.known for s in q.shapes] == [(2,), ()]
    assert q.names == ["a", "b"]
