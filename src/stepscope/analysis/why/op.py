"""Why an op began when it did and took so long: the chain of causes, each link a recorded row.

An op began when it did because of one of four things: the last of what it takes was made then; its
thread was busy with another op until then; it was asked for then, by code that ran before it; or
the run began. The chain goes from an op to that cause, and from there on in the same way, until the
run's beginning or something that came from outside.

>>> from stepscope.metadata import OpColumns, Recording, RunMetadata
>>> ops = OpColumns.build(
...     name=["read", "slow", "loss"], op=["ReadFile", "MatMul", "Sum"],
...     thread=[1, 1, 1], device=["cpu"] * 3,
...     label=["read = ReadFile()", "slow = MatMul()", "loss = Sum(read)"],
...     scheduled_ns=[1000, 1000, 3000], start_ns=[1000, 3000, 90000], end_ns=[3000, 90000, 91000])
>>> run = RunMetadata()
>>> run.record(Recording(engine="", ops=lambda: ops))
>>> [(link.kind, link.op, link.ns) for link in why_op(run, "loss")]
[('asked', 'loss', 1000), ('thread', 'slow', 87000), ('thread', 'read', 2000)]
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

from stepscope.analysis.execution.critical_path import WaitedFor
from stepscope.analysis.execution.edges import Edges, input_node
from stepscope.analysis.execution.thread_order import ThreadOrder
from stepscope.analysis.result import Result, made_of
from stepscope.errors import StepscopeError
from stepscope.metadata.readable import number as counted
from stepscope.metadata.readable import plain, time
from stepscope.metadata.wire.labels import parse_label

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from stepscope.metadata import OpColumns, RunMetadata

__all__ = ["Chains", "Cover", "Link", "OpCauses", "node_named", "nodes_like", "rows_of", "why_op"]

LinkKind: TypeAlias = Literal["asked", "input", "thread", "before"]

_NAMED: Final = 5
_COVERS: Final = 3
_LONGER: Final = 1.25
"""An op that took so many times its median took long."""
_LATE: Final = 0.01
"""An op that began within this part of a run after the run's beginning began with it."""
_FROM_OUTSIDE: Final = ("IteratorGetNext", "Dequeue")


@dataclass(frozen=True, slots=True)
class Link:
    """An execution that was recorded, and what it has to do with the link before it.

    `kind` is "asked" (the op in question), "input" (it made what the link before takes), "thread"
    (the link before was ready, and its thread ran this) or "before" (the record does not tell what
    the link before takes; this was over when it was asked for). `of` is the op of the link before,
    `gap_ns` how long after this one it began. Times count from the run's beginning.
    """

    kind: LinkKind
    op: str
    type: str
    run: int
    from_ns: int
    to_ns: int
    ns: int
    reason: str
    line: str
    device: str
    of: str
    gap_ns: int


@dataclass(frozen=True, slots=True)
class Cover:
    """What ran in the time of an op, and for how much of it.

    `kind` is "wait" (on its thread, while it waited for that), "inside" (on its thread, while it
    ran: a part of it) or "beside" (on another thread, while it waited or took long).
    """

    kind: Literal["wait", "inside", "beside"]
    op: str
    type: str
    ns: int
    line: str


@dataclass(frozen=True, slots=True)
class OpCauses(Result):
    """Why an op began when it did, and took as long as it did.

    `rows` is the chain, the op in question first; `origin` says where the chain ends. Of an op
    that ran `executions` times in the run it is the longest, its wait counted. `node_ns` is all of
    them together, `median_ns` that of `compared` other runs, 0 where there is none.
    """

    rows: tuple[Link, ...]
    op: str
    run: int
    executions: int
    ns: int
    waited_ns: int
    node_ns: int
    median_ns: float
    compared: int
    covered: tuple[Cover, ...]
    origin: str

    def __iter__(self) -> Iterator[Link]:
        """Over the chain."""
        return iter(self.rows)

    def __len__(self) -> int:
        """How many links there are."""
        return len(self.rows)


