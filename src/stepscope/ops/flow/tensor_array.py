"""`TensorArray`: tensors by index, written and read one by one, mostly inside loops."""

from __future__ import annotations

from typing import Any

from stepscope.graph.build import apply_op, convert_to_tensor
from stepscope.graph.constants import constant_value
from stepscope.graph.dtypes import DType, as_dtype, int32, int64
from stepscope.graph.graph import graph_of, name_scope
from stepscope.graph.operation import Operation, Tensor
from stepscope.graph.shapes import UNKNOWN, TensorShape, as_shape
from stepscope.ops.arrays.constants import range as range_of
from stepscope.ops.arrays.conversion import cast, identity
from stepscope.ops.arrays.shaping import shape as shape_of

__all__ = ["TensorArray", "as_flow", "with_flow"]


class TensorArray:
    """Tensors of one type by index. An array that was written to is another object: use that.

    `size` elements, more with `dynamic_size`; each may be written once, and read once unless
    `clear_after_read=False`. Gradients go back through it element by element.
    """

    def __init__(
        self,
        dtype: Any,
        size: Any = None,
        dynamic_size: bool | None = None,
        clear_after_read: bool | None = None,
        tensor_array_name: str | None = None,
        handle: Tensor | None = None,
        flow: Tensor | None = None,
        infer_shape: bool = True,
        element_shape: Any = None,
        colocate_with_first_write_call: bool = True,
        name: str | None = None,
    ) -> None:
        del colocate_with_first_write_call
        if handle is not None and size is not None:
            raise ValueError("Cannot provide both a handle and size to the constructor.")
        if handle is None and size is None:
            raise ValueError("Size must be provided if handle is not provided.")
        self._dtype = as_dtype(dtype).base_dtype
        self._dynamic = bool(dynamic_size)
        self._infer = infer_shape
        self._element = [UNKNOWN if element_shape is None else as_shape(element_shape)]
        self._declared = self._element[0].known is not None
        self._size = size if not self._dynamic else None
        with name_scope(name, "TensorArray", [handle, size, flow]) as scope:
            if handle is not None:
                self._handle = handle
                self._flow = flow if flow is not None else convert_to_tensor(0.0)
                return
            graph = graph_of([size])
            with graph.device(None), graph.colocate_with(None, ignore_existing=True):
                op = apply_op(
                    "TensorArrayV3",
                    size,
                    dtype=self._dtype,
                    element_shape=self._element[0],
                    identical_element_shapes=infer_shape,
                    dynamic_size=self._dynamic,
                    clear_after_read=True if clear_after_read is None else clear_after_read,
                    tensor_array_name=tensor_array_name or "",
                    name=scope,
                )
            self._handle, self._flow = op.values()

    @property
    def dtype(self) -> DType:
        return self._dtype

    @property
    def handle(self) -> Tensor:
        return self._handle

    @property
    def flow(self) -> Tensor:
        return self._flow

    @property
    def dynamic_size(self) -> bool:
        return self._dynamic

    @property
    def element_shape(self) -> TensorShape:
        return self._element[0]

    @property
    def graph(self) -> Any:
        return self._flow.graph

    def identity(self) -> TensorArray:
        """The same array, behind whatever control dependencies are in force."""
        return self._after(identity(self._flow))

    def read(self, index: Any, name: str | None = None) -> Tensor:
        """The tensor at an index."""
        value = apply_op("TensorArrayReadV3", self._handle, index, self._flow, dtype=self._dtype,
                         name=name).values()[0]  # fmt: skip
        value.set_shape(self._element[0])
        return value

    def write(self, index: Any, value: Any, name: str | None = None) -> TensorArray:
        """The array with `value` at an index."""
        with name_scope(name, "TensorArrayWrite", [self._handle, index, value]):
            value = convert_to_tensor(value, preferred_dtype=self._dtype, name="value")
            self._expect(value, value.shape)
            flow = apply_op("TensorArrayWriteV3", self._handle, index, value, self._flow,
                            name=name).values()[0]  # fmt: skip
        return self._after(flow)

    def stack(self, name: str | None = None) -> Tensor:
        """All elements, along a new first axis."""
        with self.graph.colocate_with(self._handle), \
                name_scope(name, "TensorArrayStack", [self._handle]):  # fmt: skip
            value = self.gather(range_of(0, self.size()), name=name)
        if self._size is not None:
            value.set_shape(TensorShape([self._known_size()]).concatenate(self._element[0]))
        return value

    def gather(self, indices: Any, name: str | None = None) -> Tensor:
        """The elements of these indices, along a new first axis."""
        op = apply_op("TensorArrayGatherV3", self._handle, indices, self._flow,
                      dtype=self._dtype, element_shape=self._element[0], name=name)  # fmt: skip
        value = op.values()[0]
        if self._declared:
            # As in TensorFlow, where the handle knows only what the array was made with.
            value.set_shape(op.inputs[1].shape.concatenate(self._element[0]))
        return value

    def concat(self, name: str | None = None) -> Tensor:
        """The elements one after the other, along their first axis."""
        axes = self._element[0].axes
        rest = UNKNOWN if axes is None else TensorShape(axes[1:])
        value = apply_op("TensorArrayConcatV3", self._handle, self._flow, dtype=self._dtype,
                         element_shape_except0=rest, name=name).values()[0]  # fmt: skip
        if axes is not None:
            size = constant_value(self.size()) if self._infer else None
            length = None if size is None or axes[0] is None else int(size) * axes[0]
            value.set_shape(TensorShape([length]).concatenate(rest))
        return value

    def unstack(self, value: Any, name: str | None = None) -> TensorArray:
        """The array with the rows of `value` as its elements."""
        with name_scope(name, "TensorArrayUnstack", [self._handle, value]):
            rows = shape_of(value)[0]
            return self.scatter(range_of(0, rows), value, name=name)

    def scatter(self, indices: Any, value: Any, name: str | None = None) -> TensorArray:
        """The array with the rows of `value` at these indices."""
        with name_scope(name, "TensorArrayScatter", [self._handle, value, indices]):
            value = convert_to_tensor(value, preferred_dtype=self._dtype, name="value")
            axes = value.shape.axes
            self._expect(value, UNKNOWN if axes is None else TensorShape(axes[1:]))
            flow = apply_op("TensorArrayScatterV3", self._handle, indices, value, self._flow,
                            name=name).values()[0]  # fmt: skip
        return self._after(flow)

    def split(self, value: Any, lengths: Any, name: str | None = None) -> TensorArray:
        """The array with parts of `value`, of these lengths, as its elements."""
        with name_scope(name, "TensorArraySplit", [self._handle, value, lengths]):
            value = convert_to_tensor(value, dtype=self._dtype, name="value")
            lengths = cast(lengths, int64)
            flow = apply_op("TensorArraySplitV3", self._handle, value, lengths, self._flow,
                            name=name).values()[0]  # fmt: skip
        return self._after(flow)

    def size(self, name: str | None = None) -> Tensor:
        """How many elements it has."""
        if self._size is not None:
            return convert_to_tensor(self._size, int32)
        return apply_op("TensorArraySizeV3", self._handle, self._flow, name=name).values()[0]

    def _known_size(self) -> int | None:
        value = self._size
        if isinstance(value, Tensor):
            value = constant_value(value)
        return None if value is None else int(value)

    def close(self, name: str | None = None) -> Operation:
        """An op that lets go of all elements."""
        return apply_op("TensorArrayCloseV3", self._handle, name=name)

    def grad(self, source: str, flow: Any = None, name: str | None = None) -> TensorArray:
        """The array that gradients of the elements are added up in; one for each `source`."""
        with name_scope(name, "TensorArrayGrad", [self._handle]), \
                self.graph.colocate_with(self._handle):  # fmt: skip
            handle, after = apply_op(
                "TensorArrayGradV3", self._handle, self._flow if flow is None else flow,
                source=source, name=name,
            ).values()  # fmt: skip
        made = self._after(after)
        made._handle, made._size, made._dynamic = handle, None, False
        made._element = list(self._element)
        return made

    def _expect(self, value: Tensor, element: TensorShape) -> None:
        if value.dtype.base_dtype is not self._dtype:
            raise ValueError(
                f"TensorArray dtype is {self._dtype.name} but Op is trying to write dtype "
                f"{value.dtype.base_dtype.name}."
            )
        if not self._infer:
            return
        if not self._element[0].is_compatible_with(element):
            raise ValueError(f"Inconsistent shapes: saw {element} but expected {self._element[0]}")
        # All the objects of one array learn it.
        self._element[0] = self._element[0].merge_with(element)

    def _after(self, flow: Tensor) -> TensorArray:
        other = TensorArray.__new__(TensorArray)
        other._dtype, other._dynamic, other._infer = self._dtype, self._dynamic, self._infer
        other._element, other._declared = self._element, self._declared
        other._size = self._size
        other._handle, other._flow = self._handle, flow
        return other


def as_flow(array: TensorArray) -> Tensor:
    """What stands for an array among tensors."""
    return array.flow


def with_flow(original: Any, tensor: Tensor) -> Any:
    """The array with another flow, where the original is one; else the tensor."""
    return original._after(tensor) if isinstance(original, TensorArray) else tensor
