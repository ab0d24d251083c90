"""Small runs decoded many at a time.

Most of what it takes to make columns of a small run does not depend on its size, so a thousand runs
of a few hundred ops are decoded in a fraction of the time if many of them are decoded at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from stepscope.metadata.wire.decode import decode_many
from stepscope.metadata.wire.wire_scan import WireDamageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from stepscope.metadata.run_metadata import RunMetadata
    from stepscope.metadata.state import State

__all__ = ["decode_together", "decoded_ahead"]

TOGETHER = 64
_MOST_BYTES = 1 << 21
_T = TypeVar("_T")


def decoded_ahead(items: Iterable[_T], run_of: Callable[[_T], RunMetadata]) -> Iterator[_T]:
    """The items as they come, the runs in them decoded; some small ones are read ahead of time.

    In memory are at most `TOGETHER` of these, of two megabytes together, or one larger run.
    """
    ahead: list[_T] = []
    size = 0
    for item in items:
        found = run_of(item).state.undecoded()
        own = _MOST_BYTES if found is None else found[1]
        if ahead and (size + own > _MOST_BYTES or len(ahead) >= TOGETHER):
            yield from _given(ahead, run_of)
            size = 0
        ahead.append(item)
        size += own
        del item, found
    yield from _given(ahead, run_of)


def _given(ahead: list[_T], run_of: Callable[[_T], RunMetadata]) -> Iterator[_T]:
    """Give the items out, and keep none that was given out."""
    decode_together(map(run_of, ahead))
    ahead.reverse()
    while ahead:
        yield ahead.pop()


def decode_together(runs: Iterable[RunMetadata]) -> None:
    """Make the columns of runs that were read and not looked at yet, so that `ops` has them.

    Runs that are large, or cannot be decoded, are left for whoever looks at them.
    """
    waiting: list[tuple[State, Any]] = []
    size = 0
    for run in runs:
        state = run.state
        found = state.undecoded()
        if found is None or found[1] > _MOST_BYTES // 2:
            continue
        message, own = found
        if size + own > _MOST_BYTES:
            _decode(waiting)
            waiting, size = [], 0
        waiting.append((state, message))
        size += own
    _decode(waiting)


def _decode(waiting: list[tuple[State, Any]]) -> None:
    if len(waiting) < 2:
        return
    try:
        decoded = decode_many([message for _, message in waiting])
    except WireDamageError:
        return
    for (state, _), ops in zip(waiting, decoded, strict=True):
        state.decoded(ops)
