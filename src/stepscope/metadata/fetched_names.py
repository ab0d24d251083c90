"""What a run of a session is called: by what it was run for, the same wherever that is known from.

The rule: first the ops that were run and return nothing, then what was returned, both in the order
of the alphabet; each name once, and without the number of an op's output. The order in which a
program lists its fetches plays no part, as TensorFlow's own records do not keep it: what a program
fetches, a graph that was executed, and a recording that is read back give the same name. Three are
named. Beside something returned, more ops than that are none: where labels tell not all inputs, any
op could be one that nothing reads.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

__all__ = ["fetched_names", "session_run"]

_NAMED: Final = 3


def fetched_names(ran: Iterable[str], returned: Iterable[str]) -> str:
    """The names of ops that were run, and of those whose outputs were returned.

    >>> fetched_names(["train"], ["loss", "accuracy"])
    'train, accuracy, loss'
    >>> fetched_names(["e", "d", "c", "b"], [])
    'b, c, d and 1 more'
    """
    ran, returned = sorted(set(ran)), sorted(set(returned))
    if len(ran) > _NAMED and returned:
        ran = []
    found = list(dict.fromkeys(ran + returned))
    more = f" and {len(found) - _NAMED:,} more" if len(found) > _NAMED else ""
    return ", ".join(found[:_NAMED]) + more


def session_run(ran: Iterable[str], returned: Iterable[str]) -> str:
    """What a run of a session is called that was asked for these.

    >>> session_run([], ["loss"])
    'Session.run(loss)'
    """
    return f"Session.run({fetched_names(ran, returned)})"
