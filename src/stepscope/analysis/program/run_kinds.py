"""What ran: the name under which runs of the same thing are put together.

Recordings say it of functions and Keras' steps (`train_step`), tapes and eager code. Of a session
they say only that: there it is told by what the graph was run for, its fetches and the ops that
nothing reads.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from stepscope.analysis.execution.edges import input_node
from stepscope.metadata.fetched_names import fetched_names
from stepscope.metadata.wire.labels import parse_label

if TYPE_CHECKING:
    from stepscope.analysis.runs import NamedRun
    from stepscope.metadata.graph_facts import GraphFacts

__all__ = ["EAGER_CODE", "RunKinds", "asked_for"]

EAGER_CODE: Final = "eager code"
_RECORDED = re.compile(r"(?:^|/)run_\d+(?: (?P<what>[^/]*))?\Z")
_SESSION: Final = "Session.run"
_BY_FETCHES: Final = ("", _SESSION, "Session callable")
_RETVAL = re.compile(r"_retval_(.*)_\d+_\d+\Z", re.DOTALL)
_INNER: Final = ("_SOURCE", "_SINK")


class RunKinds:
    """Names the kinds of runs; of a graph that is worked out once."""

    def __init__(self) -> None:
        self._asked: WeakKeyDictionary[GraphFacts, str] = WeakKeyDictionary()

    def of(self, run: NamedRun) -> str:
        """What ran, for example `train_step` or `Session.run(train_op, loss)`."""
        recorded = _RECORDED.search(run.name)
        what = (recorded["what"] or "" if recorded else "").strip()
        if what not in _BY_FETCHES:
            return what
        facts = run.metadata.ops.facts
        session = what or (_SESSION if run.metadata.engine in ("", "embedded") else "run")
        if not run.metadata.status.ok and "_Retval" not in facts.ops.table:
            return session  # what it did not come to is not known
        asked = self._asked.get(facts)
        if asked is None:
            names, types = facts.names.values.tolist(), facts.ops.values.tolist()
            asked = asked_for(names, types, facts.all_labels.values.tolist())
            self._asked[facts] = asked
        return f"{session}({asked})" if asked else session


def asked_for(names: list[str], types: list[str], labels: list[str]) -> str:
    """What a graph was run for: what it returned, and the ops that nothing reads.

    >>> asked_for(["x", "y", "_retval_y_0_0", "train"], ["Const", "Neg", "_Retval", "NoOp"],
    ...           ["x = Const()", "y = Neg(x)", "_retval_y_0_0 = _Retval(y)", "train = NoOp(^y)"])
    'train, y'

    How they are put together, `stepscope.metadata.fetched_names` says.
    """
    read: set[str] = set()
    for name, label in zip(names, labels, strict=True):
        read.update(map(input_node, parse_label(name, label)[1]))
    returned, ran = [], []
    for name, kind in zip(names, types, strict=True):
        fetch = _RETVAL.match(name)
        if fetch is not None:
            returned.append(fetch[1])
        elif name not in read and name not in _INNER and kind not in ("_Send", "_Retval"):
            ran.append(name)
    return fetched_names(ran, returned)
