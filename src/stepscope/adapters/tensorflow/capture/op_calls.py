"""How Python calls ops, functions and sessions of TensorFlow, while a thread of ours listens to it.

This is a file, beside `versions`, that reaches into TensorFlow. A `Listener` of a thread may have a
manager that ends what it calls (`cancelling`), notes of what it called (`called_ops`), and
something to be looked at after each op (a deadline).

Guarantees. Only what the listening thread calls is touched. When the last thread has stopped
listening TensorFlow is as it was.
"""

from __future__ import annotations

import functools
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from stepscope.adapters.tensorflow import versions

if TYPE_CHECKING:
    from stepscope.adapters.tensorflow.capture.called_ops import CalledOps
    from stepscope.adapters.tensorflow.runs.cancelling import Cancelling

_WAITING: Final = re.compile(
    r"(Queue|Reader|Barrier|Stage|Unstage|Map(Uns|S)tage|OrderedMap|Mutex|Collective|_?Recv)\w*"
    r"|\w*Iterator\w*GetNext\w*|\w*AccumulatorTakeGradient"
)
"""The types of ops that wait for what another run does."""
_FINALIZES: Final = re.compile(r"(Delete|Destroy)\w+")
"""The types of ops that Python calls when it collects an object, in the middle of anything."""
_PIPELINES: Final = re.compile(r"\w*(Dataset|Iterator)\w*")
"""The types of ops that have threads of their own at work."""
_patch_lock = threading.Lock()
clock = time.perf_counter_ns


class Listener(NamedTuple):
    """What is to be done about the calls of one thread."""

    cancelling: Cancelling | None = None
    notes: CalledOps | None = None
    look: Callable[[], None] | None = None
    """Called after each eager op; it may raise."""


class _Here(threading.local):
    listener: Listener | None = None


_here = _Here()


def listener() -> Listener | None:
    """What listens to this thread, if anything does."""
    return _here.listener


@contextmanager
def listening(
    cancelling: Cancelling | None = None, notes: CalledOps | None = None,
    look: Callable[[], None] | None = None,
) -> Iterator[None]:  # fmt: skip
    """While inside, this thread is listened to; what is not given stays as it was outside."""
    outer = _here.listener
    before = outer or Listener()
    _here.listener = Listener(
        cancelling or before.cancelling, notes or before.notes, look or before.look
    )
    try:
        with _wrapped_calls:
            yield
    finally:
        _here.listener = outer


def use(changed: Listener | None) -> Listener | None:
    """Have this one listen from now on; gives the one that did.

    Outside of `listening` it hears of no calls, but functions end by its manager.
    """
    outer, _here.listener = _here.listener, changed
    return outer


@functools.cache
def may_wait(op_type: str) -> bool:
    """Whether an op of this type can wait for something that another run does."""
    return _WAITING.fullmatch(op_type) is not None


@functools.cache
def finalizes(op_type: str) -> bool:
    """Whether an op of this type may be called by no code of the program, but for it."""
    return _FINALIZES.fullmatch(op_type) is not None


@functools.lru_cache(4096)
def is_function(name: str) -> bool:
    """Whether it is a function that is called by this name, and no op."""
    return versions.op_def(name) is None


@functools.lru_cache(4096)
def runs_others(op_type: str) -> bool:
    """Whether a call of this runs more than one op: it is a function, or has some to call."""
    found = versions.op_def(op_type)
    if found is None or _PIPELINES.fullmatch(op_type):
        return True
    return any(attr.type in ("func", "list(func)") for attr in found.attr)