def why_op(
    run: RunMetadata, name: str, *, number: int = 0, others: Iterable[RunMetadata] = ()
) -> OpCauses:
    """Why an op of a run began when it did, and took so long.

    `name` is a node's, or a part of one alone (`node_named`). `others` are runs to compare its time
    with; those without it do not count. `number` is what links call the run.

    Example:
        >>> import stepscope
        >>> first, *others = stepscope.load("stepscope-out/train")  # doctest: +SKIP
        >>> why_op(first, "dense/MatMul", others=others).rows  # doctest: +SKIP
    """
    name = node_named(run, name)
    times = [ns for other in others if (ns := _node_ns(other, name)) >= 0]
    median = float(np.median(times)) if times else 0.0
    return made_of(Chains(run, number).why(name, median, len(times)), run)


def node_named(run: RunMetadata, wanted: str) -> str:
    """The one node of a run with this name, or with this in its name.

    `StepscopeError` with what there is where none has, or several have.
    """
    known = _executed(run)
    if wanted in known:
        return wanted
    if not known:
        raise StepscopeError(
            "no op was recorded in the run; choose another with --run, or record ops with "
            "`stepscope run`"
        )
    parts = nodes_like(run, wanted)
    # The node of a layer rather than those that have its name as their scope.
    ends = [name for name in parts if f"/{name}".endswith(f"/{wanted}")]
    if len(parts) == 1 or len(ends) == 1:
        return (ends or parts)[0]
    if parts:
        some = ", ".join(map(plain, parts[:_NAMED]))
        more = f" and {len(parts) - _NAMED:,} more" if len(parts) > _NAMED else ""
        raise StepscopeError(
            f"{counted(len(parts), 'op')} of the run have {plain(wanted)!r} in their name: {some}"
            f"{more}; write more of it"
        )
    near = get_close_matches(wanted, known, n=3, cutoff=0.5)
    meant = f"; did you mean {' or '.join(map(plain, near))}?" if near else ""
    raise StepscopeError(
        f"no op of the run has {plain(wanted)!r} in its name, of {counted(len(known), 'op')}{meant}"
        + ("" if near else "; `stepscope top --by name` lists them")
    )


def nodes_like(run: RunMetadata, wanted: str) -> list[str]:
    """The nodes of a run with this in their name."""
    return [name for name in _executed(run) if wanted.lower() in name.lower()]


def _executed(run: RunMetadata) -> list[str]:
    names = run.ops.names
    return [names.table[code] for code in np.unique(names.codes).tolist()]


def _node_ns(run: RunMetadata, name: str) -> int:
    """How long a node ran in a run, in all; -1 where it did not."""
    rows = rows_of(run.ops, name)
    ops = run.ops
    return int(np.maximum(ops.end_ns[rows] - ops.start_ns[rows], 0).sum()) if len(rows) else -1


def rows_of(ops: OpColumns, name: str) -> Any:
    """The executions of a node."""
    try:
        code = ops.names.table.index(name)
    except ValueError:
        return np.empty(0, np.intp)
    return np.flatnonzero(ops.names.codes == code)


