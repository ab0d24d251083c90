"""Recomputation worth its memory: tensors that are held over the peak and are cheap to make again.

A tensor that was made before the peak, that nothing reads around it and that is read after it (an
activation that the gradients need) can be freed after its last early reader, and made a second time
for the late ones. What it is made of has to be there then: a variable, a feed, or a tensor that is
held until then anyway; ops on the way to such ones are made again, too. Nothing of it may be random
or change state, and a variable that it reads must not change before.

The peak with that is told by the recorded allocations, with the tensor's life cut in two. Tensors
are taken one after the other, the cheapest per byte first, as long as the peak falls and a step
gets longer by a tenth at most.

What is not known is when the engine makes them again. It may do so as soon as the op is over that
they are told to wait for, before others that do not need them, and may hold what it needs for that
until the first of them has been read: the peak with that is the worst that is told, and the best is
taken to be as far off on the other side. Peaks of recorded runs differ, too, where ops run in
another order: by as much more the gain may be off, and by what is freed next to the peak.

Worked example, one thread: `h` (8 bytes) is made at 1, read until 2 and again at 6; the peak is at
4. Made again at 6, it is not there at 4.

>>> held = BytesOverTime(np.array([1.0, 3.0, 5.0, 7.0]), np.array([8, 20, -20, -8]))
>>> held.peak()
(3.0, 28)
>>> held.cut(8, 2.0, 6.0, beside=4).peak()
(3.0, 20)
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.analysis.advice.finding import BYTES, Evidence, Finding
from stepscope.analysis.advice.material import Material
from stepscope.analysis.advice.rewrite import Again, Rewrite
from stepscope.analysis.advice.step_finding import finding_id
from stepscope.analysis.execution.edges import input_node
from stepscope.analysis.memory.tensor_lives import tensor_lives
from stepscope.cached_property import cached_property
from stepscope.metadata.memory.allocations import PERSISTENT_KINDS
from stepscope.metadata.readable import number, size, time

if TYPE_CHECKING:
    from typing import Any

    from stepscope.analysis.advice.material import StepMaterial
    from stepscope.analysis.memory.tensor_lives import TensorLives

NAME: Final = "recompute"
_LEAST_BYTES: Final = 16 << 20
"""A peak that is lower is nobody's concern."""
_LEAST_GAIN: Final = 0.05
_MOST_ADDED: Final = 0.1
_LONGEST: Final = 6
_MOST: Final = 40
_LOOKED_AT: Final = 8
_OWN_STATE: Final = ("Random", "Multinomial", "Truncated", "Iterator", "Dequeue", "PyFunc",
                     "Placeholder", "Switch", "Merge", "Enter", "Exit", "TensorArray", "Stack",
                     "_Recv", "_Send", "Print", "While", "If", "Call")  # fmt: skip
_ALWAYS_THERE: Final = ("Const", "_Arg", "Variable", "VarHandleOp", "Placeholder")


@dataclass(frozen=True, slots=True, eq=False)
class BytesOverTime:
    """Bytes over time: `changes[i]` more are held from `moments[i]` on."""

    moments: Any
    changes: Any

    def peak(self) -> tuple[float, int]:
        """When the most bytes are held, and how many."""
        held = np.cumsum(self.changes)
        place = int(held.argmax())
        return float(self.moments[place]), int(held[place])

    def freed_beside_peak(self) -> int:
        """What is freed last before the peak, or next after it, whichever is less.

        An op that runs a moment sooner or later changes the peak by that.

        >>> BytesOverTime(np.arange(4.0), np.array([8, -3, 9, -2])).freed_beside_peak()
        2
        """
        place = int(np.cumsum(self.changes).argmax())
        before, after = -self.changes[:place], -self.changes[place:]
        frees = [*before[before > 0][-1:].tolist(), *after[after > 0][:1].tolist()]
        return int(min(frees, default=0))

    def cut(self, bytes_: int, early: float, late: float, beside: int) -> BytesOverTime:
        """With a tensor that is not held from `early` to `late`, when `beside` more are for a
        moment.
        """
        moments = np.concatenate([self.moments, [early, late, np.nextafter(late, np.inf)]])
        changes = np.concatenate([self.changes, [-bytes_, bytes_ + beside, -beside]])
        order = np.argsort(moments, kind="stable")
        return BytesOverTime(moments[order], changes[order])

    def more(self, bytes_: int, since: float, until: float) -> BytesOverTime:
        """With so many bytes more for a while.

        >>> BytesOverTime(np.array([1.0, 5.0]), np.array([8, -8])).more(4, 2.0, 3.0).peak()
        (2.0, 12)
        """
        moments = np.concatenate([self.moments, [since, until]])
        changes = np.concatenate([self.changes, [bytes_, -bytes_]])
        order = np.argsort(moments, kind="stable")
        return BytesOverTime(moments[order], changes[order])


