"""The events of one run as JSON text, a block of rows at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import orjson

from stepscope.analysis.execution.lanes import drawing_order
from stepscope.export.json_rows import (
    escaped,
    int_texts,
    interleave,
    text_table,
    thousandth_texts,
)
from stepscope.metadata.dtype_names import dtype_name
from stepscope.metadata.xplane.steps import ANNOTATION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from stepscope.export.chrome.edges import DrawnEdges
    from stepscope.metadata import AllocationColumns, OpColumns, RunMetadata

    Ints: TypeAlias = NDArray[np.int64]

BLOCK = 8192

_PUT_OUT = '","outputs":"'


class OpTexts:
    """Makes the slices of a run's ops; `lanes` are the rows' lanes, `base_ns` the time that is 0.

    What is the same for all rows of a node, a lane or an op type is made once and picked by number.
    """

    def __init__(
        self,
        name: str,
        metadata: RunMetadata,
        end: Ints,
        lanes: Ints,
        places: NDArray[Any],
        base_ns: int,
    ) -> None:
        self.ops = ops = metadata.ops
        self.end = end
        self.lanes = lanes
        self.base_ns = base_ns
        self.names = text_table(ops.names.table)
        self.places = places
        self._run = escaped(name)
        self._types = text_table(ops.ops.table)
        self._outputs = _Outputs(ops) if len(ops.tensors) else None
        sources = metadata.sources
        self._sources = (
            np.array([_source(sources.get(node)) for node in ops.names.table], object)
            if sources
            else None
        )
        self._one_step = f"{ops.step[0]}" if len(ops) and (ops.step == ops.step[0]).all() else None
        marks = [op == ANNOTATION for op in ops.ops.table]
        self._kinds = np.where(marks, "annotation", "op").astype(object) if any(marks) else None

    def slices(self, rows: Ints | None = None) -> Iterator[bytes]:
        """The slices of all rows or of some, in the order in which they are drawn."""
        order = drawing_order(self.ops.start_ns, self.end) if rows is None else rows
        for first in range(0, len(order), BLOCK):
            yield self.block(order[first : first + BLOCK]).encode()

    def block(self, rows: Ints) -> str:
        """The slices of a few rows."""
        ops, start = self.ops, self.ops.start_ns[rows]
        nodes, types = ops.names.codes[rows], ops.ops.codes[rows]
        scheduled = ops.scheduled_ns[rows]
        waited = np.where(scheduled > 0, np.maximum(start - scheduled, 0), 0)
        columns: list[str | list[str]] = []
        if self._kinds is not None:
            columns += ['{"ph":"X","cat":"', self._kinds[types].tolist(), '","name":"']
        else:
            columns.append('{"ph":"X","cat":"op","name":"')
        columns += [
            self.names[nodes].tolist(),
            self.places[self.lanes[rows]].tolist(),
            thousandth_texts(start - self.base_ns),
            ',"dur":',
            thousandth_texts(self.end[rows] - start),
            ',"args":{"op":"',
            self._types[types].tolist(),
        ]
        if self._outputs is not None:
            columns += [self._outputs.texts(rows), '","bytes":', int_texts(ops.output_bytes[rows])]
        else:
            columns.append('"')
        if self._sources is not None:
            columns.append(self._sources[nodes].tolist())
        if self._one_step is None:
            columns += [f',"run":"{self._run}","step":', int_texts(ops.step[rows])]
            columns.append(',"waited_us":')
        else:
            columns.append(f',"run":"{self._run}","step":{self._one_step},"waited_us":')
        columns += [thousandth_texts(waited), "}},\n"]
        return "".join(interleave(columns, len(rows)))


def _source(place: str | None) -> str:
    return f',"source":"{escaped(place)}"' if place else ""


class _Outputs:
    """The text per row that says what it put out: types and shapes."""

    def __init__(self, ops: OpColumns) -> None:
        self._tensors = ops.tensors
        index = ops.tensors.op_index
        in_order = bool((index[1:] >= index[:-1]).all())
        self._order = None if in_order else np.argsort(index, kind="stable")
        self._counts = np.bincount(index, minlength=len(ops))
        self._first = np.cumsum(self._counts) - self._counts
        # Texts by the shape's identity, which is the quickest to look up: the column keeps the
        # shapes, and equal ones are most often one object.
        self._known: dict[int, dict[int, str]] = {}

    def texts(self, rows: Ints) -> list[str]:
        """Of some rows."""
        counts, first = self._counts[rows], self._first[rows]
        if (counts == 1).all():
            return self._described(first)
        texts = np.full(len(rows), "", object)
        single = counts == 1
        texts[single] = self._described(first[single])
        for place in np.flatnonzero(counts > 1).tolist():
            begin = int(first[place])
            many = self._described(np.arange(begin, begin + int(counts[place])))
            texts[place] = ", ".join([many[0], *(text[len(_PUT_OUT) :] for text in many[1:])])
        joined: list[str] = texts.tolist()
        return joined

    def _described(self, places: Ints) -> list[str]:
        at = places if self._order is None else self._order[places]
        dtypes, shapes = self._tensors.dtype[at], self._tensors.shape[at]
        if not len(at) or (dtypes == dtypes[0]).all():
            return self._of_type(int(dtypes[0]), shapes.tolist()) if len(at) else []
        texts = np.empty(len(at), object)
        for dtype in np.unique(dtypes).tolist():
            here = dtypes == dtype
            texts[here] = self._of_type(dtype, shapes[here].tolist())
        described: list[str] = texts.tolist()
        return described

    def _of_type(self, dtype: int, shapes: list[tuple[int, ...] | None]) -> list[str]:
        known = self._known.setdefault(dtype, {})
        try:
            return list(map(known.__getitem__, map(id, shapes)))
        except KeyError:
            for shape in shapes:
                if id(shape) not in known:
                    known[id(shape)] = _PUT_OUT + _tensor(dtype, shape)
            return [known[id(shape)] for shape in shapes]


def _tensor(dtype: int, shape: tuple[int, ...] | None) -> str:
    """A tensor as people write it: float32[2,?]; [...] where even the rank is not known."""
    sizes = "..." if shape is None else ",".join("?" if size < 0 else str(size) for size in shape)
    return escaped(f"{dtype_name(dtype)}[{sizes}]")


def flows(edges: DrawnEdges, texts: OpTexts, first_id: int) -> Iterator[bytes]:
    """The arrows of edges: from the end of what produced to the start of what used it."""
    ops, places, base_ns = texts.ops, texts.places, texts.base_ns
    for first in range(0, len(edges.producer), BLOCK):
        block = slice(first, first + BLOCK)
        producer, consumer = edges.producer[block], edges.consumer[block]
        names = texts.names[ops.names.codes[producer]].tolist()
        ids = int_texts(np.arange(first_id + first, first_id + first + len(producer)))
        # One nanosecond before the end: at the end a slice is over, and the arrow begins nowhere.
        leaves = texts.end[producer] - 1 - base_ns
        yield "".join(
            interleave(
                (
                    '{"ph":"s","cat":"dataflow","name":"',
                    names,
                    places[texts.lanes[producer]].tolist(),
                    thousandth_texts(leaves),
                    ',"id":',
                    ids,
                    '},\n{"ph":"f","bp":"e","cat":"dataflow","name":"',
                    names,
                    places[texts.lanes[consumer]].tolist(),
                    thousandth_texts(ops.start_ns[consumer] - base_ns),
                    ',"id":',
                    ids,
                    "},\n",
                ),
                len(names),
            )
        ).encode()


def counters(
    allocations: AllocationColumns,
    pid_of: dict[str, int],
    name: str,
    base_ns: int,
    limit: int | None,
) -> Iterator[bytes]:
    """The live bytes of every device over time, from the allocations and frees of a run.

    With `limit` each device has at most so many points; the highest of those left out stay.
    """
    for code, device in enumerate(allocations.devices.table):
        rows = np.flatnonzero(allocations.devices.codes == code)
        if not len(rows):
            continue
        times = np.maximum(allocations.time_ns[rows], base_ns)
        live = allocations.live(device)[rows]
        # Of several changes at one moment the last is what was live after it.
        last = np.flatnonzero(np.append(times[1:] != times[:-1], True))
        times, live = times[last], live[last]
        if limit is not None and len(times) > limit:
            kept = highest(live, limit)
            times, live = times[kept], live[kept]
        head = f'{{"ph":"C","cat":"memory","name":"{escaped(name)}","pid":{pid_of[device]},"ts":'
        for first in range(0, len(times), BLOCK):
            block = slice(first, first + BLOCK)
            columns = (
                head,
                thousandth_texts(times[block] - base_ns),
                ',"args":{"bytes":',
                int_texts(live[block]),
                "}},\n",
            )
            yield "".join(interleave(columns, len(times[block]))).encode()


def highest(values: Ints, parts: int) -> Ints:
    """The position of the highest value in each of `parts` stretches."""
    edges = np.linspace(0, len(values), max(parts, 1) + 1).astype(np.int64)[:-1]
    peaks = np.maximum.reduceat(values, edges)
    stretch = np.searchsorted(edges, np.arange(len(values)), side="right") - 1
    at_peak = np.flatnonzero(values == peaks[stretch])
    _, first = np.unique(stretch[at_peak], return_index=True)
    return at_peak[first]


def run_mark(
    name: str, metadata: RunMetadata, span: tuple[int, int], place: str, folded: str | None
) -> str:
    """The slice of a run: from its first op's start to its last op's end, and how it ended."""
    args: dict[str, Any] = {
        "engine": metadata.engine,
        "step": metadata.step_id,
        "ops": len(metadata.ops),
        "status": metadata.status.code,
        "complete": metadata.completeness.complete,
    }
    if metadata.status.message:
        args["message"] = metadata.status.message
    if metadata.status.in_flight:
        args["in_flight"] = list(metadata.status.in_flight)
    if not metadata.completeness.complete:
        args["missing"] = [
            f"{loss.what} ({loss.count}): {loss.reason}" for loss in metadata.completeness.losses
        ]
    if folded is not None:
        args["folded"] = folded
    return mark("run", name, span, place, args)


def step_marks(ops: OpColumns, end: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """The steps of a run that has more than one: number, start, end and ops of each."""
    steps, which = np.unique(ops.step, return_inverse=True)
    start = np.full(len(steps), np.iinfo(np.int64).max)
    until = np.full(len(steps), np.iinfo(np.int64).min)
    np.minimum.at(start, which, ops.start_ns)
    np.maximum.at(until, which, end)
    return steps, start, until, np.bincount(which)


def mark(category: str, name: str, span: tuple[int, int], place: str, args: dict[str, Any]) -> str:
    """One slice, times relative to the trace's."""
    start, duration = thousandth_texts(np.array([span[0], span[1] - span[0]], np.int64))
    said = orjson.dumps(args, default=str).decode()
    return (
        f'{{"ph":"X","cat":"{category}","name":"{escaped(name)}{place}{start},"dur":{duration},'
        f'"args":{said}}},\n'
    )
