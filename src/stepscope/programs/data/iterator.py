"""`Iterator`: where a graph takes the next element of a dataset."""

from __future__ import annotations

from typing import Any

from stepscope.graph import apply_op, convert_to_tensor, get_default_graph
from stepscope.graph.dtypes import as_dtype, string
from stepscope.graph.operation import Operation, Tensor
from stepscope.graph.shapes import UNKNOWN, as_shape
from stepscope.programs.data import nested

_MANY_NODES = 32


class Iterator:
    """An iterator in a graph; each session has its own, which goes on from run to run."""

    def __init__(
        self, iterator_resource: Tensor, initializer: Operation | None, types: Any, shapes: Any
    ) -> None:
        self._iterator_resource = iterator_resource
        self._initializer = initializer
        self._types = types
        self._shapes = shapes
        self._string_handle = apply_op("IteratorToStringHandle", iterator_resource).values()[0]
        self._taken = 0

    @staticmethod
    def from_structure(
        output_types: Any, output_shapes: Any = None, shared_name: str | None = None,
        output_classes: Any = None,
    ) -> Iterator:  # fmt: skip
        """An iterator for any dataset with such elements; `make_initializer` gives it one."""
        del output_classes
        types, shapes = _structure(output_types, output_shapes)
        handle = apply_op(
            "IteratorV2", shared_name=shared_name or "", container="",
            output_types=nested.leaves(types), output_shapes=nested.leaves(shapes),
        ).values()[0]  # fmt: skip
        return Iterator(handle, None, types, shapes)

    @staticmethod
    def from_string_handle(
        string_handle: Any, output_types: Any, output_shapes: Any = None, output_classes: Any = None
    ) -> Iterator:
        """Whichever iterator of the session the handle names when the graph runs."""
        del output_classes
        types, shapes = _structure(output_types, output_shapes)
        handle = apply_op(
            "IteratorFromStringHandleV2", convert_to_tensor(string_handle, string),
            output_types=nested.leaves(types), output_shapes=nested.leaves(shapes),
        ).values()[0]  # fmt: skip
        return Iterator(handle, None, types, shapes)

    @property
    def initializer(self) -> Operation:
        """The op that begins; ValueError of an iterator that has none."""
        if self._initializer is None:
            raise ValueError(
                "Iterator does not have an initializer: it is a one-shot one, or its datasets "
                "come by make_initializer()."
            )
        return self._initializer

    def make_initializer(self, dataset: Any, name: str | None = None) -> Operation:
        """An op that lets the iterator begin with a dataset."""
        mine, others = nested.leaves(self._types), nested.leaves(dataset.output_types)
        if mine != others:
            raise TypeError(
                f"Expected output types {self._types} but got dataset with output types "
                f"{dataset.output_types}."
            )
        for wanted, found in zip(
            nested.leaves(self._shapes), nested.leaves(dataset.output_shapes), strict=True
        ):
            if not wanted.is_compatible_with(found):
                raise TypeError(
                    f"Expected output shapes compatible with {self._shapes} but got dataset with "
                    f"output shapes {dataset.output_shapes}."
                )
        with get_default_graph().colocate_with(self._iterator_resource.op):
            return apply_op(
                "MakeIterator", dataset._variant_tensor, self._iterator_resource,
                name=name or "make_initializer",
            )  # fmt: skip

    def get_next(self, name: str | None = None) -> Any:
        """The next element, nested as those of the dataset. Running it moves on."""
        self._taken += 1
        if self._taken == _MANY_NODES:
            import warnings

            warnings.warn(
                "An unusually high number of `Iterator.get_next()` calls was detected: each adds "
                "a node to the graph. Call it once, outside of the loop, and run what it returns.",
                stacklevel=2,
            )
        with get_default_graph().colocate_with(self._iterator_resource.op):
            op = apply_op(
                "IteratorGetNext", self._iterator_resource,
                output_types=nested.leaves(self._types),
                output_shapes=nested.leaves(self._shapes), name=name,
            )  # fmt: skip
        return nested.packed(self._types, op.outputs)

    def string_handle(self, name: str | None = None) -> Tensor:
        """What names the iterator in its session: run it, and feed it."""
        if name is None:
            return self._string_handle
        return apply_op("IteratorToStringHandle", self._iterator_resource, name=name).values()[0]

    @property
    def output_types(self) -> Any:
        return self._types

    @property
    def output_shapes(self) -> Any:
        return self._shapes

    @property
    def output_classes(self) -> Any:
        return nested.mapped(lambda _t: Tensor, self._types)

    def __repr__(self) -> str:
        return f"<stepscope.Iterator {self._iterator_resource.op.name!r}>"


def _structure(types: Any, shapes: Any) -> tuple[Any, Any]:
    kinds = nested.mapped(as_dtype, types)
    if shapes is None:
        return kinds, nested.mapped(lambda _t: UNKNOWN, kinds)
    return kinds, nested.packed(kinds, [as_shape(s) for s in _shape_leaves(shapes, kinds)])


def _shape_leaves(shapes: Any, types: Any) -> list[Any]:
    """A shape may be a tuple of numbers: the types say what is nested."""
    if isinstance(types, dict):
        return [leaf for key in sorted(types) for leaf in _shape_leaves(shapes[key], types[key])]
    if isinstance(types, tuple):
        pairs = zip(shapes, types, strict=True)
        return [leaf for part, of_part in pairs for leaf in _shape_leaves(part, of_part)]
    return [shapes]
