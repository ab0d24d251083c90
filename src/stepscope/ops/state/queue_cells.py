"""Queues inside a session: what waits in them, and who waits for them.

What a caller may rely on:

- One lock per queue. Whoever cannot proceed waits in line: enqueuers in one line, dequeuers in the
  other, each served strictly in the order they came. A close without `cancel_pending_enqueues`
  stands in the enqueuers' line, so everything that came before it still gets in.
- A call that needs several elements takes or puts them as they become possible, so it may be
  larger than the capacity. If it fails after taking some, they go back to where they were.
- A waiting call wakes when its run is cancelled, leaves the line, and raises what the run ends
  with. Nothing of a cancelled enqueue that had not got in yet gets in later.
- What is enqueued is copied; what is dequeued is forgotten by the queue.
- What is in the queue counts as held on its device, from the moment it gets in until it is taken.
"""

from __future__ import annotations

import itertools
import secrets
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from stepscope.errors import CancelledError, InvalidArgumentError, OutOfRangeError
from stepscope.graph.dtypes import Array, DType
from stepscope.graph.shapes import TensorShape
from stepscope.ops.math.philox import Philox, Samples
from stepscope.ops.resources import HeldBytes, Holding, RunContext, holding, made_now

KIND: Final = "queue"
Element = tuple[Array, ...]
_numbers = itertools.count()


class _Turn:
    """A place in a line."""

    __slots__ = ("cancelled",)

    def __init__(self) -> None:
        self.cancelled = False


@dataclass(frozen=True, slots=True)
class _Item:
    """An element in a queue, and who put it there."""

    element: Element
    op: str
    made: tuple[int, int]


class QueueCell:
    """A first-in, first-out queue of tuples of arrays. Enqueuers and dequeuers wait in line."""

    type_name = "FIFOQueue"
    pads = False
    """Whether batches are padded where elements are of different lengths."""

    def __init__(
        self,
        name: str,
        capacity: int,
        dtypes: Sequence[DType],
        shapes: Sequence[TensorShape],
        shared: bool = False,
        *,
        device: str = "",
        held: HeldBytes | None = None,
    ) -> None:
        self.name = name if shared else f"_{next(_numbers)}_{name}"
        self.device = device
        self._held = held if held is not None else HeldBytes()
        self.capacity = capacity
        """The most elements it holds; negative for no limit."""
        self.dtypes = tuple(dtypes)
        self.shapes = tuple(shapes)
        """One per component, or none where the shapes may differ from element to element."""
        self._changed = threading.Condition()
        self._elements: deque[_Item] = deque()
        self._enqueuers: deque[_Turn] = deque()
        self._dequeuers: deque[_Turn] = deque()
        self._closed = False

    # -- what others see -----------------------------------------------------------------------

    @property
    def size(self) -> int:
        return len(self._elements)

    @property
    def closed(self) -> bool:
        return self._closed

    def holdings(self) -> list[Holding]:
        """What is in the queue, as memory."""
        with self._changed:
            items = list(self._elements)
        return [found for item in items for found in self._holdings_of(item)]

    def _holdings_of(self, item: _Item) -> list[Holding]:
        return [
            holding(array, dtype, item.op, slot, self.device, KIND, item.made)
            for slot, (array, dtype) in enumerate(zip(item.element, self.dtypes, strict=True))
        ]

    def enqueue(self, context: RunContext, elements: Sequence[Element], op: str = "") -> None:
        """Put the elements in, in order, waiting for room; `op` is who does.

        CancelledError if the queue is closed, or closed with `cancel_pending_enqueues` meanwhile.
        """
        waiting = deque(elements)

        def proceed() -> bool:
            if self._closed:
                raise CancelledError.without_op(f"{self.type_name} '{self.name}' is closed.")
            while waiting and self._has_room():
                item = _Item(waiting.popleft(), op, made_now())
                self._elements.append(item)
                self._held.add(self.device, _nbytes(item))
                if context.memory is not None:
                    context.memory.put(self._holdings_of(item))
                self._changed.notify_all()
            return not waiting

        self._in_line(self._enqueuers, context, proceed, "Enqueue")

    def dequeue(
        self,
        context: RunContext,
        count: int,
        fewer_when_closed: bool = False,
        copied: bool = False,
    ) -> list[Element]:
        """Take `count` elements, waiting for them; `copied` says that the caller copies them.

        OutOfRangeError once the queue is closed and too few can come; with `fewer_when_closed`
        only if there are none.
        """
        taken: list[_Item] = []

        def proceed() -> bool:
            while len(taken) < count and self._has_element():
                taken.append(self._take())
                self._held.add(self.device, -_nbytes(taken[-1]))
                self._changed.notify_all()
            if len(taken) == count:
                return True
            if not self._closed:
                return False
            if fewer_when_closed and taken:
                return True
            self._put_back(taken)
            raise OutOfRangeError.without_op(
                f"{self.type_name} '{self.name}' is closed and has insufficient elements "
                f"(requested {count}, current size {len(self._elements)})",
            )

        try:
            self._in_line(self._dequeuers, context, proceed, "Dequeue")
        except BaseException:
            with self._changed:
                self._put_back(taken)
            raise
        if context.memory is not None:
            context.memory.taken([h for item in taken for h in self._holdings_of(item)], copied)
        return [item.element for item in taken]

    def close(self, context: RunContext, cancel_pending_enqueues: bool = False) -> None:
        """Let nothing more in; what is in it can still be taken.

        Pending enqueues get in first, or fail with `cancel_pending_enqueues`. CancelledError if
        the queue is closed already and there is nothing to cancel.
        """
        if cancel_pending_enqueues:
            with self._changed:
                self._closed = True
                for turn in self._enqueuers:
                    turn.cancelled = True
                self._changed.notify_all()
            return

        def proceed() -> bool:
            if self._closed:
                raise CancelledError.without_op(f"Queue '{self.name}' is already closed.")
            self._closed = True
            return True

        self._in_line(self._enqueuers, context, proceed, "Close")

    # -- waiting -------------------------------------------------------------------------------

    def _in_line(
        self, line: deque[_Turn], context: RunContext, proceed: Callable[[], bool], what: str
    ) -> None:
        """Call `proceed` when it is our turn, until it returns True or raises."""
        turn = _Turn()
        token = context.cancellation
        unregister: Callable[[], None] | None = None
        with self._changed:
            line.append(turn)
            try:
                while True:
                    if turn.cancelled:
                        raise CancelledError.without_op(f"{what} operation was cancelled")
                    if token.cancelled:
                        token.raise_if_cancelled()
                    if line[0] is turn and proceed():
                        return
                    if unregister is None:
                        # The lock is held, but is reentrant: a token that was cancelled just now
                        # calls back at once, and the loop looks again before it waits.
                        unregister = token.on_cancel(self._wake)
                        continue
                    self._changed.wait()
            finally:
                line.remove(turn)
                self._changed.notify_all()
                if unregister is not None:
                    unregister()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    # -- the order of elements -----------------------------------------------------------------

    def _has_room(self) -> bool:
        return self.capacity < 0 or len(self._elements) < self.capacity

    def _has_element(self) -> bool:
        return bool(self._elements)

    def _take(self) -> _Item:
        return self._elements.popleft()

    def _put_back(self, taken: list[_Item]) -> None:
        if taken:
            self._held.add(self.device, sum(map(_nbytes, taken)))
            self._elements.extendleft(reversed(taken))
            taken.clear()
            self._changed.notify_all()

    # -- checks --------------------------------------------------------------------------------

    def check_element_types(self, found: Sequence[DType]) -> None:
        """InvalidArgumentError unless the components are of the queue's dtypes."""
        if tuple(d.base_dtype for d in found) != self.dtypes:
            raise InvalidArgumentError.without_op(
                f"Queue '{self.name}' holds ({_names(self.dtypes)}), but is used with components "
                f"({_names(found)}).",
            )

    def check_shape(self, index: int, found: tuple[int, ...], batch: int | None = None) -> None:
        """InvalidArgumentError unless component `index` may have that shape."""
        if not self.shapes:
            return
        wanted = self.shapes[index]
        if batch is not None:
            wanted = TensorShape([batch]).concatenate(wanted)
        if not wanted.is_compatible_with(found):
            raise InvalidArgumentError.without_op(
                f"Shape mismatch in tuple component {index}. Expected {wanted.brief()}, got "
                f"{TensorShape(found).brief()}",
            )

    def __repr__(self) -> str:
        return f"<{self.type_name} {self.name!r} size={self.size} closed={self._closed}>"