@dataclass(frozen=True, slots=True)
class _Idle:
    """A tensor that is not read from `early` to `late`, and how it can be made again."""

    again: Again
    bytes: int
    beside: int
    early: float
    late: float
    ns: float
    soonest: float
    """When it may be made again, and until when what that takes may be held."""
    read: float


def find(material: Material) -> Iterator[Finding]:
    """A finding for the step that holds most."""
    known = [step for step in material.steps if step.peak_bytes >= _LEAST_BYTES]
    if not known:
        return
    step = max(known, key=lambda one: one.peak_bytes)
    if len(step.run.allocations):
        yield from _finding(step)


def _finding(step: StepMaterial) -> Iterator[Finding]:
    devices = step.run.allocations.devices.table
    lives = max((tensor_lives(step.run, place) for place in devices), key=_highest)
    if lives.peak < 0:
        return
    before = int(lives.live[lives.peak])
    taken, held = _taken(_Course(step, lives))
    gain = before - held.peak()[1]
    if not taken or gain < _LEAST_GAIN * before:
        return
    unknown = _unknown_bytes(step, held, taken)
    added = sum(one.ns for one in taken)
    largest = max(taken, key=lambda one: one.bytes).again.tensor
    line = step.lines.get(largest, "")
    place = line.replace("\\", "/").rpartition("/")[2]
    more = f" and {number(len(taken) - 1, 'more tensor')}" if len(taken) > 1 else ""
    yield Finding(
        id=finding_id(NAME, line),
        rule=NAME,
        title=f"`{largest}`{more} are held over the peak of {size(before)} to be read after it, "
        f"and are cheap to make again: {time(added)} a step more",
        step=step.key,
        line=line,
        unit=BYTES,
        gain=float(gain),
        low=float(gain - unknown),
        high=float(gain + unknown),
        share=gain / before,
        total_ns=0.0,
        sentence=f"`{largest}`{more} made again where they are read late would save {size(gain)} "
        f"of the peak, for {time(added)} a step" + (f": {place}" if place else ""),
        advice="work it out a second time where it is read late (tf.recompute_grad around the "
        "layers, or a second op under tf.control_dependencies of the gradients)",
        evidence=tuple(
            Evidence(
                one.again.tensor, step.types.get(one.again.tensor, ""),
                step.lines.get(one.again.tensor, ""), len(one.again.chain), one.ns, one.bytes,
            )
            for one in taken[:10]
        ),
        replayed=1,
        rewrite=Rewrite(again=tuple(one.again for one in taken)),
    )  # fmt: skip


def _unknown_bytes(step: StepMaterial, held: BytesOverTime, taken: Sequence[_Idle]) -> int:
    """By how much the peak may be higher than with `held`: at least by one byte."""
    worst = held
    for one in taken:
        if one.soonest < one.late:
            before = float(np.nextafter(one.late, -np.inf))
            worst = worst.more(one.bytes + one.beside, one.soonest, before)
        if one.beside:
            worst = worst.more(one.beside, float(np.nextafter(one.late, np.inf)), one.read)
    peaks = [run.peak_bytes() for run in step.runs]
    later = worst.peak()[1] - held.peak()[1]
    return max(1, later + held.freed_beside_peak() + max(peaks) - min(peaks))


def _highest(lives: TensorLives) -> int:
    return int(lives.live[lives.peak]) if lives.peak >= 0 else 0


