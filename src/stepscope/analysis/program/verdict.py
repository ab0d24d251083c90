"""What limits a program: per kind of step the largest cause of its length, and the line of it.

A step's time is taken apart into what adds up to it: waiting for input (only ops that take elements
ran), Python inside of ops, layers (the rest of the time in which ops ran, by how much of the work
was theirs), and the time in which no op ran, of which the part in which functions were traced
stands apart where the program noted that. The first run of a kind is left out, for it builds,
unless there is no other.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from stepscope.analysis.input.input_pipeline import InputSums
from stepscope.analysis.intervals import self_times, sums_at
from stepscope.analysis.memory.growth import GrowthSums
from stepscope.analysis.profile.layers import layers_of
from stepscope.analysis.program.run_kinds import EAGER_CODE, RunKinds
from stepscope.analysis.program.run_parts import PYTHON_TYPES
from stepscope.analysis.program.steps import StepSums
from stepscope.analysis.program.waiting import INPUT_TYPES, covered_ns, rows_of, rows_of_pipelines
from stepscope.analysis.result import Result, made_of
from stepscope.analysis.run_length import run_span
from stepscope.analysis.runs import NamedRun, Runs, iter_named_runs, notes_at
from stepscope.metadata.program_notes import INPUT as INPUT_NOTE
from stepscope.metadata.program_notes import MEMORY as MEMORY_NOTE
from stepscope.metadata.program_notes import TRACE as TRACE_NOTE

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from stepscope.analysis.input.input_pipeline import InputPipelines
    from stepscope.analysis.input.stages import Pipeline, Stage
    from stepscope.analysis.memory.growth import GrowthRow, MemoryGrowth
    from stepscope.analysis.program.steps import StepRow, Steps
    from stepscope.metadata import Note, RunMetadata
    from stepscope.metadata.graph_facts import GraphFacts

    Ints: TypeAlias = NDArray[np.int64]

__all__ = [
    "INPUT",
    "LAYER",
    "OUTSIDE",
    "PYTHON",
    "TRACED",
    "Limit",
    "StepVerdict",
    "Verdict",
    "VerdictSums",
]
__all__ += ["notes_for_verdict", "verdict"]

INPUT: Final = "input"
PYTHON: Final = "python"
LAYER: Final = "layer"
OUTSIDE: Final = "outside"
TRACED: Final = "traced"
_LOOKED_AT: Final = 20
_THEN_EVERY: Final = 10
"""After so many runs of a kind each tenth is taken apart: the rest tells the same."""
_DEEPER: Final = 0.6
"""A layer inside another is the cause if it has so much of it."""
_STAGES: Final = {
    "MapDataset": "map",
    "ParallelMapDataset": "map",
    "ParallelMapDatasetV2": "map",
    "MapAndBatchDataset": "map",
    "FilterDataset": "filter",
    "FlatMapDataset": "flat_map",
    "InterleaveDataset": "interleave",
    "ParallelInterleaveDatasetV4": "interleave",
    "GeneratorDataset": "from_generator",
}
"""Stages of tf.data that call a function of the program."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A cause of a step's length: `ns` of an average step, which is the `share` of it.

    `kind` says what it is: `INPUT`, `PYTHON` (the op `name`), `LAYER` (its path is `name`, or the
    line where there is none), `OUTSIDE` or `TRACED` (a function was traced, and its graph made
    ready, for the call at `line`). `line` is the line of the program of most of it, `op`
    the type of op that most of it is, "" where there is no such one. Of `INPUT` it is the line of
    the stage that limits the pipeline, where that is known, and `name` what the stage is called;
    else `stages` are the functions of input pipelines that the recording has ("map", line).
    """

    kind: str
    name: str
    line: str
    ns: float
    share: float
    op: str = ""
    stages: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class StepVerdict:
    """What limits the runs of a kind: `limits` from the largest; none where no op was recorded.

    `looked_at` runs were taken apart for that; `first` says that the only one was the first.
    """

    step: StepRow
    limits: tuple[Limit, ...]
    looked_at: int
    first: bool


@dataclass(frozen=True, slots=True)
class Verdict(Result):
    """A row per kind of step, in the order of the time they took in all.

    `pipelines` are what they took elements from, as far as it is known, and `leaks` are the owners
    of memory that grow from step to step.
    """

    rows: tuple[StepVerdict, ...]
    runs: int
    total_ns: int
    pipelines: tuple[Pipeline, ...] = ()
    leaks: tuple[GrowthRow, ...] = ()


def verdict(runs: Runs, notes: Iterable[Note] = ()) -> Verdict:
    """What limits the runs, by what ran; `notes` are `notes_for_verdict` of their program."""
    sums = VerdictSums()
    for run in iter_named_runs(runs):
        sums.add(run)
    return made_of(sums.verdict(notes), runs)


def notes_for_verdict(path: str | os.PathLike[str]) -> list[Note]:
    """What the program that was recorded at a path noted beside its runs, for its verdict."""
    return notes_at(path, INPUT_NOTE, MEMORY_NOTE, TRACE_NOTE)


class VerdictSums:
    """A verdict that is made while runs are read for something else."""

    def __init__(self) -> None:
        self._names = RunKinds()
        self._steps = StepSums()
        self._kinds: dict[str, _Kind] = {}
        self._stages: dict[tuple[str, str], None] = {}
        self._inputs = InputSums()
        self._growth = GrowthSums()

    def passing(self, runs: Iterable[tuple[str, RunMetadata]]) -> Iterator[NamedRun]:
        """The runs, each taken in on its way."""
        for name, metadata in runs:
            run = NamedRun(name, metadata)
            self.add(run)
            yield run

    def add(self, run: NamedRun) -> str:
        """Take in the next run; of what kind it is."""
        what = self._names.of(run)
        self._steps.add(what, run)
        self._inputs.add(what, run)
        self._growth.add(what, run)
        kind = self._kinds.get(what)
        if kind is None:
            kind = self._kinds[what] = _Kind(what)
        kind.add(run.metadata)
        if "tensorflow" in run.metadata.engine:
            self._stages.update(dict.fromkeys(_stages(run.metadata)))
        return what

    def steps(self) -> Steps:
        """How long the steps of each kind took so far."""
        return self._steps.steps()

    def inputs(self, notes: Iterable[Note] = ()) -> InputPipelines:
        """What the runs so far took elements from."""
        return self._inputs.pipelines(notes)

    def growth(self, notes: Iterable[Note] = ()) -> MemoryGrowth:
        """What the runs so far hold more of from step to step."""
        return self._growth.growth(notes)

    def verdict(self, notes: Iterable[Note] = ()) -> Verdict:
        """Of the runs so far, and of `notes_for_verdict` of their program."""
        notes = list(notes)
        steps = self._steps.steps()
        pipelines = self._inputs.pipelines(notes).pipelines
        traces = [note for note in notes if note.kind == TRACE_NOTE and note.ended_ns]
        rows = []
        for row in steps:
            stage = _limiting(pipelines, "" if row.key == EAGER_CODE else row.key)
            rows.append(self._kinds[row.key].verdict(row, list(self._stages), stage, traces))
        leaks = self._growth.growth(notes).leaks
        return Verdict(tuple(rows), steps.runs, steps.total_ns, pipelines, leaks)


def _limiting(pipelines: Iterable[Pipeline], what: str) -> Stage | None:
    """The stage that limits what runs of a kind take elements from."""
    found = (pipeline.limiting for pipeline in pipelines if what in pipeline.taken_by)
    return next((stage for stage in found if stage is not None), None)


def _stages(run: RunMetadata) -> Iterator[tuple[str, str]]:
    """The functions of the program in input pipelines that this run made."""
    facts = run.ops.facts
    kinds = [code for code, kind in enumerate(facts.ops.table) if kind in _STAGES]
    if not kinds:
        return
    sources = run.sources
    for node in np.flatnonzero(np.isin(facts.ops.codes, kinds)).tolist():
        line = sources.get(facts.names.values[node], "")
        if line:
            yield _STAGES[facts.ops.values[node]], line


@dataclass(slots=True)
class _Sums:
    """Of some runs: how long they took in all, and what ran in that time."""

    runs: int = 0
    ns: int = 0
    input_ns: int = 0
    outside_ns: int = 0
    spans: list[tuple[int, int, int]] = field(default_factory=list)
    """When each began and ended, and how long no op ran; none of eager code."""
    work: Ints = field(default_factory=lambda: np.zeros(0, np.int64))

    def add(self, ns: int, input_ns: int, outside_ns: int, work: Ints) -> None:
        self.runs += 1
        self.ns += ns
        self.input_ns += input_ns
        self.outside_ns += outside_ns
        grown = np.pad(self.work, (0, len(work) - len(self.work)))
        self.work = grown + work


class _Kind:
    def __init__(self, name: str) -> None:
        self._name = name
        self._seen = 0
        self._first, self._rest = _Sums(), _Sums()
        self._nodes: dict[str, int] = {}
        self._types: list[str] = []
        self._lines: list[str] = []
        self._layers: list[str] = []
        self._places: dict[int, tuple[GraphFacts, Ints]] = {}

    def add(self, run: RunMetadata) -> None:
        if not run.status.ok:
            return
        number, self._seen = self._seen, self._seen + 1
        if not len(run.ops) or (number > _LOOKED_AT and number % _THEN_EVERY):
            return
        ops = run.ops
        place = self._place(run)[ops.node]
        own = self_times(ops.start_ns, ops.end_ns, ops.thread)
        mine = ~rows_of_pipelines(ops)
        works = mine & ~rows_of(ops, INPUT_TYPES)
        work = sums_at(place[works], own[works], len(self._nodes))
        covered = covered_ns(ops, mine)
        input_ns = covered - covered_ns(ops, works)
        began, ended = run_span(run)
        ns = covered if self._name == EAGER_CODE else ended - began
        sums = self._rest if number else self._first
        sums.add(ns, input_ns, max(0, ns - covered), work)
        if self._name != EAGER_CODE:
            sums.spans.append((began, ended, max(0, ns - covered)))

    def _place(self, run: RunMetadata) -> Ints:
        facts = run.ops.facts
        known = self._places.get(id(facts))
        if known is not None:
            return known[1]
        sources, places = run.sources, layers_of(run)
        found = np.empty(len(facts), np.int64)
        for row, (name, kind) in enumerate(
            zip(facts.names.values.tolist(), facts.ops.values.tolist(), strict=True)
        ):
            if name not in self._nodes:
                self._nodes[name] = len(self._nodes)
                self._types.append(kind)
                self._lines.append(sources.get(name, ""))
                self._layers.append(places[row].layer)
            found[row] = self._nodes[name]
        self._places[id(facts)] = (facts, found)
        return found

    def verdict(
        self,
        step: StepRow,
        stages: list[tuple[str, str]],
        stage: Stage | None,
        traces: Sequence[Note],
    ) -> StepVerdict:
        only_first = not self._rest.runs
        sums = self._first if only_first else self._rest
        limits = self._limits(sums, stages, stage) if sums.ns else []
        limits = _with_traces(limits, sums, traces)
        limits.sort(key=lambda limit: -limit.ns)
        return StepVerdict(step, tuple(limits), sums.runs, only_first)

    def _limits(
        self, sums: _Sums, stages: list[tuple[str, str]], stage: Stage | None
    ) -> list[Limit]:
        whole = int(sums.work.sum())
        busy = max(0, sums.ns - sums.input_ns - sums.outside_ns)
        names = list(self._nodes)

        def limit(kind: str, name: str, ns: float, nodes: list[int]) -> Limit:
            line = _most((self._lines[node], int(sums.work[node])) for node in nodes)[0]
            op, of_it = _most((self._types[node], int(sums.work[node])) for node in nodes)
            mostly = op if of_it > _DEEPER * sum(int(sums.work[n]) for n in nodes) else ""
            return Limit(kind, name, line, ns / sums.runs, ns / sums.ns, mostly)

        found = []
        if sums.input_ns:
            nodes = [n for n, kind in enumerate(self._types) if kind in INPUT_TYPES]
            line = next((self._lines[node] for node in nodes if self._lines[node]), "")
            others = tuple(stage for stage in stages if stage[1] != line)
            ns, share = sums.input_ns / sums.runs, sums.input_ns / sums.ns
            if stage is None:
                found.append(Limit(INPUT, "", line, ns, share, "", others))
            else:
                found.append(Limit(INPUT, stage.stage, stage.line or line, ns, share, stage.name))
        if sums.outside_ns:
            ns, share = sums.outside_ns / sums.runs, sums.outside_ns / sums.ns
            found.append(Limit(OUTSIDE, "", "", ns, share))
        if not whole:
            return found
        tree: dict[str, list[int]] = {}
        for node in np.flatnonzero(sums.work).tolist():
            if self._types[node] in PYTHON_TYPES:
                ns = busy * int(sums.work[node]) / whole
                found.append(limit(PYTHON, names[node], ns, [node]))
                continue
            path = self._layers[node]
            while path:
                tree.setdefault(path, []).append(node)
                path = path.rpartition("/")[0]
        for path, nodes in _causes(tree, sums.work):
            ns = busy * sum(int(sums.work[node]) for node in nodes) / whole
            found.append(limit(LAYER, path, ns, nodes))
        return found


def _with_traces(limits: list[Limit], sums: _Sums, traces: Sequence[Note]) -> list[Limit]:
    """With what it cost that runs were traced taken out of what was outside of all ops.

    That is the tracing, and what else such a run is longer outside of its ops than others: the new
    graph is optimized and made ready there.
    """
    outside = next((limit for limit in limits if limit.kind == OUTSIDE), None)
    if outside is None or not traces or not sums.spans:
        return limits
    began, ended, idle = np.array(sums.spans, np.int64).T
    traced = np.zeros(len(began), np.int64)
    by_line: Counter[str] = Counter()
    until = 0
    for note in sorted(traces, key=lambda note: (note.started_ns, -note.ended_ns)):
        # One that is traced while another is counts with that.
        since, until = max(until, note.started_ns), max(until, note.ended_ns)
        inside = np.maximum(np.minimum(ended, note.ended_ns) - np.maximum(began, since), 0)
        traced += inside
        by_line[note.where] += int(inside.sum())
    if not traced.any():
        return limits
    others = idle[traced == 0]
    if len(others):
        longer = np.maximum(idle - int(np.median(others)), traced)
        traced = np.where(traced > 0, longer, 0)
    each = int(np.minimum(traced, idle).sum()) / sums.runs
    line = by_line.most_common(1)[0][0]
    length = sums.ns / sums.runs
    return [
        *(limit for limit in limits if limit is not outside),
        Limit(TRACED, "", line, each, each / length),
        replace(outside, ns=outside.ns - each, share=(outside.ns - each) / length),
    ]


def _causes(tree: dict[str, list[int]], work: Ints) -> Iterator[tuple[str, list[int]]]:
    """Layers and their nodes, each node in one of them.

    A layer counts as a whole, unless one inside it has most of it: then what is inside counts.
    """
    sizes = {path: sum(int(work[node]) for node in nodes) for path, nodes in tree.items()}
    below: dict[str, list[str]] = {}
    for path in tree:
        below.setdefault(path.rpartition("/")[0], []).append(path)
    waiting = list(below.get("", ()))
    while waiting:
        path = waiting.pop()
        inside = below.get(path, [])
        nodes = tree[path]
        if any(sizes[inner] >= _DEEPER * sizes[path] for inner in inside):
            waiting += inside
            taken = {node for inner in inside for node in tree[inner]}
            nodes = [node for node in nodes if node not in taken]
        if nodes:
            yield path, nodes


def _most(parts: Iterable[tuple[str, int]]) -> tuple[str, int]:
    """The text that has most, and how much that is."""
    sums: dict[str, int] = {}
    for text, ns in parts:
        if text:
            sums[text] = sums.get(text, 0) + ns
    return max(sums.items(), key=lambda item: item[1]) if sums else ("", 0)
