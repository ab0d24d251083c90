"""Why: the causes of an op, of a run and of a byte, backwards; each link is a recorded row.

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
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

from stepscope.analysis.critical_path import WaitedFor
from stepscope.analysis.edges import Edges, input_node
from stepscope.analysis.memory_flame import PEAK, highest_peak, instant_ns
from stepscope.analysis.result import Result
from stepscope.analysis.run_kinds import RunKinds
from stepscope.analysis.runs import NamedRun, Runs, named_runs
from stepscope.analysis.steps import Cause, StepSums
from stepscope.analysis.tensor_lives import tensor_lives
from stepscope.analysis.thread_order import ThreadOrder
from stepscope.errors import StepscopeError
from stepscope.metadata.allocations import HELD, PERSISTENT_KINDS
from stepscope.metadata.labels import parse_label
from stepscope.metadata.readable import number as counted
from stepscope.metadata.readable import plain, time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from stepscope.metadata import OpColumns, RunMetadata

__all__ = [
    "ByteCauses",
    "Cover",
    "Holder",
    "Link",
    "OpCauses",
    "RunCauses",
    "node_named",
    "nodes_like",
    "why_bytes",
    "why_op",
    "why_run",
]

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


@dataclass(frozen=True, slots=True)
class RunCauses(Result):
    """Why a run was slower than the median of the others of its kind (`what`).

    `causes` are what was different, the largest first. `rows` is the chain of the op that differed
    most (`op`), or that ended last where none did. `median_ns` is 0 where it is the only one.
    """

    rows: tuple[Link, ...]
    run: int
    what: str
    ns: int
    median_ns: float
    compared: int
    first: bool
    causes: tuple[Cause, ...]
    op: str
    origin: str


@dataclass(frozen=True, slots=True)
class Holder:
    """A tensor that was live: made by `op`, from `from_ns` until `to_ns`, freed after `until`.

    `to_ns` is -1 of one that was not freed in the run, `until` is "" where no op took it.
    """

    op: str
    type: str
    run: int
    kind: str
    bytes: int
    share: float
    from_ns: int
    to_ns: int
    until: str
    reason: str
    line: str
    shape: str
    dtype: str


@dataclass(frozen=True, slots=True)
class ByteCauses(Result):
    """Who held the memory of a device at an instant of a run, the largest first.

    The rows sum to `bytes`. Times count from the run's beginning.
    """

    rows: tuple[Holder, ...]
    run: int
    device: str
    at_ns: int
    bytes: int
    peak_bytes: int
    estimated: bool


# -- an op -------------------------------------------------------------------------------------


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
    return _Run(run, number).why(name, median, len(times))


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
    rows = _rows_of(run.ops, name)
    ops = run.ops
    return int(np.maximum(ops.end_ns[rows] - ops.start_ns[rows], 0).sum()) if len(rows) else -1


def _rows_of(ops: OpColumns, name: str) -> Any:
    try:
        code = ops.names.table.index(name)
    except ValueError:
        return np.empty(0, np.intp)
    return np.flatnonzero(ops.names.codes == code)


class _Run:
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
        ops = self._ops
        rows = _rows_of(ops, name)
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


# -- a run -------------------------------------------------------------------------------------


def why_run(runs: Iterable[tuple[int, Any]], number: int) -> RunCauses:
    """Why the run of a number was slower than the others of its kind.

    `runs` are pairs of a number and a run, as of `enumerate`; they are looked at one after the
    other, and only the one in question is kept. `StepscopeError` where there is none of the number,
    or it failed.

    Example:
        >>> why_run(enumerate(stepscope.load("stepscope-out/train")), 42)  # doctest: +SKIP
    """
    kinds, sums = RunKinds(), StepSums()
    kept: tuple[str, NamedRun] | None = None
    numbers: dict[str, list[int]] = {}
    seen: list[int] = []
    for place, item in runs:
        (run,) = named_runs([item])
        what = kinds.of(run)
        sums.add(what, run, place)
        seen.append(place)
        if run.metadata.status.ok:
            numbers.setdefault(what, []).append(place)
        if place == number:
            kept = what, run
    if kept is None:
        known = f"there are {seen[0]} to {seen[-1]}" if seen else "there is none"
        raise StepscopeError(f"there is no run {number}; {known}")
    what, run = kept
    if not run.metadata.status.ok:
        status = run.metadata.status
        raise StepscopeError(
            f"run {number} failed ({status.code}: {plain(status.message.splitlines()[0])}), and is "
            "not compared with runs that did not; `stepscope info --run` has the whole message"
            if status.message
            else f"run {number} failed ({status.code}), and is not compared with runs that did not"
        )
    if not len(run.metadata.ops):
        raise StepscopeError(f"run {number} has no ops; record them with `stepscope run`")
    found = sums.compared(what, run, number)
    others = [other for other in numbers[what] if other != number]
    # The first of a kind builds: it is compared with, and others are not compared with it.
    compared = len([other for other in others if other != numbers[what][0]])
    walked = _Run(run.metadata, number)
    causes = found.causes if found.over_ns > 0 else ()
    largest = _decisive(causes)
    op = walked.last_op() if largest is None else largest.op
    chain = walked.why(op, 0.0, 0)
    if largest is None:
        reason = "ended last; no op took longer than it usually does" if compared else "ended last"
    elif largest.kind == "wait":
        reason = f"waited {time(largest.more_ns)} longer for a thread than it usually does"
    else:
        reason = f"took {time(chain.node_ns)}, {time(largest.more_ns)} longer than it usually does"
    return RunCauses(
        rows=(replace(chain.rows[0], reason=reason), *chain.rows[1:]),
        run=number,
        what=what,
        ns=found.ns,
        median_ns=float(found.ns - found.over_ns) if compared else 0.0,
        compared=compared,
        first=bool(others) and number == numbers[what][0],
        causes=causes,
        op=op,
        origin=chain.origin,
    )


def _decisive(causes: Sequence[Cause]) -> Cause | None:
    """The op that differed most; rather one that took longer than one that waited for it."""
    largest = next((cause for cause in causes if cause.op), None)
    ran = next((cause for cause in causes if cause.kind == "op"), None)
    if largest is not None and ran is not None and 2 * ran.more_ns >= largest.more_ns:
        return ran
    return largest


# -- a byte ------------------------------------------------------------------------------------


def why_bytes(
    runs: Runs, at: str = PEAK, *, device: str | None = None, number: int | None = None
) -> ByteCauses:
    """Who held memory at an instant: since when, until whom, made by which op and line.

    `at` is "peak", or a time after the run's beginning such as "120ms". Of several runs it is the
    one with the highest peak; without `device`, the device with it. `StepscopeError` where no
    single allocations were recorded, or the instant is after the run. `number` is what rows call
    the run; without one it is its place in `runs`.

    Example:
        >>> why_bytes(run, "peak").rows[0].op  # doctest: +SKIP
        'dense/MatMul'
    """
    wanted = instant_ns(at)
    named = named_runs(runs)
    run, where, peak = highest_peak(named, device)
    metadata, ops = run.metadata, run.metadata.ops
    lives = tensor_lives(metadata, where)
    begin = min(0, int(np.floor(lives.moment[0])))
    if wanted is None:
        moment = float(lives.moment[lives.peak])
    else:
        ends = [lives.moment[-1], *((ops.end_ns.max() - lives.base_ns,) if len(ops) else ())]
        length = int(max(ends)) - begin
        if wanted > length:
            raise StepscopeError(
                f"{at} is after the end of the run, which took {time(length)}; write an instant "
                "in it, or peak"
            )
        moment = float(np.nextafter(begin + wanted + 1, begin + wanted))
    alive = lives.tensors.at(moment)
    place = number if number is not None else next(
        i for i, one in enumerate(named) if one.metadata is metadata
    )  # fmt: skip
    lasts = _Lasts(ops, lives.base_ns)
    events = metadata.allocations
    held = set(events.names.values[(events.event == HELD) & (events.device == where)].tolist())
    whole = int(alive.bytes.sum())
    rows = []
    for i in np.argsort(-alive.bytes, kind="stable").tolist():
        op, kind = alive.names.values[i], alive.kinds.values[i]
        freed = alive.to_ns[i] != np.inf
        since, size = float(alive.from_ns[i]), int(alive.bytes[i])
        until = lasts.reader(op, since, float(alive.to_ns[i])) if freed else ""
        rows.append(
            Holder(
                op=str(op),
                type=lasts.types.get(str(op), ""),
                run=place,
                kind=str(kind),
                bytes=size,
                share=size / whole if whole else 0.0,
                from_ns=int(np.floor(since)) - begin,
                to_ns=int(np.floor(alive.to_ns[i])) - begin if freed else -1,
                until=until,
                reason=_held(str(kind), op in held, freed, until, str(op)),
                line=str(alive.sources.values[i]),
                shape=str(alive.shapes.values[i]),
                dtype=str(alive.dtypes.values[i]),
            )
        )
    return ByteCauses(
        rows=tuple(rows),
        run=place,
        device=where,
        at_ns=int(np.floor(moment)) - begin,
        bytes=whole,
        peak_bytes=peak,
        estimated=metadata.completeness.memory_is_estimated,
    )


def _held(kind: str, before: bool, freed: bool, until: str, op: str) -> str:
    if kind in PERSISTENT_KINDS or before:
        said = "was there before the run" if before else f"is kept after the run, as {kind}"
        return said + (f"; freed after {plain(until)}" if until else "")
    if not freed:
        return "was not freed in the run"
    if until == op:
        return "was freed by the op that made it"
    return (
        f"was freed when {plain(until)} had taken it"
        if until
        else "was freed; after whom is not known"
    )


class _Lasts:
    """Which op was the last to take what another made."""

    def __init__(self, ops: OpColumns, base_ns: int) -> None:
        self._ops, self._base = ops, base_ns
        self.types = dict(
            zip(ops.facts.names.values.tolist(), ops.facts.ops.values.tolist(), strict=True)
        )
        self._readers: dict[str, list[int]] = {}
        names = ops.name.tolist()
        for row, before in enumerate(Edges.of(ops).before if len(ops) else ()):
            for maker in before:
                self._readers.setdefault(names[maker], []).append(row)

    def reader(self, op: str, since: float, until: float) -> str:
        """The last that had begun when the tensor was freed; itself, where it was over then."""
        starts, ends = self._ops.start_ns - self._base, self._ops.end_ns - self._base
        begun = [
            row
            for row in self._readers.get(op, ())
            if starts[row] <= until + 1 and ends[row] >= since
        ]
        if begun:
            return str(self._ops.name[max(begun, key=lambda row: (ends[row], row))])
        own = _rows_of(self._ops, op)
        own = own[(starts[own] <= since + 1) & (ends[own] >= until)]
        return op if len(own) else ""