class Chains:
    """A run whose links are followed; what they need is worked out once."""

    def __init__(self, run: RunMetadata, number: int) -> None:
        self._number = number
        self._ops = ops = run.ops
        self._sources = run.sources
        self._edges = Edges.of(ops)
        self._waits = WaitedFor(ops, self._edges)
        self._threads = ThreadOrder(ops)
        # An op that says nothing of when it was ready says 0, or when it began.
        said = np.where(ops.scheduled_ns > 0, ops.scheduled_ns, ops.start_ns)
        self._ready = np.minimum(said, ops.start_ns)
        self._begin = int(self._ready.min())
        self._length = max(1, int(ops.end_ns.max()) - self._begin)

    def last_op(self) -> str:
        """The op that ended last; of several the longest."""
        ops = self._ops
        return str(ops.name[int(np.lexsort((-ops.start_ns, ops.end_ns))[-1])])

    def why(self, name: str, median: float, compared: int) -> OpCauses:
        """The causes of an op whose time in so many other runs has this median."""
        ops = self._ops
        rows = rows_of(ops, name)
        row = int(rows[np.argmax(ops.end_ns[rows] - self._ready[rows])])
        node_ns = int(np.maximum(ops.end_ns[rows] - ops.start_ns[rows], 0).sum())
        ns = max(0, int(ops.end_ns[row] - ops.start_ns[row]))
        waited = self._waited_from(row)
        rows_back, origin = self._chain(row, _took(node_ns, len(rows), median, compared))
        return OpCauses(
            rows=rows_back,
            op=name,
            run=self._number,
            executions=len(rows),
            ns=ns,
            waited_ns=int(ops.start_ns[row]) - waited,
            node_ns=node_ns,
            median_ns=median,
            compared=compared,
            covered=tuple(self._covered(row, waited, node_ns > _LONGER * median > 0)),
            origin=origin,
        )

    def _waited_from(self, row: int) -> int:
        """Since when an execution could have run: when all it takes was there, and it was known."""
        start = int(self._ops.start_ns[row])
        inputs = [int(self._ops.end_ns[r]) for r in self._edges.before[row]]
        there = max((end for end in inputs if end <= start), default=self._begin)
        return min(start, max(there, int(self._ready[row])))

    def _chain(self, row: int, asked: str) -> tuple[tuple[Link, ...], str]:
        links = [self._link("asked", row, row, asked)]
        seen = {row}
        while True:
            found = self._before(row)
            if found is None or found[1] in seen:
                return tuple(links), self._origin(row)
            kind, before, reason = found
            links.append(self._link(kind, before, row, reason))
            seen.add(before)
            row = before
            if any(kind in str(self._ops.op[row]) for kind in _FROM_OUTSIDE):
                return tuple(links), self._origin(row)

    def _before(self, row: int) -> tuple[LinkKind, int, str] | None:
        """What an execution began because of."""
        ops = self._ops
        start, thread = int(ops.start_ns[row]), int(ops.thread[row])
        before = self._waits.before(row)
        inputs = self._edges.before[row]
        there = max((int(ops.end_ns[r]) for r in inputs), default=self._begin)
        if not inputs and before >= 0:
            there = int(ops.end_ns[before])
        gap = start - there
        ran = [(r, ns) for r, ns in self._threads.ran(thread, there, start) if r != row]
        busy = sum(ns for _, ns in ran)
        # A few quick ops in between explain nothing, where what was waited for took long. What
        # passed before the thread began with its first op was no op's.
        least = self._ns(before) / 10 if before >= 0 else 0
        first = max(there, int(ops.start_ns[ran[0][0]])) if ran else start
        if ran and busy > (start - first) / 2 and busy >= least:
            most, ns = max(ran, key=lambda one: one[1])
            others = f"; {counted(len(ran) - 1, 'other op')} ran too" if len(ran) > 1 else ""
            return "thread", most, (
                f"kept the thread of {_short(ops.name[row])} busy for {time(ns)} of its wait of "
                f"{time(gap)}{others}"
            )  # fmt: skip
        if before < 0:
            return None
        later = start - int(ops.end_ns[before])
        after = f", {time(later)} before it" if later > 0 else ""
        if inputs:
            beside = self._beside(row, there, start) if gap > self._ns(row) else []
            meanwhile = f"; meanwhile {plain(beside[0].op)} ran beside it" if beside else ""
            return "input", before, f"is an input of {_short(ops.name[row])}{after}{meanwhile}"
        where = "on the same thread " if thread else ""
        ago = time(later) if later > 0 else "just"
        return "before", before, f"was over {where}{ago} before {_short(ops.name[row])} began"

    def _ns(self, row: int) -> int:
        return max(0, int(self._ops.end_ns[row] - self._ops.start_ns[row]))

    def _link(self, kind: LinkKind, row: int, of: int, reason: str) -> Link:
        ops, name = self._ops, str(self._ops.name[row])
        start, end = int(ops.start_ns[row]), int(ops.end_ns[row])
        return Link(
            kind=kind,
            op=name,
            type=str(ops.op[row]),
            run=self._number,
            from_ns=start - self._begin,
            to_ns=end - self._begin,
            ns=max(0, end - start),
            reason=reason,
            line=self._sources.get(name, ""),
            device=str(ops.device[row]),
            of="" if kind == "asked" else str(ops.name[of]),
            gap_ns=0 if kind == "asked" else int(ops.start_ns[of]) - end,
        )

    def _origin(self, row: int) -> str:
        """Why the chain ends with an execution."""
        ops, name, type_ = self._ops, str(self._ops.name[row]), str(self._ops.op[row])
        shown = plain(name)
        if any(kind in type_ for kind in _FROM_OUTSIDE):
            what = "a pipeline" if type_ == "IteratorGetNext" else "a queue"
            return f"{shown} takes from {what} outside of the run: see stepscope input"
        late = int(ops.start_ns[row]) - self._begin
        if name == "_SOURCE":
            return "_SOURCE is what a run begins with"
        if type_ in ("_Arg", "Placeholder"):
            return f"{shown} was given to the run from outside"
        known = set(ops.names.table)
        references = parse_label(name, str(ops.label[row]))[1]
        outside = [node for node in map(input_node, references) if node not in known]
        if outside:
            some = ", ".join(map(plain, outside[:_NAMED]))
            verb = "was" if len(outside) == 1 else "were"
            return f"what {shown} takes ({some}) {verb} not made in the run, or not recorded"
        if late > _LATE * self._length:
            return (
                f"{shown} began {time(late)} after the run; no op that it waited for was recorded"
            )
        return f"{shown} waited for no op: the run began then"

    def _covered(self, row: int, since: int, long: bool) -> Iterator[Cover]:
        ops = self._ops
        start, end, thread = int(ops.start_ns[row]), int(ops.end_ns[row]), int(ops.thread[row])
        yield from self._covers("wait", self._threads.ran(thread, since, start))
        if thread:
            inner = (ops.thread == thread) & (ops.start_ns >= start) & (ops.end_ns <= end)
            inner[row] = False
            rows = np.flatnonzero(inner).tolist()
            yield from self._covers("inside", [(r, self._ns(r)) for r in rows])
        if long:
            yield from self._beside(row, start, end)
        elif start - since > end - start:
            yield from self._beside(row, since, start)

    def _beside(self, row: int, begin: int, end: int) -> list[Cover]:
        """What ran on other threads in a span."""
        ops = self._ops
        overlap = np.minimum(ops.end_ns, end) - np.maximum(ops.start_ns, begin)
        apart = (ops.thread != ops.thread[row]) & (overlap > 0)
        rows = np.flatnonzero(apart).tolist()
        return list(self._covers("beside", [(r, int(overlap[r])) for r in rows]))

    def _covers(
        self, kind: Literal["wait", "inside", "beside"], ran: Sequence[tuple[int, int]]
    ) -> Iterator[Cover]:
        spent: Counter[str] = Counter()
        types: dict[str, str] = {}
        for row, ns in ran:
            name = str(self._ops.name[row])
            spent[name] += ns
            types[name] = str(self._ops.op[row])
        for name, ns in spent.most_common(_COVERS):
            if ns > 0:
                yield Cover(kind, name, types[name], ns, self._sources.get(name, ""))


def _short(name: Any) -> str:
    """The last part of a name, in a sentence next to the whole."""
    return plain(str(name)).rpartition("/")[2] or plain(str(name))


def _took(ns: int, executions: int, median: float, compared: int) -> str:
    often = f" in {counted(executions, 'execution')}" if executions > 1 else ""
    if not compared:
        return f"took {time(ns)}{often}; no other run has it to compare with"
    runs = counted(compared, "other run")
    if median > 0 and (ns > _LONGER * median or ns * _LONGER < median):
        return f"took {time(ns)}{often}, {ns / median:.1f} times its median of {runs}"
    return f"took {time(ns)}{often}, as usual: {time(median)} is its median of {runs}"
