"""Pipelines of tf.data, from the counts that a recorded program noted of its iterators.

Counts grow from one moment to the next; what grew, over the elements put out meanwhile, is what an
element took. Iterators over datasets that were made in the same lines (one per epoch) are one
pipeline. What came before the second moment is the first element's: filling buffers.

Elements that a graph takes (a session's iterator, a dataset inside of a function) are not counted:
there the stages are known, and how long runs waited in the ops that take them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

from stepscope.analysis.input.input_model import Model, StageCost, changes
from stepscope.analysis.input.stages import DATASET, UNKNOWN, Pipeline, Stage
from stepscope.metadata import Note

__all__ = ["dataset_pipelines"]

_FAR: Final = 5.0
"""A stretch in which elements took so many times as long as usual had something else in it."""
_HIDDEN: Final = frozenset({"Root", "Model", "Finalize", "MaxIntraOpParallelism"})
_AHEAD: Final = ("Prefetch",)
_MAY_BE_PARALLEL: Final = frozenset({"map", "interleave"})
_NO_COUNTS: Final = (
    "TensorFlow did not count what its stages did: that takes a dataset whose "
    "options().autotune.enabled is not off"
)
_TOO_FEW: Final = "too few elements were taken to tell what one takes; take some 10 at least"


class InputWait(NamedTuple):
    """A run took elements: what ran, when it began, and how long only ops that take them ran."""

    what: str
    start_ns: int
    ns: int


def dataset_pipelines(notes: Iterable[Note], waits: Sequence[InputWait]) -> list[Pipeline]:
    """The pipelines that notes of kind "input" tell of, with what runs waited for."""
    last: dict[Any, Note] = {}
    for note in notes:
        last[note.details.get("pipeline")] = note
    alike: defaultdict[Any, list[Note]] = defaultdict(list)
    for note in last.values():
        alike[_signature(note)].append(note)
    in_graphs = [group for group in alike.values() if group[0].details.get("in_graph")]
    found = []
    for number, group in enumerate(alike.values()):
        if group[0].details.get("in_graph"):
            # Which of several a run takes from, no record says.
            mine = _not_counted(waits, alike.values()) if len(in_graphs) == 1 else []
            found.append(_in_graph(number, group, mine))
        else:
            found.append(_pipeline(number, group, waits))
    return found


def _not_counted(waits: Sequence[InputWait], groups: Iterable[list[Note]]) -> list[InputWait]:
    """What runs waited for that takes from no iterator with counts."""
    known = {
        name for notes in groups for note in notes for name in note.details.get("taken_by", ())
    }
    return [wait for wait in waits if wait.what not in known]


def _in_graph(number: int, notes: list[Note], waits: Sequence[InputWait]) -> Pipeline:
    """A pipeline whose elements a graph takes, by what runs waited for."""
    details = notes[0].details
    known = details.get("stages", [])
    shown = list(range(len(known)))[::-1]
    starts = sorted(wait.start_ns for wait in waits)
    period = float(np.median(np.diff(starts))) if len(starts) > 1 else 0.0
    rest = [wait.ns for wait in waits[1:]]
    return Pipeline(
        number, DATASET, f"dataset {number}", notes[0].where,
        tuple(sorted({wait.what for wait in waits})), len(notes), len(waits), period,
        min(period, float(np.mean(rest))) if rest else 0.0, waits[0].ns if waits else 0, -1,
        tuple(_stage(number, known[at], shown) for at in shown), -1, (), 0.0,
        f"what its stages took is not known: {details['problem']}",
    )  # fmt: skip


def _signature(note: Note) -> Any:
    stages = tuple(
        (stage.get("name", stage["kind"]), stage["line"])
        for stage in note.details.get("stages", ())
    )
    return note.where, stages, tuple(sorted(note.details.get("taken_by", {})))


def _pipeline(number: int, notes: list[Note], waits: Sequence[InputWait]) -> Pipeline:
    details = notes[0].details
    known = details.get("stages", [])
    taken_by = tuple(sorted(details.get("taken_by", {})))
    counted = _Counted(notes)
    taken = sum(sum(note.details.get("taken_by", {}).values()) for note in notes)
    problem = next((note.details["problem"] for note in notes if "problem" in note.details), "")
    place = Pipeline(
        number, DATASET, f"dataset {number}", notes[0].where, taken_by, len(notes), taken, 0.0, 0.0,
        0, -1, (), -1, (), 0.0,
    )  # fmt: skip
    shown = [at for at, stage in enumerate(known) if stage.get("name", "") not in _HIDDEN]
    shown.reverse()  # in the order of the data
    if counted.elements == 0:
        stages = tuple(_stage(number, known[at], shown) for at in shown)
        lacking = f"{_NO_COUNTS} ({problem})" if problem else _TOO_FEW
        return replace(place, stages=stages, lacking=lacking)
    wait, first_ns = _waited(notes, taken_by, waits)
    period = counted.period_ns
    wait = min(wait, period)
    own = counted.own_ns(known)
    steps = tuple(_step(known[at], own[at], shown) for at in shown)
    inside = sum(step.own_ns for step in _on_callers_thread(steps))
    model = Model(
        steps,
        max(0.0, period - max(wait, inside)),
        counted.cpu_ns,
        int(details.get("cores", 1)),
        counted.cpu_ns if any(step.python for step in steps) else 0.0,
    )
    limit = model.limit if wait > 0.02 * period else None
    sizes = tuple(max(note.details["stages"][at].get("bytes", 0) for note in notes) for at in shown)
    found = changes(model, period, counted.error_ns, sizes) if limit is not None else []
    # Nothing can be saved that was not waited for.
    found = [
        replace(
            one,
            saves_ns=min(one.saves_ns, wait),
            low_ns=min(one.low_ns, wait),
            high_ns=min(one.high_ns, wait),
        )
        for one in found
    ]
    first_stage = counted.first_stage(shown)
    stages = tuple(
        _stage(
            number, known[at], shown, counted, own[at], *_standing(model, place_, limit, period),
            limits=place_ == limit, at=at,
        )
        for place_, at in enumerate(shown)
    )  # fmt: skip
    return replace(
        place, elements=taken, period_ns=period, wait_ns=wait, first_ns=first_ns,
        first_stage=first_stage if first_ns else -1, stages=stages,
        limit=-1 if limit is None else limit, changes=tuple(found), told_ns=model.period_ns,
    )  # fmt: skip


def _on_callers_thread(steps: Sequence[StageCost]) -> list[StageCost]:
    found = []
    waiting = [len(steps) - 1] if steps else []
    while waiting:
        step = steps[waiting.pop()]
        if not step.asynchronous:
            found.append(step)
            waiting += step.inputs
    return found


def _inputs(stage: dict[str, Any], shown: list[int]) -> tuple[int, ...]:
    return tuple(shown.index(at) for at in stage.get("inputs", ()) if at in shown)


def _step(stage: dict[str, Any], own_ns: float, shown: list[int]) -> StageCost:
    name = stage["name"]
    parallel = name.startswith("Parallel") or "AndBatch" in name
    return StageCost(
        stage["kind"] or name,
        own_ns,
        max(1, stage["parallelism"]) if parallel else 0,
        _inputs(stage, shown),
        stage["kind"] in _MAY_BE_PARALLEL,
        bool(stage.get("python")),
        name in _AHEAD,
    )


def _stage(
    pipeline: int, stage: dict[str, Any], shown: list[int], counted: _Counted | None = None,
    own_ns: float = 0.0, waiting_ns: float = 0.0, waits_for: str = "", *, limits: bool = False,
    at: int = -1,
) -> Stage:  # fmt: skip
    return Stage(
        pipeline=pipeline,
        stage=stage["kind"] or stage.get("name", ""),
        name=stage.get("name", ""),
        line=stage["line"],
        function=stage["function"],
        defined=stage["defined"],
        elements=counted.elements_of(at) if counted is not None else 0,
        own_ns=own_ns,
        waiting_ns=waiting_ns,
        waits_for=waits_for,
        calls=_step(stage, 0.0, shown).calls if "name" in stage else 0,
        tuned=bool(stage.get("tuned")),
        buffer=int(stage.get("buffer", 0)),
        buffered=counted.buffered(at) if counted is not None else UNKNOWN,
        limits=limits,
        inputs=_inputs(stage, shown),
        python=bool(stage.get("python")),
    )


def _standing(model: Model, place: int, limit: int | None, period: float) -> tuple[float, str]:
    """How long a stage stands still with each element, and for what."""
    step = model.steps[place]
    waiting = max(0.0, period - step.own_ns / max(1, step.calls))
    if limit is None:
        return waiting, "room" if waiting else ""
    mine = next(places for _, places in model.threads() if place in places)
    if place == limit and len(mine) == 1:
        return waiting, ""
    if limit in mine:
        return waiting, "turn" if waiting > 0.01 * period else ""
    return waiting, "input" if limit in _before(model, place) else "room"


def _before(model: Model, place: int) -> set[int]:
    found: set[int] = set()
    waiting = list(model.steps[place].inputs)
    while waiting:
        number = waiting.pop()
        found.add(number)
        waiting += model.steps[number].inputs
    return found


def _waited(
    notes: list[Note], taken_by: tuple[str, ...], waits: Sequence[InputWait]
) -> tuple[float, int]:
    """How long the program waited for an element, on average and without the first; and for that.

    Of several iterators it is the first element for which it waited longest.
    """
    rest, firsts = [], [0]
    for note in notes:
        during = [
            wait.ns
            for wait in waits
            if wait.what in taken_by and note.started_ns <= wait.start_ns <= note.ended_ns
        ]
        rest += during[1:]
        firsts += during[:1]
    if rest:
        return float(np.mean(rest)), max(firsts)
    waited = [int(note.details.get("waited_ns", 0)) for note in notes]
    first = [int(note.details.get("first_waited_ns", 0)) for note in notes]
    times = sum(_waits(note.details) for note in notes)
    return max(0, sum(waited) - sum(first)) / max(1, times - len(notes)), max([*first, *firsts])


def _waits(details: Mapping[str, Any]) -> int:
    """For how many elements it was noted how long they were waited for."""
    if "waits" in details:
        return int(details["waits"])
    return int(details.get("taken_by", {}).get("", 0))  # TensorFlow's: by eager code


class _Counted:
    """What was counted over the iterators of a pipeline, as what an element took."""

    def __init__(self, notes: list[Note]) -> None:
        self._notes = [note for note in notes if note.details.get("moments")]
        lengths, elements, every, own, cpu = [], [], [], [], []
        for note in self._notes:
            details = note.details
            moments = np.array(details["moments"], np.int64)
            put_out = np.array(details["elements"], np.int64)
            lengths.append(np.diff(moments))
            elements.append(np.diff(put_out[:, 0]))
            every.append(np.diff(put_out, axis=0))
            own.append(np.diff(np.array(details["own_ns"], np.int64), axis=0))
            processor = details.get("cpu_ns") or [0] * len(moments)
            cpu.append(np.diff(np.array(processor, np.int64)))
        size = min((part.shape[1] for part in own), default=0)
        self._lengths = np.concatenate(lengths) if lengths else np.zeros(0, np.int64)
        self._elements = np.concatenate(elements) if elements else np.zeros(0, np.int64)
        self._own = np.concatenate([part[:, :size] for part in own]) if own else np.zeros((0, 0))
        self._put_out = (
            np.concatenate([part[:, :size] for part in every]) if every else np.zeros((0, 0))
        )
        self._cpu = np.concatenate(cpu) if cpu else np.zeros(0, np.int64)
        self._keep_usual()

    def _keep_usual(self) -> None:
        """Leave out stretches in which the program did something else for long."""
        some = self._elements > 0
        if not some.any():
            self.elements = 0
            return
        each = self._lengths[some] / self._elements[some]
        usual = np.zeros(len(self._lengths), bool)
        usual[some] = each <= _FAR * np.median(each)
        # What was worked ahead in stretches without an element belongs to the next one.
        usual |= self._elements == 0
        self._lengths, self._elements = self._lengths[usual], self._elements[usual]
        self._own, self._cpu = self._own[usual], self._cpu[usual]
        self._put_out = self._put_out[usual]
        self.elements = int(self._elements.sum())

    @property
    def period_ns(self) -> float:
        return float(self._lengths.sum()) / self.elements

    @property
    def cpu_ns(self) -> float:
        return float(self._cpu.sum()) / self.elements

    @property
    def error_ns(self) -> float:
        """Twice the standard error of the time from one element to the next."""
        some = self._elements > 0
        each = self._lengths[some] / self._elements[some]
        return 2 * float(each.std(ddof=1)) / len(each) ** 0.5 if len(each) > 1 else float(each[0])

    def own_ns(self, stages: list[dict[str, Any]]) -> list[float]:
        """Of each stage, per element of the pipeline.

        What a stage took for one element of its own, times how many of them make one of the
        pipeline's: what lay in buffers at the first or the last moment is in neither.
        """
        grown, own = self._put_out.sum(axis=0), self._own.sum(axis=0)
        found = [0.0] * len(stages)
        waiting = [(0, 1.0)]
        while waiting:
            at, rate = waiting.pop()
            if at >= len(own):
                continue
            found[at] = rate * float(own[at]) / grown[at] if grown[at] else 0.0
            for number in stages[at]["inputs"]:
                if stages[number].get("nested") and not stages[at].get("nested"):
                    waiting.append((number, rate))  # each element comes from one of these
                elif stages[at].get("ratio"):
                    waiting.append((number, rate * stages[at]["ratio"]))
                elif number < len(grown):
                    waiting.append((number, rate * float(grown[number]) / max(1, grown[at])))
        return found

    def elements_of(self, at: int) -> int:
        rows = [note.details["elements"][-1] for note in self._notes]
        return sum(int(row[at]) for row in rows if at < len(row))

    def buffered(self, at: int) -> float:
        """How many elements lay in a stage's buffer, on average after the first moments."""
        found = [
            row[at]
            for note in self._notes
            for row in note.details["buffered"][1:] or note.details["buffered"]
            if at < len(row)
        ]
        return float(np.mean(found)) if found else UNKNOWN

    def first_stage(self, shown: list[int]) -> int:
        """The stage in which most of the time was spent until the first element was there."""
        note = max(self._notes, key=lambda note: sum(note.details["own_ns"][0]))
        own = note.details["own_ns"][0]
        return max(range(len(shown)), key=lambda place: own[shown[place]], default=-1)