class ShuffleQueueCell(QueueCell):
    """A queue that gives out its elements in random order.

    While it is open `min_after_dequeue` elements stay in it, to choose from.
    """

    type_name = "RandomShuffleQueue"

    def __init__(
        self, name: str, capacity: int, dtypes: Sequence[DType], shapes: Sequence[TensorShape],
        shared: bool = False, min_after_dequeue: int = 0, seeds: tuple[int, int] = (0, 0), *,
        device: str = "", held: HeldBytes | None = None,
    ) -> None:  # fmt: skip
        super().__init__(name, capacity, dtypes, shapes, shared, device=device, held=held)
        self._keep = min_after_dequeue
        if not any(seeds):
            seeds = secrets.randbits(64), secrets.randbits(64)
        self._sample = Samples(Philox(*seeds))

    def _has_element(self) -> bool:
        return len(self._elements) > (0 if self._closed else self._keep)

    def _take(self) -> _Item:
        index = self._sample() % len(self._elements)
        self._elements[index], self._elements[-1] = self._elements[-1], self._elements[index]
        return self._elements.pop()


class PaddingQueueCell(QueueCell):
    """A queue whose elements may differ in axes of unknown length: batches of them are padded."""

    type_name = "PaddingFIFOQueue"
    pads = True


class PriorityQueueCell(QueueCell):
    """A queue that gives out the elements of the least first component first; of equal ones the
    one that came first.
    """

    type_name = "PriorityQueue"

    def _take(self) -> _Item:
        index = min(range(len(self._elements)), key=lambda i: int(self._elements[i].element[0]))
        found = self._elements[index]
        del self._elements[index]
        return found


def _nbytes(item: _Item) -> int:
    return sum(array.nbytes for array in item.element)


def _names(dtypes: Sequence[DType]) -> str:
    return ", ".join(d.base_dtype.name for d in dtypes)
