"""Datasets made of others, element by element: batches, repetitions, parts, pairs."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from stepscope.errors import DataLossError, InvalidArgumentError, UnimplementedError
from stepscope.graph.registry import KernelNode
from stepscope.graph.shapes import TensorShape
from stepscope.ops.data.registering import METADATA, TYPES_AND_SHAPES, register_dataset
from stepscope.ops.data.stages import (
    DatasetPlace,
    DatasetValue,
    Element,
    ElementCall,
    Elements,
    IteratorStages,
    StageCounts,
    frozen,
    nbytes,
    row_of,
)

# -- BatchDatasetV2, PaddedBatchDatasetV2 ------------------------------------------------------


class Batches(DatasetValue):
    """Elements stacked along a new first axis."""

    kind = "batch"

    def __init__(
        self, node: KernelNode, place: DatasetPlace, source: Any, size: Any, drop_remainder: Any
    ) -> None:
        super().__init__(place, [source])
        self.size = _positive(size, "Batch size")
        self.drop = bool(drop_remainder)
        self.ratio = float(self.size)
        self.types = [d.numpy for d in node.attr("output_types")]

    def elements(self, pipeline: IteratorStages, stage: StageCounts) -> Elements:
        return _Stacked(self, pipeline, stage)


def _positive(size: Any, what: str) -> int:
    if int(size) <= 0:
        raise InvalidArgumentError.without_op(f"{what} must be greater than zero.")
    return int(size)


class _Gathering(Elements):
    """Takes so many elements at a time."""

    def __init__(
        self,
        dataset: DatasetValue,
        pipeline: IteratorStages,
        stage: StageCounts,
        size: int,
        drop: bool,
    ) -> None:
        super().__init__(dataset, pipeline, stage)
        self._size, self._drop = size, drop

    def _several(self, call: ElementCall) -> list[Element]:
        """The next elements; none at the end."""
        source = self.inputs[0].next
        found: list[Element] = []
        while len(found) < self._size:
            element = source(call)
            if element is None:
                break
            found.append(element)
        return [] if self._drop and len(found) < self._size else found


class _Stacked(_Gathering):
    def __init__(self, dataset: Batches, pipeline: IteratorStages, stage: StageCounts) -> None:
        super().__init__(dataset, pipeline, stage, dataset.size, dataset.drop)
        self._types = dataset.types

    def take(self, call: ElementCall) -> Element | None:
        several = self._several(call)
        return stacked(several, self._types) if several else None


def stacked(several: Sequence[Element], types: Sequence[Any]) -> Element:
    """Elements as one, with a new first axis; InvalidArgumentError if their shapes differ."""
    made = []
    for index, dtype in enumerate(types):
        column = [element[index] for element in several]
        shape = np.shape(column[0])
        if not shape and dtype.kind != "O":
            made.append(np.array(column, dtype))
            continue
        out = np.empty((len(column), *shape), dtype)
        for i, value in enumerate(column):
            if np.shape(value) != shape:
                raise InvalidArgumentError.without_op(
                    "Cannot batch tensors with different shapes in component "
                    f"{index}. First element had shape {TensorShape(shape).brief()} and element "
                    f"{i} had shape {TensorShape(np.shape(value)).brief()}.",
                )
            out[i, ...] = value
        made.append(out)
    return tuple(made)


class PaddedBatches(DatasetValue):
    """As `Batches`, each component filled up to the largest shape, or to a given one."""

    kind = "padded_batch"

    def __init__(
        self, node: KernelNode, place: DatasetPlace, source: Any, size: Any, *rest: Any
    ) -> None:
        super().__init__(place, [source])
        self.size = _positive(size, "Batch size")
        self.ratio = float(self.size)
        count = int(node.attr("N"))
        self.shapes = [tuple(int(d) for d in shape) for shape in rest[:count]]
        self.fillings = rest[count : 2 * count]
        self.drop = bool(rest[-1])
        self.types = [d.numpy for d in node.attr("Toutput_types")]

    def elements(self, pipeline: IteratorStages, stage: StageCounts) -> Elements:
        return _Padded(self, pipeline, stage)


class _Padded(_Gathering):
    def __init__(
        self, dataset: PaddedBatches, pipeline: IteratorStages, stage: StageCounts
    ) -> None:
        super().__init__(dataset, pipeline, stage, dataset.size, dataset.drop)
        self._dataset = dataset

    def take(self, call: ElementCall) -> Element | None:
        several = self._several(call)
        if not several:
            return None
        dataset = self._dataset
        return tuple(
            _filled_up(
                [element[i] for element in several], dataset.shapes[i], dataset.fillings[i],
                dataset.types[i], i,
            )
            for i in range(len(dataset.types))
        )  # fmt: skip


def _filled_up(
    column: Sequence[Any], wanted: tuple[int, ...], filling: Any, dtype: Any, component: int
) -> Any:
    shapes = [np.shape(value) for value in column]
    for shape in shapes:
        if len(shape) != len(wanted):
            raise InvalidArgumentError.without_op(
                "All elements in a batch must have the same rank as the padded shape for component"
                f"{component}: expected rank {len(wanted)} but got element with rank {len(shape)}",
            )
    full = tuple(
        max(shape[axis] for shape in shapes) if wanted[axis] < 0 else wanted[axis]
        for axis in range(len(wanted))
    )
    for shape in shapes:
        if any(have > may for have, may in zip(shape, full, strict=True)):
            raise DataLossError.without_op(
                "Attempted to pad to a smaller size than the input element: component "
                f"{component} has shape {list(shape)}, and is to be padded to {list(full)}.",
            )
    out = np.empty((len(column), *full), dtype)
    out[...] = filling
    for i, value in enumerate(column):
        room: Any = (i, *(slice(0, n) for n in shapes[i]), ...)
        out[room] = value
    return out


register_dataset(
    "BatchDatasetV2", Batches,
    ["input_dataset: variant", "batch_size: int64", "drop_remainder: bool"],
    ["parallel_copy: bool = false", *TYPES_AND_SHAPES, METADATA],
)  # fmt: skip
register_dataset(
    "PaddedBatchDatasetV2", PaddedBatches,
    ["input_dataset: variant", "batch_size: int64", "padded_shapes: N * int64",
     "padding_values: Toutput_types", "drop_remainder: bool"],
    ["parallel_copy: bool = false", "Toutput_types: list(type)", "output_shapes: list(shape)",
     "N: int", METADATA],
)  # fmt: skip

# -- UnbatchDataset ----------------------------------------------------------------------------


class _Unbatched(DatasetValue):
    """The rows of each element."""

    kind = "unbatch"
    ratio = 0.0

    def __init__(self, _node: KernelNode, place: DatasetPlace, source: Any) -> None:
        super().__init__(place, [source])

    def elements(self, pipeline: IteratorStages, stage: StageCounts) -> Elements:
        return _RowByRow(self, pipeline, stage)


class _RowByRow(Elements):
    _current: Element = ()
    _row = 0

    def take(self, call: ElementCall) -> Element | None:
        while not self._current or self._row >= len(self._current[0]):
            element = self.inputs[0].next(call)
            if element is None:
                return None
            if len({len(component) for component in element}) > 1:
                raise InvalidArgumentError.without_op(
                    "Input element must have the same batch size in each component."
                )
            self._current, self._row = element, 0
        self._row += 1
        return tuple([row_of(component, self._row - 1) for component in self._current])


register_dataset(
    "UnbatchDataset", _Unbatched, ["input_dataset: variant"], [*TYPES_AND_SHAPES, METADATA]
)

# -- RepeatDataset -----------------------------------------------------------------------------


class _Repeated(DatasetValue):
    """All elements of the input, so many times."""

    kind = "repeat"

    def __init__(self, _node: KernelNode, place: DatasetPlace, source: Any, count: Any) -> None:
        super().__init__(place)
        self.source = source
        self.count = int(count)

    def elements(self, pipeline: IteratorStages, stage: StageCounts) -> Elements:
        return _Again(self, pipeline, stage)


class _Again(Elements):
    def __init__(self, dataset: _Repeated, pipeline: IteratorStages, stage: StageCounts) -> None:
        super().__init__(dataset, pipeline, stage)
        self._source = dataset.source
        self._left = dataset.count
        self._empty = True
        self.inputs = [pipeline.open(self._source, stage)]

    def take(self, call: ElementCall) -> Element | None:
        while self._left != 0:
            element = self.inputs[0].next(call)
            if element is not None:
                self._empty = False
                return element
            self._left -= self._left > 0
            if self._left < 0 and self._empty:
                # Over and over nothing would never end.
                self._left = 0
            if self._left:
                self._empty = True
                self.inputs[0].close()
                self.inputs = [self.pipeline.open(self._source, self.stage)]
        return None


register_dataset("RepeatDataset", _Repeated, ["input_dataset: variant", "count: int64"])

# -- TakeDataset, SkipDataset, ShardDataset ----------------------------------------------------


class _Taken(DatasetValue):
    """The first so many elements; all for a negative number."""

    kind = "take"

    def __init__(self, _node: KernelNode, place: DatasetPlace, source: Any, count: Any) -> None:
        super().__init__(place, [source])
        self.count = int(count)

    def elements(self, pipeline: IteratorStages, stage: StageCounts) -> Elements:
        return _UpTo(self, pipeline, stage)


class _UpTo(Elements):
    def __init__(self, dataset: _Taken, pipeline: IteratorStages, stage: StageCounts) -> None:
        super().__init__(dataset, pipeline, stage)
        self._left = dataset.count

    def take(self, call: ElementCall) -> Element | None:
        if self._left == 0:
            return None
        element = self.inputs[0].next(call)
        self._left = 0 if element is None else self._left - 1
        return element


class _Skipped(DatasetValue):
    """Without the first so many elements; none for a negative number."""

    kind = "skip"

    def __init__(self, _node: KernelNode, place: DatasetPlace, source: Any, count: Any) -> None:
        super().__init__(place, [source])
        self.count = int(count)

    def elements(self, pipeline: IteratorStages, stage: StageCounts) -> Elements:
        return _After(self, pipeline, stage)


class _After(Elements):
    def __init__(self, dataset: _Skipped, pipeline: IteratorStages, stage: StageCounts) -> None:
        super().__init__(dataset, pipeline, stage)
        self._to_skip = dataset.count

    def take(self, call: ElementCall) -> Element | None:
        while self._to_skip != 0:
            if self.inputs[0].next(call) is None:
                self._to_skip = 0
                return None
            self._to_skip -= self._to_skip > 0
        return self.inputs[0].next(call)


class _Sharded(DatasetValue):
    """Every so-many-th element, from a place on."""

    kind = "shard"

    def __init__(
        self, _node: KernelNode, place: DatasetPlace, source: Any, number: Any, index: Any
    ) -> None:
        super().__init__(place, [source])
        self.number, self.index = int(number), int(index)
        self.ratio = float(self.number)
        if self.number <= 0:
            raise InvalidArgumentError.without_op(
                f"Number of shards must be greater than zero (currently num_shards = "
                f"{self.number})."
            )
        if not 0 <= self.index < self.number:
            raise InvalidArgumentError.without_op(
                f"Index must be between 0 and {self.number - 1} (currently index = {self.index})."
            )

    def elements(self, pipeline: IteratorStages, stage: StageCounts) -> Elements:
        return _EveryNth(self, pipeline, stage)


class _EveryNth(Elements):
    def __init__(self, dataset: _Sharded, pipeline: IteratorStages, stage: StageCounts) -> None:
        super().__init__(dataset, pipeline, stage)
        self._before = dataset.index
        self._number = dataset.number

    def take(self, call: ElementCall) -> Element | None:
        for _ in range(self._before):
            if self.inputs[0].next(call) is None:
                return None
        self._before = self._number - 1
        return self.inputs[0].next(call)


register_dataset("TakeDataset", _Taken, ["input_dataset: variant", "count: int64"])
register_dataset("SkipDataset", _Skipped, ["input_dataset: variant", "count: int64"])
register_dataset(
    "ShardDataset", _Sharded, ["input_dataset: variant", "num_shards: int64", "index: int64"],
    ["require_non_empty: bool = false", *TYPES_AND_SHAPES, METADATA],
)  # fmt: skip

# -- ZipDataset, ConcatenateDataset ------------------------------------------------------------


class _Zipped(DatasetValue):
    """Elements side by side, as long as all inputs have one."""

    kind = "zip"

    def __init__(self, _node: KernelNode, place: DatasetPlace, *sources: Any) -> None:
        super().__init__(place, sources)

    def elements(self, pipeline: IteratorStages, stage: StageCounts) -> Elements:
        return _SideBySide(self, pipeline, stage)


class _SideBySide(Elements):
    _over = False

    def take(self, call: ElementCall) -> Element | None:
        if self._over:
            return None
        found: list[Any] = []
        for source in self.inputs:
            element = source.next(call)
            if element is None:
                self._over = True
                return None
            found += element
        return tuple(found)


class _Concatenated(DatasetValue):
    """All elements of one, then all of another."""

    kind = "concatenate"

    def __init__(self, _node: KernelNode, place: DatasetPlace, first: Any, second: Any) -> None:
        super().__init__(place, [first, second])

    def elements(self, pipeline: IteratorStages, stage: StageCounts) -> Elements:
        return _OneThenAnother(self, pipeline, stage)


class _OneThenAnother(Elements):
    def take(self, call: ElementCall) -> Element | None:
        while self.inputs:
            element = self.inputs[0].next(call)
            if element is not None:
                return element
            self.inputs.pop(0).close()
        return None


register_dataset(
    "ZipDataset", _Zipped, ["input_datasets: N * variant"], [*TYPES_AND_SHAPES, "N: int", METADATA]
)
register_dataset(
    "ConcatenateDataset", _Concatenated, ["input_dataset: variant", "another_dataset: variant"]
)

# -- CacheDataset ------------------------------------------------------------------------------


class _Cached(DatasetValue):
    """Keeps the elements of the first iteration that came to its end, in memory."""

    kind = "cache"

    def __init__(self, _node: KernelNode, place: DatasetPlace, source: Any, filename: Any) -> None:
        super().__init__(place)
        name = np.asarray(filename).item()
        if name:
            raise UnimplementedError.without_op(
                f"cache({name.decode()!r}): the embedded engine keeps the elements of a cache in "
                "memory; leave the file name out, or run the program on TensorFlow.",
            )
        self.source = source
        self.kept: list[Element] | None = None
        self.lock = threading.Lock()

    def elements(self, pipeline: IteratorStages, stage: StageCounts) -> Elements:
        if self.kept is not None:
            return _FromMemory(self, pipeline, stage)
        return _IntoMemory(self, pipeline, stage)


class _FromMemory(Elements):
    def __init__(self, dataset: _Cached, pipeline: IteratorStages, stage: StageCounts) -> None:
        super().__init__(dataset, pipeline, stage)
        assert dataset.kept is not None
        self._rest = iter(dataset.kept)

    def take(self, call: ElementCall) -> Element | None:
        del call
        return next(self._rest, None)


class _IntoMemory(Elements):
    def __init__(self, dataset: _Cached, pipeline: IteratorStages, stage: StageCounts) -> None:
        super().__init__(dataset, pipeline, stage)
        self._dataset = dataset
        self._found: list[Element] = []
        self._buffer = pipeline.buffer(stage)
        self._over = False
        self.inputs = [pipeline.open(dataset.source, stage)]

    def take(self, call: ElementCall) -> Element | None:
        if self._over:
            return None
        element = self.inputs[0].next(call)
        if element is None:
            self._over = True
            with self._dataset.lock:
                self._dataset.kept = self._found
            return None
        element = tuple(frozen(value) for value in element)
        if nbytes(element):
            self._buffer.add(element)
        self._found.append(element)
        return element

    def close(self) -> None:
        if not self._over:
            self._buffer.clear()
        super().close()


register_dataset("CacheDataset", _Cached, ["input_dataset: variant", "filename: string"])

# -- WindowDataset -----------------------------------------------------------------------------


class _Windows(DatasetValue):
    """Each element is a tuple of datasets: so many elements that follow each other."""

    kind = "window"

    def __init__(
        self,
        node: KernelNode,
        place: DatasetPlace,
        source: Any,
        size: Any,
        shift: Any,
        stride: Any,
        drop: Any,
    ) -> None:
        super().__init__(place, [source])
        self.size = _positive(size, "Window size")
        self.shift = _positive(shift, "Window shift")
        self.stride = _positive(stride, "Window stride")
        self.drop = bool(drop)
        self.count = len(node.attr("output_types"))

    def elements(self, pipeline: IteratorStages, stage: StageCounts) -> Elements:
        return _Sliding(self, pipeline, stage)


class _Window(DatasetValue):
    """One component of the elements of a window."""

    kind = "window"

    def __init__(self, place: DatasetPlace, listed: list[Element]) -> None:
        super().__init__(place)
        self._listed = listed

    def elements(self, pipeline: IteratorStages, stage: StageCounts) -> Elements:
        from stepscope.ops.data.sources import ListedElements

        return ListedElements(self, pipeline, stage, self._listed)


class _Sliding(Elements):
    def __init__(self, dataset: _Windows, pipeline: IteratorStages, stage: StageCounts) -> None:
        super().__init__(dataset, pipeline, stage)
        self._dataset = dataset
        self._ahead: list[Element] = []
        self._to_skip = 0

    def take(self, call: ElementCall) -> Element | None:
        dataset = self._dataset
        reach = (dataset.size - 1) * dataset.stride + 1
        while self._to_skip:
            if self.inputs[0].next(call) is None:
                return None
            self._to_skip -= 1
        while len(self._ahead) < reach:
            element = self.inputs[0].next(call)
            if element is None:
                break
            self._ahead.append(element)
        if not self._ahead or (dataset.drop and len(self._ahead) < reach):
            return None
        chosen = self._ahead[:: dataset.stride][: dataset.size]
        self._to_skip = max(0, dataset.shift - len(self._ahead))
        del self._ahead[: dataset.shift]
        place = dataset.place
        return tuple(_Window(place, [(e[i],) for e in chosen]) for i in range(dataset.count))


register_dataset(
    "WindowDataset", _Windows,
    ["input_dataset: variant", "size: int64", "shift: int64", "stride: int64",
     "drop_remainder: bool"],
)  # fmt: skip