class _WrappedCalls:
    """While any thread is inside, TensorFlow's ways to call an op or run a session are ours.

    An op that waits is given the manager of a thread that has one: the fast way for eager ops takes
    none, so such an op is sent on to the slow one.
    """

    def __init__(self) -> None:
        self._inside = 0
        self._originals: list[tuple[Any, str, Any]] = []

    def __enter__(self) -> None:
        with _patch_lock:
            self._inside += 1
            if self._inside == 1:
                self._originals = [
                    (where, name, getattr(where, name)) for where, name in versions.op_calls()
                ]
                ours = _ours(*(original for *_, original in self._originals))
                for (where, name, _), wrapped in zip(self._originals, ours, strict=True):
                    setattr(where, name, wrapped)

    def __exit__(self, *_exc: object) -> None:
        with _patch_lock:
            self._inside -= 1
            if self._inside == 0:
                for where, name, original in self._originals:
                    setattr(where, name, original)


_wrapped_calls = _WrappedCalls()


def _ours(
    fast: Any, slow: Any, cancelable: Any, session_run: Any, session_callable: Any
) -> tuple[Any, ...]:
    return *_of_ops(fast, slow, cancelable), *_of_sessions(session_run, session_callable)


def _of_ops(fast: Any, slow: Any, cancelable: Any) -> tuple[Any, ...]:
    fallback = versions.fallback_error()

    def call_fast(context: Any, op: str, *args: Any) -> Any:
        mine = _here.listener
        if mine is None:
            return fast(context, op, *args)
        cancelling, notes, look = mine
        if cancelling is not None:
            if may_wait(op):
                raise fallback("only the slow way takes a manager")
            cancelling.begin(op)
        if notes is None:
            result = fast(context, op, *args)
        elif runs_others(op):
            result = notes.call(op, fast, (context, op, *args))
        else:
            # As `notes.call` does it, but here: TensorFlow walks the stack at each op, and takes
            # 0.3 us for every frame of Python's.
            began, ended, result = clock(), 0, None
            try:
                result = fast(context, op, *args)
                ended = clock()
                notes.note(op, began, ended, result, args)
            except BaseException as error:
                notes.note_ended(op, began, ended, error, result, args)
                raise
        if look is not None and not finalizes(op):
            look()
        return result

    def call_slow(context: Any, device: Any, op: Any, inputs: Any, attrs: Any, outputs: Any) -> Any:
        mine = _here.listener
        if mine is None:
            return slow(context, device, op, inputs, attrs, outputs)
        name = _text(op)
        args: tuple[Any, ...] = (context, device, op, inputs, attrs, outputs)
        if mine.cancelling is not None:
            mine.cancelling.begin(name)
            if may_wait(name):
                manager = mine.cancelling.manager._impl
                args = (context, device, op, inputs, attrs, manager, outputs)
                return _called(mine, name, cancelable, args)
        return _called(mine, name, slow, args)

    def call_cancelable(context: Any, device: Any, op: Any, *args: Any) -> Any:
        mine = _here.listener
        if mine is None:
            return cancelable(context, device, op, *args)
        name = _text(op)
        if mine.cancelling is not None:
            mine.cancelling.begin(name)
        return _called(mine, name, cancelable, (context, device, op, *args))

    return call_fast, call_slow, call_cancelable


def _of_sessions(session_run: Any, session_callable: Any) -> tuple[Any, ...]:
    def run_session(session: Any, *args: Any) -> Any:
        return _executed(session_run, (session, *args))

    def call_session_callable(made: Any, *args: Any, **kwargs: Any) -> Any:
        return _executed(session_callable, (made, *args), kwargs)

    return run_session, call_session_callable


def _called(mine: Listener, name: str, call: Any, args: tuple[Any, ...]) -> Any:
    result = call(*args) if mine.notes is None else mine.notes.call(name, call, args)
    if mine.look is not None and not finalizes(name):
        mine.look()
    return result


def _executed(call: Any, args: tuple[Any, ...], kwargs: Any = {}) -> Any:  # noqa: B006
    """A call of what an executor runs, which is not for Python to note."""
    mine = _here.listener
    if mine is None or mine.notes is None:
        return call(*args, **kwargs)
    with mine.notes.elsewhere():
        return call(*args, **kwargs)


def _text(name: Any) -> str:
    return name.decode() if isinstance(name, bytes) else str(name)
