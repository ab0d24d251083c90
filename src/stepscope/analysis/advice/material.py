"""What rules look at: per kind of step some of its runs, as work that can be replayed.

Of each kind a few runs are kept while runs are read, evenly over the recording: the first one,
which builds, only where there is no other.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from stepscope.analysis.replay import Change, Prediction, RecordedWork, WorkReader, predict
from stepscope.cached_property import cached_property
from stepscope.metadata.wire.labels import parse_label

if TYPE_CHECKING:
    from stepscope.analysis.advice.feeds import Feed
    from stepscope.analysis.input.input_pipeline import InputPipelines
    from stepscope.analysis.memory.growth import MemoryGrowth
    from stepscope.analysis.program.retraces import Retraces
    from stepscope.analysis.program.steps import StepRow
    from stepscope.metadata import Program, RunMetadata

__all__ = ["KindRuns", "Material", "StepMaterial", "fed_name"]

_KEPT: Final = 12
_ARG: Final = re.compile(r"_arg_(.*)_\d+_\d+\Z", re.DOTALL)
_HANDING_OVER: Final = (0.08, 1.0)
"""Nanoseconds that TensorFlow takes to copy a byte that is fed: at least, where it goes to memory
that is there already, and at most, to pages that the system has to give first."""
_FREEING: Final = 0.01
"""Nanoseconds that giving a byte back takes at most."""
STATEFUL: Final = ("Assign", "Apply", "Scatter", "Enqueue", "Write", "Save", "Insert", "Push")
"""An op type with such a part in its name changes what lives on."""


def fed_name(node: str) -> str | None:
    """The node that is fed as this one; None where it is none of a session's feeds.

    >>> fed_name("_arg_x_0_0"), fed_name("x")
    ('x', None)
    """
    found = _ARG.match(node)
    return found[1] if found else None


class KindRuns:
    """Keeps some runs of a kind, evenly over all of them."""

    def __init__(self) -> None:
        self._first: RunMetadata | None = None
        self._kept: list[RunMetadata] = []
        self._every = 1
        self._seen = 0

    def add(self, run: RunMetadata) -> None:
        """Take in the next run."""
        if not run.status.ok or not len(run.ops):
            return
        if self._first is None:
            self._first = run
            return
        if self._seen % self._every == 0:
            self._kept.append(run)
            if len(self._kept) > 2 * _KEPT:
                self._kept = self._kept[::2]
                self._every *= 2
        self._seen += 1

    @property
    def runs(self) -> list[RunMetadata]:
        """At most a dozen; none where no run has ops."""
        if not self._kept:
            return [self._first] if self._first is not None else []
        every = -(-len(self._kept) // _KEPT)
        return self._kept[::every]


@dataclass(eq=False)
class StepMaterial:
    """A kind of step: how long it takes, and some of its runs."""

    step: StepRow
    runs: Sequence[RunMetadata]
    reader: WorkReader

    @property
    def key(self) -> str:
        """What ran."""
        return self.step.key

    @property
    def typical_ns(self) -> float:
        """How long a step takes: the median without the first."""
        return self.step.median_ns or float(self.step.first_ns)

    @cached_property
    def works(self) -> list[RecordedWork]:
        """The runs as work."""
        return [self.reader.read(run) for run in self.runs]

    @cached_property
    def replayed(self) -> list[float]:
        """How long the replay of each of them takes, without any change."""
        return [work.replayed_ns() for work in self.works]

    @property
    def run(self) -> RunMetadata:
        """One of them, which is as good as any."""
        return self.runs[len(self.runs) // 2]

    @property
    def work(self) -> RecordedWork:
        """The same as work."""
        return self.works[len(self.works) // 2]

    def predict(self, changed_ns: Callable[[RecordedWork], float]) -> Prediction:
        """What a step gains whose replay takes `changed_ns`.

        The runs that are replayed are some of them: what is told of these is scaled to what a step
        takes in the whole recording. What a busy machine took of a run (its call was longer than
        that of others) it would take of a shorter one in proportion.
        """
        changed = self._as_busy(changed_ns)
        return predict(self.works, changed, self.replayed).times(self._scale)

    def gain_ns(self, changed_ns: Callable[[RecordedWork], float]) -> float:
        """The gain that `predict` has, without its interval."""
        changed = self._as_busy(changed_ns)
        gains = [ns - changed(run) for run, ns in zip(self.works, self.replayed, strict=True)]
        return self._scale * float(np.median(gains))

    def _as_busy(
        self, changed_ns: Callable[[RecordedWork], float]
    ) -> Callable[[RecordedWork], float]:
        """The same with what a busy machine takes of the shorter run."""
        call = float(np.quantile([work.around_ns for work in self.works], 0.1))
        unchanged = {id(work): ns for work, ns in zip(self.works, self.replayed, strict=True)}

        def changed(run: RecordedWork) -> float:
            ns, whole = changed_ns(run), max(1.0, unchanged[id(run)])
            return ns - max(0.0, run.around_ns - call) * (1 - ns / whole)

        return changed

    @property
    def _scale(self) -> float:
        """What a step takes in the whole recording, of what it takes in these runs."""
        some = float(np.median([work.recorded_ns for work in self.works]))
        return self.typical_ns / some if some > 0 else 1.0

    def may_gain(self, share: float, names: Iterable[str]) -> bool:
        """Whether a step may take that much less without these nodes; a replay says by how much.

        What they and handing them over took is what there is to gain, and the order in which the
        others run then: that is allowed as much again.
        """
        if self.run.engine == "embedded":  # what they made is freed with the call, which is a gain
            return True
        gone = frozenset(names)
        took = [
            sum(
                length + delay
                for name, length, delay in zip(
                    work.nodes, work.work.lengths, work.work.delays, strict=True
                )
                if name in gone
            )
            / max(1, work.recorded_ns)
            for work in self.works
        ]
        return 2 * float(np.median(took)) >= share

    def predict_without(self, names: Iterable[str]) -> Prediction:
        """What a step gains in which these nodes do not run.

        The embedded engine gives back what ops made when the call ends, so that a part of what the
        call takes beside its ops goes with them: up to the share that they have of the bytes.
        """
        gone = frozenset(names)
        gain = self.predict(Change(without=gone).replayed_ns)
        if self.run.engine != "embedded":
            return gain
        made = sum(self.sizes.values())
        freed = sum(self.sizes.get(name, 0) for name in gone)
        around = float(np.median([work.around_ns for work in self.works]))
        return gain.plus(0.0, min(_FREEING * freed, around * freed / max(1, made)))

    def predict_unfed(self, names: Iterable[str], size: int) -> Prediction:
        """The same where the nodes follow from what is fed, and these bytes need not be fed either.

        TensorFlow copies what a session is fed before the first op runs; the embedded engine reads
        it where it is.
        """
        gain = self.predict_without(names)
        if self.run.engine == "embedded":
            return gain
        around = float(np.median([work.around_ns for work in self.works]))
        return gain.plus(*(min(around, each * size) for each in _HANDING_OVER))

    @cached_property
    def lines(self) -> Mapping[str, str]:
        """The line that made each node."""
        return self.run.sources

    @cached_property
    def types(self) -> dict[str, str]:
        """The type of each node that ran."""
        return dict(zip(self.work.nodes, self.work.types, strict=True))

    @cached_property
    def times(self) -> dict[str, float]:
        """How long each node ran in a step: the median over the runs."""
        found: dict[str, list[float]] = {}
        for work in self.works:
            mine: Counter[str] = Counter()
            for name, ns in zip(work.nodes, work.work.lengths, strict=True):
                mine[name] += int(ns)
            for name, total in mine.items():
                found.setdefault(name, []).append(float(total))
        return {name: float(np.median(times)) for name, times in found.items()}

    @cached_property
    def counts(self) -> Counter[str]:
        """How often each node ran in a step."""
        return Counter(self.work.nodes)

    @cached_property
    def inputs(self) -> dict[str, list[str]]:
        """What each node reads and waits for; control inputs begin with ^."""
        facts = self.run.ops.facts
        labels = facts.all_labels.values.tolist()
        names = facts.names.values.tolist()
        return {
            name: list(parse_label(name, label)[1])
            for name, label in zip(names, labels, strict=True)
        }

    @cached_property
    def devices(self) -> dict[str, str]:
        """On which device each node ran."""
        facts = self.run.ops.facts
        return dict(zip(facts.names.values.tolist(), facts.devices.values.tolist(), strict=True))

    @cached_property
    def sizes(self) -> dict[str, int]:
        """How many bytes each node put out."""
        ops = self.run.ops
        found: dict[str, int] = {}
        for name, size in zip(ops.name.tolist(), ops.output_bytes.tolist(), strict=True):
            found[name] = max(found.get(name, 0), size)
        return found

    @cached_property
    def keeps_state(self) -> frozenset[str]:
        """The op types that change what lives on."""
        kinds = set(self.types.values())
        return frozenset(kind for kind in kinds if any(part in kind for part in STATEFUL))

    @cached_property
    def peak_bytes(self) -> int:
        """How much memory a step holds at most; 0 where that was not recorded."""
        return max(run.peak_bytes() for run in self.runs)

    def line_of_feed(self, name: str) -> str:
        """The line of what is fed as this node, or that reads it first."""
        fed = fed_name(name)
        known = self.lines.get(name) or self.lines.get(fed or "")
        if known:
            return known
        readers = (reader for reader, inputs in self.inputs.items() if name in inputs)
        return next((self.lines[reader] for reader in readers if reader in self.lines), "")

    def line_of(self, names: Sequence[str]) -> str:
        """The line of most of the time of these nodes."""
        sums: Counter[str] = Counter()
        for name in names:
            if self.lines.get(name):
                sums[self.lines[name]] += int(self.times.get(name, 0.0)) + 1
        return sums.most_common(1)[0][0] if sums else ""


@dataclass(frozen=True, eq=False)
class Material:
    """All that is known of a program: its steps, and what was noted beside them."""

    steps: Sequence[StepMaterial]
    total_ns: int
    runs: int
    program: Program | None = None
    retraces: Retraces | None = None
    feeds: Sequence[Feed] | None = None
    input: InputPipelines | None = None
    growth: MemoryGrowth | None = None
    lacking: list[str] = field(default_factory=list)

    def lacks(self, what: str) -> None:
        """Say what a rule would need; once."""
        if what not in self.lacking:
            self.lacking.append(what)
