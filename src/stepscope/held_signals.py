"""Holding back what signals do while our own code has in hand what must not be lost.

Python runs a signal's handler between any two of its instructions, and Control-C's raises there: in
the midst of handing a run over that would lose the run, and leave what recorded it half open. So
there the handlers wait, some microseconds, and run as soon as the program's own code would go on.

    with held_signals:
        prepare()
        try:
            result = let_go(run)  # the program's own: as without us
        finally:
            hand_over()

Guarantees.
- Held are signals that the program or Python itself handles in Python, on the main thread: on
  others nothing is ever raised. What has the default action as far as the program knows is not.
- Afterwards, and in `let_go`, the handlers are in place again; one that was put there meanwhile
  stays. What came meanwhile is handled then.
- The second of a kind is handled at once: whoever insists need not wait for a disk that does not
  answer.
- One that comes just as holding begins is raised before anything was begun, or held. One that comes
  as `let_go` is left is raised by that, or held: either way, what follows is not disturbed.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Final, TypeVar

__all__ = ["held_signals", "let_go"]

T = TypeVar("T")

# Those of `signal` look for enums of what they are given, which takes longer than all else here.
_signal: Final[Any] = sys.modules.get("_signal", signal)
_get: Final[Callable[[int], Any]] = _signal.getsignal
_set: Final[Callable[[int, Any], Any]] = _signal.signal
_NUMBERS: Final = tuple(
    int(getattr(signal, name))
    for name in ("SIGINT", "SIGTERM", "SIGALRM", "SIGHUP", "SIGUSR1", "SIGUSR2")
    if hasattr(signal, name)
)
_DEFAULT: Final = int(signal.SIG_DFL)


class _Held:
    """What is held back, on the main thread."""

    __slots__ = ("before", "came", "depth", "raised")

    def __init__(self) -> None:
        self.depth = 0
        """How often holding was begun; 0 while signals do what they do."""
        self.before: dict[int, Any] = {}
        """The handlers that stand aside."""
        self.came: list[int] = []
        self.raised: BaseException | None = None
        """What a handler raised just before it stood aside."""

    def hold(self) -> None:
        """Have the handlers stand aside, if they do not yet."""
        try:
            for number in _NUMBERS:
                handler = _get(number)
                if callable(handler) and handler is not _note and handler != _DEFAULT:
                    self.before[number] = handler
                    _set(number, _note)
        except BaseException as error:  # noqa: BLE001 - raised when this is over
            self.raised = error
            self.hold()

    def release(self) -> None:
        """Put the handlers in place again, and have done what came meanwhile."""
        try:
            while self.before:
                number, handler = self.before.popitem()
                if _get(number) is _note:
                    _put(number, handler)
        except BaseException:
            self.release()
            raise
        came, self.came = self.came, []
        raised, self.raised = self.raised, None
        try:
            _handle(came)
        finally:
            if raised is not None:
                raise raised


_held: Final = _Held()


def _put(number: int, handler: Any) -> None:
    try:
        _set(number, handler)
    except BaseException:  # by another's handler, before this one was put in place, or by this one
        _set(number, handler)
        raise


def _handle(came: list[int]) -> None:
    """Do what the handlers do, each of them whatever another raises."""
    if not came:
        return
    try:
        handler = _get(came[0])
        if callable(handler):
            handler(came[0], sys._getframe())
    finally:
        _handle(came[1:])


def _note(number: int, frame: FrameType | None) -> None:
    """A signal came while it is held."""
    if number not in _held.came:
        _held.came.append(number)
    elif number in _held.before:
        _held.before[number](number, frame)


def _on_main_thread() -> bool:
    return threading.get_ident() == threading.main_thread().ident


class _HeldSignals:
    """While inside, handlers of signals wait. May be entered inside itself."""

    __slots__ = ()

    def __enter__(self) -> None:
        if _on_main_thread():
            if not _held.depth:
                _held.hold()
            _held.depth += 1

    def __exit__(self, *_exc: object) -> None:
        if _held.depth and _on_main_thread():
            _held.depth -= 1
            if not _held.depth:
                _held.release()


held_signals: Final = _HeldSignals()


def let_go(call: Callable[[], T]) -> T:
    """Call what is the program's own: signals do meanwhile what they do without us."""
    depth = _held.depth
    if not depth or not _on_main_thread():
        return call()
    _held.depth = 0
    try:
        try:
            _held.release()
            return call()
        finally:
            _held.hold()
    except BaseException:
        _held.hold()  # The one before held nothing if a signal came as it was called.
        raise
    finally:
        _held.depth = depth


def _forget() -> None:
    """In a fork by another thread than the one that holds: it is the main thread now."""
    _held.depth = 0
    _held.came = []
    _held.raised = None
    _held.release()


os.register_at_fork(after_in_child=_forget)