def _taken(course: _Course) -> tuple[list[_Idle], BytesOverTime]:
    """What to make again, in the order in which it was chosen, and what is held with that."""
    held = course.held
    taken: list[_Idle] = []
    spent, limit = 0.0, _MOST_ADDED * course.step.typical_ns
    while len(taken) < _MOST:
        moment, peak = held.peak()
        best: tuple[_Idle, BytesOverTime] | None = None
        for idle in course.idle_at(moment, taken):
            if spent + idle.ns > limit:
                continue
            cut = held.cut(idle.bytes, idle.early, idle.late, idle.beside)
            if cut.peak()[1] < peak and (
                best is None or idle.ns / idle.bytes < best[0].ns / best[0].bytes
            ):
                best = idle, cut
        if best is None:
            break
        taken.append(best[0])
        spent += best[0].ns
        held = best[1]
    return taken, held


class _Course:
    """A run as this rule looks at it: who made what when, who read it, and what is held when."""

    def __init__(self, step: StepMaterial, lives: TensorLives) -> None:
        self.step = step
        changes = np.diff(lives.live, prepend=0)
        self.held = BytesOverTime(lives.moment, changes)
        ops = step.run.ops
        names = ops.name.tolist()
        self.starts = dict(zip(names, (ops.start_ns - lives.base_ns).tolist(), strict=True))
        self.ends = dict(zip(names, (ops.end_ns - lives.base_ns).tolist(), strict=True))
        self.once = len(self.starts) == len(names)
        """Each node executed once: in a loop nobody knows which of them is meant."""
        self.owned: dict[str, tuple[int, float, float]] = {}
        """What a node's memory is, and from when until when it is held."""
        tensors = lives.tensors
        rows = zip(
            tensors.names.values.tolist(), tensors.kinds.values.tolist(), tensors.bytes.tolist(),
            tensors.from_ns.tolist(), tensors.to_ns.tolist(), strict=True,
        )  # fmt: skip
        self.kinds: dict[str, str] = {}
        several: set[str] = set()
        for name, kind, bytes_, begin, end in rows:
            if name in self.owned:
                several.add(name)
            self.owned[name] = bytes_, begin, end
            self.kinds[name] = kind
        self._several = several
        self._known: dict[str, _Idle | None] = {}

    def idle_at(self, moment: float, taken: Sequence[_Idle]) -> list[_Idle]:
        """The largest tensors that are held at a moment without being read around it."""
        if not self.once:
            return []
        gone = {one.again.tensor for one in taken}
        needed = {
            input_node(source)
            for one in taken
            for node in one.again.chain
            for source in self.step.inputs.get(node, ())
        }
        alive = [
            name for name, (_, begin, end) in self.owned.items()
            if begin <= moment < end and name not in gone and name not in needed
            and name not in self._several and self.kinds[name] not in PERSISTENT_KINDS
        ]  # fmt: skip
        alive.sort(key=lambda name: -self.owned[name][0])
        found = []
        for name in alive[:_LOOKED_AT]:
            idle = self._idle(name, moment, gone)
            if idle is not None:
                found.append(idle)
        return found

    def _idle(self, name: str, moment: float, gone: set[str]) -> _Idle | None:
        readers = self._readers(name)
        early = [self.ends[reader] for reader in readers if self.starts[reader] <= moment]
        late = sorted((r for r in readers if self.starts[r] > moment), key=lambda r: self.starts[r])
        if not late or name not in self.ends:
            return None
        until = float(max([*early, self.ends[name]]))
        since = float(self.starts[late[0]])
        if until > moment or self.step.types[late[0]] == "_Retval":
            return None
        after = self._last_before(since, moment)
        chain = self._chain(name, since, gone)
        if after is None or chain is None or not self._keeps_variables(chain, late):
            return None
        beside = sum(self.owned[node][0] for node in chain[:-1] if node in self.owned)
        ns = sum(self.step.times.get(node, 0.0) for node in chain)
        again = Again(name, chain, after, tuple(self._direct(name, late)))
        return _Idle(
            again, self.owned[name][0], beside, until, since, ns,
            soonest=max(moment, float(self.ends[after])), read=float(self.ends[late[0]]),
        )  # fmt: skip

    @cached_property
    def reading(self) -> Mapping[str, list[str]]:
        """By each node those that read what it made."""
        found: dict[str, list[str]] = {}
        for name in self.starts:
            for source in self.step.inputs.get(name, ()):
                if not source.startswith("^"):
                    found.setdefault(input_node(source), []).append(name)
        return found

    def _readers(self, name: str) -> list[str]:
        """Who reads a node's memory, also as what shares it (a reshape, an identity)."""
        found: dict[str, None] = {}
        stack = [name]
        while stack:
            for reader in self.reading.get(stack.pop(), ()):
                if reader not in found:
                    found[reader] = None
                    if reader not in self.owned:
                        stack.append(reader)
        return list(found)

    def _direct(self, name: str, late: Sequence[str]) -> list[str]:
        """Of the late readers those that read the node itself, or what passes it on to one."""
        wanted = set(late)
        return [
            reader for reader in self.reading.get(name, ())
            if reader in wanted or (
                reader not in self.owned and wanted & set(self._readers(reader))
            )
        ]  # fmt: skip

    @cached_property
    def _by_end(self) -> list[tuple[float, int, str]]:
        """The nodes that something may be told to wait for, by their end; of one end the first."""
        return sorted(
            (end, -place, name)
            for place, (name, end) in enumerate(self.ends.items())
            if not self.step.types.get(name, "").startswith("_")
        )

    def _last_before(self, since: float, moment: float) -> str | None:
        """The op that is the last to end before then and after the moment."""
        place = bisect_right(self._by_end, (since, 1, ""))
        for end, _, name in reversed(self._by_end[:place]):
            if end <= moment:
                return None
            if self.starts[name] < since:
                return name
        return None

    def _chain(self, name: str, since: float, gone: set[str]) -> tuple[str, ...] | None:
        """The nodes to run again for a tensor at that moment, in order; None where none can be."""
        chain: dict[str, None] = {}
        stack = [name]
        while stack:
            node = stack.pop()
            if node in chain or (node != name and self._there(node, since, gone)):
                continue
            kind = self.step.types.get(node, "")
            if (
                not kind
                or kind in self.step.keeps_state
                or any(part in kind for part in _OWN_STATE)
                or len(chain) == _LONGEST
            ):
                return None
            chain[node] = None
            stack.extend(input_node(source) for source in self.step.inputs.get(node, ())
                         if not source.startswith("^"))  # fmt: skip
        return tuple(sorted(chain, key=lambda node: self.starts[node]))

    def _there(self, node: str, since: float, gone: set[str]) -> bool:
        """Whether what a node made is held at that moment anyway."""
        while node not in self.owned:
            kind = self.step.types.get(node, "")
            if kind.startswith(_ALWAYS_THERE):
                return True
            sources = [s for s in self.step.inputs.get(node, ()) if not s.startswith("^")]
            if not sources:
                return False
            node = input_node(sources[0])  # it shares the memory of what it reads
        return node not in gone and (
            self.kinds[node] in PERSISTENT_KINDS or self.owned[node][2] > since
        )

    def _keeps_variables(self, chain: Sequence[str], late: Sequence[str]) -> bool:
        """Whether no variable that these nodes read changes before the late readers have read."""
        read = set(chain)
        stack = list(chain)
        while stack:
            for source in map(input_node, self.step.inputs.get(stack.pop(), ())):
                kind = self.step.types.get(source, "")
                if source not in read and (kind in ("Identity", "ReadVariableOp") or
                                           kind.startswith(("Variable", "VarHandle"))):  # fmt: skip
                    read.add(source)
                    stack.append(source)
        changed_by = {name for source in read for name in self._changing.get(source, ())}
        if not changed_by:
            return True
        following = self._following(late)
        return all(name in following for name in changed_by)

    @cached_property
    def _changing(self) -> Mapping[str, list[str]]:
        """By each node those that read it and change what lives on."""
        found: dict[str, list[str]] = {}
        for name in self.starts:
            if self.step.types.get(name, "") in self.step.keeps_state:
                for source in map(input_node, self.step.inputs.get(name, ())):
                    found.setdefault(source, []).append(name)
        return found

    @cached_property
    def _after(self) -> Mapping[str, list[str]]:
        """By each node those that read what it made, or wait for it."""
        found: dict[str, list[str]] = {}
        for name in self.starts:
            for source in self.step.inputs.get(name, ()):
                found.setdefault(input_node(source), []).append(name)
        return found

    def _following(self, nodes: Sequence[str]) -> set[str]:
        """All that cannot begin before these are over."""
        found: set[str] = set()
        stack = list(nodes)
        while stack:
            for reader in self._after.get(stack.pop(), ()):
                if reader not in found:
                    found.add(reader)
                    stack.append(reader)
        return found
