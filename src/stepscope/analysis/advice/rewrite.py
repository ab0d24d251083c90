"""What a finding would change in a graph, as plain data: which nodes, and how.

`stepscope.proofs` applies it to the recorded graph. A finding without one speaks of something that
is not in the graph (a Python function, an input pipeline, how a program calls its functions).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Rewrite"]


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Changes of a graph and of what is fetched from it and fed to it, by the names of nodes.

    `bypassed` do not run any more: what read them reads what they read. `unfetched` are fetched no
    more, or are no target of the run any more. `constant` are worked out once, and kept.
    `cut` are pairs of which the second does not wait for the first any more. `moved` are on
    another device. A run has `rows` times as many rows, and may use `threads` threads (0: as it
    had). `again` are worked out a second time, late: each with the node that it then waits for and
    those that read the second one.
    """

    bypassed: frozenset[str] = frozenset()
    unfetched: frozenset[str] = frozenset()
    constant: frozenset[str] = frozenset()
    cut: frozenset[tuple[str, str]] = frozenset()
    moved: Mapping[str, str] = field(default_factory=dict)
    rows: int = 1
    threads: int = 0
    again: tuple[Again, ...] = ()


@dataclass(frozen=True, slots=True)
class Again:
    """`tensor` is made a second time by the nodes of `chain` (in order, itself the last).

    They wait for `after`, and `readers` read what they make.
    """

    tensor: str
    chain: tuple[str, ...]
    after: str
    readers: tuple[str, ...]
