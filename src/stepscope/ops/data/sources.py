"""Datasets that elements come from: tensors, ranges, Python generators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stepscope.errors import InvalidArgumentError, OutOfRangeError
from stepscope.graph.function_graph import FunctionGraph
from stepscope.graph.registry import KernelNode
from stepscope.ops.data.registering import METADATA, function_of, register_dataset
from stepscope.ops.data.stages import (
    DatasetPlace,
    DatasetValue,
    Element,
    ElementCall,
    Elements,
    IteratorStages,
    StageCounts,
    frozen,
    row_of,
)

# -- TensorDataset, TensorSliceDataset ---------------------------------------------------------


class OneElement(DatasetValue):
    """One element."""

    kind = "from_tensors"

    def __init__(self, _node: KernelNode, place: DatasetPlace, *components: Any) -> None:
        super().__init__(place)
        self.components: Element = tuple(frozen(c) for c in components)

    def elements(self, pipeline: IteratorStages, stage: StageCounts) -> Elements:
        return ListedElements(self, pipeline, stage, [self.components])


class ListedElements(Elements):
    """Elements that are all known before the first is asked for."""

    def __init__(
        self,
        dataset: DatasetValue,
        pipeline: IteratorStages,
        stage: StageCounts,
        listed: Sequence[Element],
    ) -> None:
        super().__init__(dataset, pipeline, stage)
        self._rest = iter(listed)

    def take(self, call: ElementCall) -> Element | None:
        del call
        return next(self._rest, None)


class TensorSlices(DatasetValue):
    """The rows of tensors that have as many of them."""

    kind = "from_tensor_slices"

    def __init__(self, _node: KernelNode, place: DatasetPlace, *components: Any) -> None:
        super().__init__(place)
        self.components = tuple(frozen(c) for c in components)
        self.count = len(components[0])
        for i, component in enumerate(components):
            if len(component) != self.count:
                raise InvalidArgumentError.without_op(
                    "All components must have the same size in the 0th dimension: component 0 "
                    f"has {self.count}, component {i} {len(component)}.",
                )

    def elements(self, pipeline: IteratorStages, stage: StageCounts) -> Elements:
        return _Rows(self, pipeline, stage)


class _Rows(Elements):
    def __init__(self, dataset: TensorSlices, pipeline: IteratorStages, stage: StageCounts) -> None:
        super().__init__(dataset, pipeline, stage)
        self._components = dataset.components
        self._count = dataset.count
        self._next = 0

    def take(self, call: ElementCall) -> Element | None:
        del call
        row = self._next
        if row >= self._count:
            return None
        self._next = row + 1
        return tuple([row_of(c, row) for c in self._components])


register_dataset(
    "TensorDataset", OneElement, ["components: Toutput_types"],
    ["Toutput_types: list(type)", "output_shapes: list(shape)", METADATA],
)  # fmt: skip
register_dataset(
    "TensorSliceDataset", TensorSlices, ["components: Toutput_types"],
    ["Toutput_types: list(type)", "output_shapes: list(shape)", "is_files: bool = false",
     METADATA, "replicate_on_split: bool = false"],
)  # fmt: skip

# -- RangeDataset ------------------------------------------------------------------------------


class Range(DatasetValue):
    """Numbers from a start to before a stop."""

    kind = "range"

    def __init__(
        self, node: KernelNode, place: DatasetPlace, start: Any, stop: Any, step: Any
    ) -> None:
        super().__init__(place)
        if int(step) == 0:
            raise InvalidArgumentError.without_op("step must be a non-zero integer.")
        self.numbers = range(int(start), int(stop), int(step))
        self.scalar = node.attr("output_types")[0].as_numpy_dtype

    def elements(self, pipeline: IteratorStages, stage: StageCounts) -> Elements:
        return _Counted(self, pipeline, stage)


class _Counted(Elements):
    def __init__(self, dataset: Range, pipeline: IteratorStages, stage: StageCounts) -> None:
        super().__init__(dataset, pipeline, stage)
        self._rest = iter(dataset.numbers)
        self._scalar = dataset.scalar

    def take(self, call: ElementCall) -> Element | None:
        del call
        found = next(self._rest, None)
        return None if found is None else (self._scalar(found),)


register_dataset(
    "RangeDataset",
    Range,
    ["start: int64", "stop: int64", "step: int64"],
    [
        "output_types: list(type)",
        "output_shapes: list(shape)",
        METADATA,
        "replicate_on_split: bool = false",
    ],
)

# -- GeneratorDataset --------------------------------------------------------------------------


class Generator(DatasetValue):
    """What functions give: one begins, one gives elements until it is out of range, one ends."""

    kind = "from_generator"

    def __init__(self, node: KernelNode, place: DatasetPlace, *captured: Any) -> None:
        super().__init__(place)
        self.functions: list[tuple[FunctionGraph, list[Any]]] = []
        rest = list(captured)
        for attr in ("init_func", "next_func", "finalize_func"):
            count = len(node.attr(f"T{attr}_args"))
            self.functions.append((function_of(node, place, attr), rest[:count]))
            del rest[:count]
        place.python = True

    def elements(self, pipeline: IteratorStages, stage: StageCounts) -> Elements:
        return _Generated(self, pipeline, stage)


class _Generated(Elements):
    def __init__(self, dataset: Generator, pipeline: IteratorStages, stage: StageCounts) -> None:
        super().__init__(dataset, pipeline, stage)
        self._init, self._next, self._finalize = [
            pipeline.function(graph, captured) for graph, captured in dataset.functions
        ]
        self._own = [len(graph.inputs) - len(captured) for graph, captured in dataset.functions]
        self._state: Element | None = None
        self._over = False

    def take(self, call: ElementCall) -> Element | None:
        if self._over:
            return None
        token, step = call.cancellation, call.step_id
        if self._state is None:
            self._state = self._init(token, step, ())
        try:
            return self._next(token, step, self._state[: self._own[1]])
        except OutOfRangeError:
            self._over = True
            self._finalize(token, step, self._state[: self._own[2]])
            return None

    def close(self) -> None:
        if self._state is not None and not self._over:
            self._over = True
            call = ElementCall(_Never())
            self._finalize(call.cancellation, 0, self._state[: self._own[2]])
        super().close()


class _Never:
    """Nobody stops this."""

    cancelled = False

    def raise_if_cancelled(self) -> None:
        pass

    def on_cancel(self, _callback: Any) -> Any:
        return lambda: None


register_dataset(
    "GeneratorDataset", Generator,
    ["init_func_other_args: Tinit_func_args", "next_func_other_args: Tnext_func_args",
     "finalize_func_other_args: Tfinalize_func_args"],
    ["init_func: func", "next_func: func", "finalize_func: func", "Tinit_func_args: list(type)",
     "Tnext_func_args: list(type)", "Tfinalize_func_args: list(type)",
     "output_types: list(type)", "output_shapes: list(shape)", METADATA],
)  # fmt: skip

# -- what changes nothing ----------------------------------------------------------------------


class _Same(DatasetValue):
    """The input, as it is."""

    def __init__(self, _node: KernelNode, place: DatasetPlace, source: Any, *_rest: Any) -> None:
        super().__init__(place, [source])

    def elements(self, pipeline: IteratorStages, stage: StageCounts) -> Elements:
        return _Handed(self, pipeline, stage)


class _Handed(Elements):
    def take(self, call: ElementCall) -> Element | None:
        return self.inputs[0].next(call)


register_dataset(
    "OptionsDataset", _Same, ["input_dataset: variant"],
    ["serialized_options: string", "output_types: list(type)", "output_shapes: list(shape)",
     METADATA],
)  # fmt: skip
register_dataset(
    "RewriteDataset", _Same, ["input_dataset: variant", "rewrite_name: string"],
    ["output_types: list(type)", "output_shapes: list(shape)"],
)  # fmt: skip

__all__ = ["Generator", "OneElement", "Range", "TensorSlices"]
