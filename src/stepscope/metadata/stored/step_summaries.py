"""What is known of all steps of a kind, also of those that were not kept: counts, sums, quantiles.

A recorder with a budget keeps few runs of many. Of all it counts how many there were and how long
they took, and of those whose op times it noted what each op took. That does not grow with the
steps, and answers for all of them: what noted runs took, times all runs over noted ones.

>>> from stepscope.metadata import OpColumns
>>> summary = StepSummary("train_step", "embedded")
>>> for ms in (3, 5, 4):
...     summary.ran(Level.TIMES)
...     summary.lengths.add(ms * 1_000_000)
...     summary.noted(OpColumns.build(
...         name=["mul", "add"], op=["MatMul", "AddV2"], device=["/cpu:0"] * 2, thread=[1, 1],
...         scheduled_ns=[0, 0], start_ns=[0, 500_000], end_ns=[500_000, 600_000]))
>>> summary.ran(Level.COUNT)
>>> summary.runs, summary.noted_runs, round(summary.lengths.quantile(0.5) / 1e6)
(4, 3, 4)
>>> summary.ops.name, summary.ops.total_ns.tolist()
(['mul', 'add'], [1500000, 300000])
>>> same = StepSummary.from_bytes(summary.to_bytes())
>>> same.ops.total_ns.tolist(), same.at == summary.at
([1500000, 300000], True)
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

import numpy as np
import orjson

from stepscope.metadata.covered_times import merged_by_key
from stepscope.metadata.self_times import self_times
from stepscope.metadata.stored.packing import Packed, PackedDamageError, pack
from stepscope.metadata.stored.quantiles import QuantileSketch, QuantileSketches

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from stepscope.metadata.columns import OpColumns
    from stepscope.metadata.graph_facts import GraphFacts

__all__ = ["BATCHES", "Level", "OpSums", "StepSummary"]

_HEAD: Final = 4
_ROWS_AT_ONCE: Final = 50_000
_RUNS_AT_ONCE: Final = 64


class Level(enum.IntEnum):
    """How much was recorded of a run; each level has all of those below it."""

    COUNT = 0
    """That it ran."""
    LENGTH = 1
    """When it began and ended, and how."""
    TIMES = 2
    """When each op ran, and on which thread."""
    DETAIL = 3
    """All that the engine can tell: memory, shapes, what was allocated."""


BATCHES: Final = 16
"""Runs are dealt out to so many batches: how much these differ tells how sure a sum is."""


class OpSums:
    """Sums of the executions of each node, in the order in which nodes came first.

    `batch_own_ns` has a row per batch of runs, `batch_runs` how many these are. `sketches` has what
    each node took per run. What ran at a time is known by op type alone: `type_covered_ns` is when
    any op of a type ran, `type_sketches` what they took per run, both in the order of `types`.
    """

    _SUMS: Final = ("calls", "total_ns", "own_ns", "longest_ns", "bytes")

    def __init__(self) -> None:
        self.name: list[str] = []
        self.op: list[str] = []
        self.device: list[str] = []
        self.calls = self.total_ns = self.own_ns = np.zeros(0, np.int64)
        self.longest_ns = self.bytes = np.zeros(0, np.int64)
        self.batch_own_ns = np.zeros([BATCHES, 0], np.int64)
        self.batch_runs = np.zeros(BATCHES, np.int64)
        self.types: list[str] = []
        self.type_covered_ns = np.zeros(0, np.int64)
        self.covered_ns = 0
        """How long any op ran."""
        self.sketches = QuantileSketches()
        self.type_sketches = QuantileSketches()
        self._place: dict[tuple[str, str, str], int] = {}
        self._places: WeakKeyDictionary[GraphFacts, NDArray[np.intp]] = WeakKeyDictionary()
        self._type = np.zeros(0, np.intp)
        """By node, the place of its type."""

    def __len__(self) -> int:
        return len(self.name)

    @property
    def runs(self) -> int:
        """How many were added that have ops."""
        return int(self.batch_runs.sum())

    def add(self, runs: Iterable[OpColumns]) -> None:
        """The executions of runs; of many at once in a fraction of the time of one by one."""
        together: list[OpColumns] = []
        rows = 0
        for ops in runs:
            if len(ops):
                together.append(ops)
                rows += len(ops)
            if rows >= _ROWS_AT_ONCE or len(together) >= _RUNS_AT_ONCE:
                self._add(together)
                together, rows = [], 0
        if together:
            self._add(together)

    def _add(self, runs: Sequence[OpColumns]) -> None:
        row_lists = [self._rows(ops) for ops in runs]
        run = np.repeat(np.arange(len(runs)), [len(rows) for rows in row_lists])
        rows = np.concatenate(row_lists)
        start = np.concatenate([ops.start_ns for ops in runs])
        ends = np.maximum(np.concatenate([ops.end_ns for ops in runs]), start)
        took = ends - start
        lane = _of_each(run, np.concatenate([ops.thread for ops in runs]))
        shape = (len(runs), len(self))
        place = run * len(self) + rows

        def of_nodes(weights: NDArray[Any] | None) -> NDArray[np.int64]:
            """A row per run, in it the sums of its nodes."""
            found = np.bincount(place, weights=weights, minlength=shape[0] * shape[1])
            return found.reshape(shape).astype(np.int64)

        own, total, calls = of_nodes(self_times(start, ends, lane)), of_nodes(took), of_nodes(None)
        batch = (self.runs + np.arange(len(runs))) % BATCHES
        np.add.at(self.batch_runs, batch, 1)
        np.add.at(self.batch_own_ns, batch, own)
        self.calls += calls.sum(0)
        self.total_ns += total.sum(0)
        self.own_ns += own.sum(0)
        np.add.at(self.bytes, rows, np.concatenate([ops.output_bytes for ops in runs]))
        np.maximum.at(self.longest_ns, rows, took)
        self._cover(run, self._type[rows], start, ends)
        there = np.nonzero(calls)
        self.sketches.add(there[1], total[there])
        of_types = np.zeros([len(runs), len(self.types)], np.int64)
        np.add.at(of_types, (run, self._type[rows]), took)
        ran = np.zeros(of_types.shape, bool)
        ran[there[0], self._type[there[1]]] = True
        self.type_sketches.add(np.nonzero(ran)[1], of_types[ran])

    def _cover(
        self, run: NDArray[Any], kind: NDArray[Any], start: NDArray[Any], end: NDArray[Any]
    ) -> None:
        """Add when any op of each type ran, and any at all: in each run by itself."""
        if bool(np.all((start[1:] >= end[:-1]) | (run[1:] != run[:-1]))):
            spans = (end - start).astype(np.float64)
            covered = np.bincount(kind, weights=spans, minlength=len(self.types))
            self.type_covered_ns += covered.astype(np.int64)
            self.covered_ns += int(spans.sum())
            return
        types = len(self.types)
        codes, firsts, lasts = merged_by_key((run * types + kind).astype(np.int32), start, end)
        covered = np.bincount(codes % types, weights=lasts - firsts, minlength=types)
        self.type_covered_ns += covered.astype(np.int64)
        _, firsts, lasts = merged_by_key(codes // types, firsts, lasts)
        self.covered_ns += int((lasts - firsts).sum())

    def _rows(self, ops: OpColumns) -> NDArray[np.intp]:
        places = self._places.get(ops.facts)
        if places is None:
            facts = ops.facts
            keys = zip(
                facts.names.values.tolist(),
                facts.ops.values.tolist(),
                facts.devices.values.tolist(),
                strict=True,
            )
            places = np.array([self._place_of(*key) for key in keys], np.intp)
            self._places[ops.facts] = places
            self._grow()
        return places[ops.node]

    def _place_of(self, name: str, op: str, device: str) -> int:
        place = self._place.setdefault((name, op, device), len(self._place))
        if place == len(self.name):
            self.name.append(name)
            self.op.append(op)
            self.device.append(device)
        return place

    def _grow(self) -> None:
        more = len(self.name) - len(self.calls)
        if more:
            for column in self._SUMS:
                setattr(self, column, np.pad(getattr(self, column), (0, more)))
            self.batch_own_ns = np.pad(self.batch_own_ns, ((0, 0), (0, more)))
        self._number_types()

    def _number_types(self) -> None:
        known = {kind: place for place, kind in enumerate(self.types)}
        self._type = np.array([known.setdefault(op, len(known)) for op in self.op], np.intp)
        self.types = list(known)
        self.type_covered_ns = np.pad(
            self.type_covered_ns, (0, len(known) - len(self.type_covered_ns))
        )

    def to_bytes(self) -> bytes:
        """For `from_bytes`."""
        texts = (self.name, self.op, self.device, self.types)
        numbers = (
            *(getattr(self, column) for column in self._SUMS),
            self.batch_own_ns.ravel(),
            self.batch_runs,
            self.type_covered_ns,
            np.array([self.covered_ns], np.int64),
            self.sketches.keys,
            self.sketches.counts,
            self.type_sketches.keys,
            self.type_sketches.counts,
        )
        return pack([*texts, *numbers])

    @classmethod
    def from_bytes(cls, content: bytes) -> OpSums:
        """What `to_bytes` gave; `PackedDamageError` for other bytes."""
        found, packed = cls(), Packed(content)
        found.name, found.op, found.device = (list(packed.strings()) for _ in range(3))
        types = list(packed.strings())
        for column in cls._SUMS:
            setattr(found, column, np.array(packed.numbers()))
        batches, found.batch_runs = np.array(packed.numbers()), np.array(packed.numbers())
        covered, all_covered = np.array(packed.numbers()), packed.numbers()
        found.sketches = QuantileSketches(packed.numbers(), packed.numbers())
        found.type_sketches = QuantileSketches(packed.numbers(), packed.numbers())
        count = len(found.name)
        columns = (found.op, found.device, *(getattr(found, c) for c in cls._SUMS))
        if (
            any(len(column) != count for column in columns)
            or len(batches) != BATCHES * count
            or len(found.batch_runs) != BATCHES
            or len(covered) != len(types)
            or len(all_covered) != 1
        ):
            raise PackedDamageError("sums of other nodes than there are")
        found.batch_own_ns = batches.reshape(BATCHES, count)
        found.covered_ns = int(all_covered[0])
        for place, key in enumerate(zip(found.name, found.op, found.device, strict=True)):
            found._place[key] = place
        found.types, found.type_covered_ns = types, covered
        found._number_types()
        if found.types != types:
            raise PackedDamageError("types of other nodes than there are")
        return found


def _of_each(run: NDArray[Any], thread: NDArray[Any]) -> NDArray[np.int64]:
    """Numbers for the threads of each run; 0 is of all runs that no thread is known."""
    threads, codes = np.unique(thread, return_inverse=True)
    return np.where(thread == 0, 0, 1 + run * len(threads) + codes)


@dataclass(slots=True)
class StepSummary:
    """All steps of one kind. `at` counts them by `Level`, `failed` those that did not end well."""

    kind: str
    engine: str = ""
    at: list[int] = field(default_factory=lambda: [0] * len(Level))
    failed: int = 0
    lengths: QuantileSketch = field(default_factory=QuantileSketch)
    noted_runs: int = 0
    """Of how many `ops` has the times: whichever runs the budget had left something for."""
    noted_ns: int = 0
    """How long these took."""
    ops: OpSums = field(default_factory=OpSums)
    apart_runs: int = 0
    """How many were kept for what they were (the first, failed, slow) and have their op times in
    `apart`: they stand for themselves, those in `ops` for all others."""
    apart_ns: int = 0
    apart: OpSums = field(default_factory=OpSums)

    @property
    def runs(self) -> int:
        """How many there were."""
        return sum(self.at)

    @property
    def scale(self) -> float:
        """What sums of noted runs are to be multiplied with, for all that are not apart."""
        return (self.runs - self.apart_runs) / self.noted_runs if self.noted_runs else 0.0

    @property
    def with_times(self) -> int:
        """How many have their op times summed up."""
        return self.noted_runs + self.apart_runs

    def ran(self, level: Level) -> None:
        """One more, of which so much was recorded."""
        self.at[level] += 1

    def noted(self, *runs: OpColumns, ns: int = 0, apart: bool = False) -> None:
        """The op times of runs that took so long; `apart` if they were kept for what they were."""
        if apart:
            self.apart_runs += len(runs)
            self.apart_ns += ns
            self.apart.add(runs)
            return
        self.noted_runs += len(runs)
        self.noted_ns += ns
        self.ops.add(runs)

    def to_bytes(self) -> bytes:
        """For `from_bytes`."""
        lengths = self.lengths
        head = {
            "kind": self.kind, "engine": self.engine, "at": self.at, "failed": self.failed,
            "noted": self.noted_runs, "noted_ns": self.noted_ns,
            "apart": self.apart_runs, "apart_ns": self.apart_ns, "total": lengths.total,
            "most": lengths.most,
            "buckets": list(lengths.counts), "counts": list(lengths.counts.values()),
        }  # fmt: skip
        said = orjson.dumps(head)
        parts = (said, self.ops.to_bytes(), self.apart.to_bytes())
        return b"".join(len(part).to_bytes(_HEAD, "little") + part for part in parts)

    @classmethod
    def from_bytes(cls, content: bytes) -> StepSummary:
        """What `to_bytes` gave; `PackedDamageError` for other bytes."""
        said, ops, apart = _parts(content)
        try:
            head: dict[str, Any] = orjson.loads(said)
            counts = dict(zip(head["buckets"], head["counts"], strict=True))
            lengths = QuantileSketch(counts, head["total"], head["most"])
            return cls(
                head["kind"], head["engine"], list(head["at"]), head["failed"], lengths,
                head["noted"], head["noted_ns"], OpSums.from_bytes(ops),
                head["apart"], head["apart_ns"], OpSums.from_bytes(apart),
            )  # fmt: skip
        except (orjson.JSONDecodeError, KeyError, ValueError, TypeError) as error:
            raise PackedDamageError(f"no summary of steps: {error}") from error


def _parts(content: bytes) -> list[bytes]:
    """The three parts of a summary's bytes."""
    found, place = [], 0
    for _ in range(3):
        end = place + _HEAD + int.from_bytes(content[place : place + _HEAD], "little")
        found.append(content[place + _HEAD : end])
        place = end
    if place != len(content):
        raise PackedDamageError("no summary of steps: it is cut or has too much")
    return found
