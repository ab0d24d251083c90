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

from stepscope.metadata.self_times import self_times
from stepscope.metadata.stored.packing import Packed, PackedDamageError, pack
from stepscope.metadata.stored.quantiles import QuantileSketch, QuantileSketches

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from stepscope.metadata.columns import OpColumns
    from stepscope.metadata.graph_facts import GraphFacts

__all__ = ["Level", "OpSums", "StepSummary"]

_HEAD: Final = 4


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


class OpSums:
    """Sums of the executions of each node, in the order in which nodes came first.

    `square_ns` is, per node, the sum over runs of the square of what it took in the run: how much
    runs differ. `sketches` has the lengths of single executions.
    """

    _SUMS: Final = ("calls", "total_ns", "own_ns", "longest_ns", "bytes")

    def __init__(self) -> None:
        self.name: list[str] = []
        self.op: list[str] = []
        self.device: list[str] = []
        self.calls = self.total_ns = self.own_ns = np.zeros(0, np.int64)
        self.longest_ns = self.bytes = np.zeros(0, np.int64)
        self.square_ns = np.zeros(0)
        self.sketches = QuantileSketches()
        self._place: dict[tuple[str, str, str], int] = {}
        self._places: WeakKeyDictionary[GraphFacts, NDArray[np.intp]] = WeakKeyDictionary()

    def __len__(self) -> int:
        return len(self.name)

    def add(self, runs: Iterable[OpColumns]) -> None:
        """The executions of runs."""
        series, lengths = [], []
        for ops in runs:
            if not len(ops):
                continue
            rows = self._rows(ops)
            took = np.maximum(ops.end_ns - ops.start_ns, 0)
            own = self_times(ops.start_ns, ops.end_ns, ops.thread)
            self.calls += np.bincount(rows, minlength=len(self))
            per_run = np.bincount(rows, weights=own, minlength=len(self))
            self.square_ns += per_run * per_run
            np.add.at(self.total_ns, rows, took)
            np.add.at(self.own_ns, rows, own)
            np.add.at(self.bytes, rows, ops.output_bytes)
            np.maximum.at(self.longest_ns, rows, took)
            series.append(rows)
            lengths.append(took)
        if series:
            self.sketches.add(np.concatenate(series), np.concatenate(lengths))

    def _rows(self, ops: OpColumns) -> NDArray[np.intp]:
        places = self._places.get(ops.facts)
        if places is None:
            facts = ops.facts
            keys = zip(
                facts.names.values.tolist(), facts.ops.values.tolist(),
                facts.devices.values.tolist(), strict=True,
            )  # fmt: skip
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
            for column in (*self._SUMS, "square_ns"):
                old = getattr(self, column)
                setattr(self, column, np.concatenate([old, np.zeros(more, old.dtype)]))

    def to_bytes(self) -> bytes:
        """For `from_bytes`."""
        texts = (self.name, self.op, self.device)
        sums = [getattr(self, column) for column in self._SUMS]
        squares = np.frombuffer(self.square_ns.astype("<f8").tobytes(), "<i8")
        return pack([*texts, *sums, squares, self.sketches.keys, self.sketches.counts])

    @classmethod
    def from_bytes(cls, content: bytes) -> OpSums:
        """What `to_bytes` gave; `PackedDamageError` for other bytes."""
        found, packed = cls(), Packed(content)
        found.name, found.op, found.device = (list(packed.strings()) for _ in range(3))
        for column in cls._SUMS:
            setattr(found, column, np.array(packed.numbers()))
        found.square_ns = np.frombuffer(packed.numbers().astype("<i8").tobytes(), "<f8").copy()
        found.sketches = QuantileSketches(packed.numbers(), packed.numbers())
        columns = (found.op, found.device, found.square_ns, *(getattr(found, c) for c in cls._SUMS))
        if any(len(column) != len(found.name) for column in columns):
            raise PackedDamageError("sums of other nodes than there are")
        for place, key in enumerate(zip(found.name, found.op, found.device, strict=True)):
            found._place[key] = place
        return found


@dataclass(slots=True)
class StepSummary:
    """All steps of one kind. `at` counts them by `Level`, `failed` those that did not end well."""

    kind: str
    engine: str = ""
    at: list[int] = field(default_factory=lambda: [0] * len(Level))
    failed: int = 0
    lengths: QuantileSketch = field(default_factory=QuantileSketch)
    noted_runs: int = 0
    """Of how many `ops` has the times."""
    ops: OpSums = field(default_factory=OpSums)

    @property
    def runs(self) -> int:
        """How many there were."""
        return sum(self.at)

    @property
    def scale(self) -> float:
        """What sums of noted runs are to be multiplied with, for all runs."""
        return self.runs / self.noted_runs if self.noted_runs else 0.0

    def ran(self, level: Level) -> None:
        """One more, of which so much was recorded."""
        self.at[level] += 1

    def noted(self, *runs: OpColumns) -> None:
        """The op times of runs."""
        self.noted_runs += len(runs)
        self.ops.add(runs)

    def to_bytes(self) -> bytes:
        """For `from_bytes`."""
        lengths = self.lengths
        head = {
            "kind": self.kind, "engine": self.engine, "at": self.at, "failed": self.failed,
            "noted": self.noted_runs, "total": lengths.total, "most": lengths.most,
            "buckets": list(lengths.counts), "counts": list(lengths.counts.values()),
        }  # fmt: skip
        said = orjson.dumps(head)
        return len(said).to_bytes(_HEAD, "little") + said + self.ops.to_bytes()

    @classmethod
    def from_bytes(cls, content: bytes) -> StepSummary:
        """What `to_bytes` gave; `PackedDamageError` for other bytes."""
        end = _HEAD + int.from_bytes(content[:_HEAD], "little")
        try:
            head: dict[str, Any] = orjson.loads(content[_HEAD:end])
            counts = dict(zip(head["buckets"], head["counts"], strict=True))
            lengths = QuantileSketch(counts, head["total"], head["most"])
            return cls(
                head["kind"], head["engine"], list(head["at"]), head["failed"], lengths,
                head["noted"], OpSums.from_bytes(content[end:]),
            )  # fmt: skip
        except (orjson.JSONDecodeError, KeyError, ValueError, TypeError) as error:
            raise PackedDamageError(f"no summary of steps: {error}") from error
