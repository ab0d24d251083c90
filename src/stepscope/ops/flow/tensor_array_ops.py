"""The op types of TensorArrays, and what they work on while a graph runs.

Each execution of `TensorArrayV3` makes an `ArrayStore`; the other ops work on it. A *flow*, a float
that says nothing, goes from op to op and keeps them in order. What is stored is not copied: nothing
writes to a tensor once it is there. `TensorArrayGradV3` comes with graphs that TensorFlow made: it
makes, beside an array, the one that gradients of its elements are added up in.

Beside each array there is, for each call of `gradients`, one of gradients (`TensorArray.grad`), in
which those of the same element are added up. What reads an element writes to it, what writes an
element reads from it, and the gradient of a flow is the flow of that array: it keeps them in order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from stepscope.errors import InvalidArgumentError
from stepscope.graph.dtypes import Array, DType, string
from stepscope.graph.operation import Operation, Tensor
from stepscope.graph.registry import (
    Kernel,
    KernelNode,
    ShapeContext,
    gradient,
    no_gradient,
    register,
)
from stepscope.graph.shapes import UNKNOWN, TensorShape, unknown_shape
from stepscope.ops.flow.tensor_array import TensorArray

_FLOW: Final = np.zeros((), np.float32)
_UNWRITTEN: Final = object()
_CLEARED: Final = object()


class ArrayStore:
    """The tensors of one TensorArray in one run; safe under threads."""

    def __init__(
        self, name: str, dtype: DType, size: int, element_shape: TensorShape, *,
        dynamic: bool, clears: bool,
    ) -> None:  # fmt: skip
        self.name = name
        self._dtype = dtype
        self._shape = element_shape
        self._known = element_shape.known
        self._takes_all = element_shape.axes is None
        self._dynamic = dynamic
        self._clears = clears
        self._items: list[Any] = [_UNWRITTEN] * size
        self._closed = False
        self._adds = False
        self._shapes: dict[int, tuple[int, ...]] = {}
        """By index, of what was written."""
        self._gradients: dict[str, ArrayStore] = {}
        self._lock = threading.Lock()
        self.tags: dict[int, Any] = {}
        """By index, what whoever counts memory put there."""

    @property
    def clears(self) -> bool:
        """Whether an element is let go once it was read."""
        return self._clears

    def size(self) -> int:
        self._check_open()
        return len(self._items)

    def write(self, index: int, value: Any) -> None:
        self._check_open()
        self._check(value)
        with self._lock:
            if index < 0:
                raise self._refusal(f"Tried to write to index {index}, which is negative")
            if index >= len(self._items):
                if not self._dynamic:
                    raise self._refusal(
                        f"Tried to write to index {index} but array is not resizeable and size "
                        f"is: {len(self._items)}"
                    )
                self._items += [_UNWRITTEN] * (index + 1 - len(self._items))
            if self._items[index] is not _UNWRITTEN and self._adds:
                self._items[index] = self._items[index] + value
                return
            if self._items[index] is not _UNWRITTEN:
                raise self._refusal(
                    f"Could not write to TensorArray index {index} because it has already been "
                    "written to."
                )
            self._items[index] = value
            self._shapes[index] = np.shape(value)

    def gradient(self, source: str) -> ArrayStore:
        """The array of that name that gradients of the elements are added up in."""
        with self._lock:
            found = self._gradients.get(source)
            if found is None:
                found = self._gradients[source] = ArrayStore(
                    f"{self.name}@{source}", self._dtype, len(self._items), self._shape,
                    dynamic=False, clears=self._clears,
                )  # fmt: skip
                found._adds = True
                found._shapes = dict(self._shapes)
            return found

    def read(self, index: int) -> Any:
        self._check_open()
        with self._lock:
            if not 0 <= index < len(self._items):
                raise self._refusal(
                    f"Tried to read from index {index} but array size is: {len(self._items)}"
                )
            value = self._items[index]
            if value is _CLEARED:
                raise self._refusal(
                    f"Could not read index {index} twice because it was cleared after a previous "
                    "read (perhaps try setting clear_after_read = false?)."
                )
            if value is _UNWRITTEN:
                known = self._shapes.get(index, self._shape.known)
                if known is None:
                    raise self._refusal(
                        f"Could not read from TensorArray index {index}. Furthermore, the element "
                        f"shape is not fully defined: {self._shape}. It is possible you are "
                        "working with a resizeable TensorArray and stop_gradients is not allowing "
                        "the gradients to be written."
                    )
                empty = b"" if self._dtype is string else 0
                return np.full(known, empty, self._dtype.numpy)
            if self._clears:
                self._items[index] = _CLEARED
            return value

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._items = []

    def _check(self, value: Any) -> None:
        if self._takes_all or np.shape(value) == self._known:
            return
        found = TensorShape(np.shape(value))
        if not self._shape.is_compatible_with(found):
            raise self._refusal(
                f"Incompatible element shapes: the array has {self._shape.brief()}, the value "
                f"{found.brief()}"
            )

    def _check_open(self) -> None:
        if self._closed:
            raise self._refusal("it has already been closed.")

    def _refusal(self, text: str) -> InvalidArgumentError:
        return InvalidArgumentError.without_op(f"TensorArray {self.name}: {text}")


# -- op types ----------------------------------------------------------------------------------


def _make_kernel(node: KernelNode) -> Kernel:
    name = node.attr("tensor_array_name").decode() or node.name
    dtype, shape = node.attr("dtype"), node.attr("element_shape")
    dynamic, clears = node.attr("dynamic_size"), node.attr("clear_after_read")

    def call(size: Any) -> tuple[ArrayStore, Array]:
        if np.ndim(size) or size < 0:
            raise InvalidArgumentError.without_op(
                f"TensorArray size must be a scalar >= 0, not {size!r}"
            )
        store = ArrayStore(name, dtype, int(size), shape, dynamic=dynamic, clears=clears)
        return store, _FLOW

    return Kernel(call, cost_ns=2000, opaque=True)


register(
    "TensorArrayV3",
    inputs=["size: int32"],
    outputs=["handle: resource", "flow: float"],
    attrs=["dtype: type", "element_shape: shape = unknown", "dynamic_size: bool = false",
           "clear_after_read: bool = true", "identical_element_shapes: bool = false",
           "tensor_array_name: string = ''"],
    shape=lambda _c: [TensorShape((2,)), TensorShape(())],
    kernel=_make_kernel,
    stateful=True,
)  # fmt: skip


def _scalar(_context: ShapeContext) -> TensorShape:
    return TensorShape(())


def _keeping(call: Callable[..., Any]) -> Callable[[KernelNode], Kernel]:
    """Stores its value, and passes the flow on."""
    return lambda _node: Kernel(call, views=(3,), opaque=True, cost_ns=1000)


def _write(store: ArrayStore, index: Any, value: Any, flow: Any) -> Any:
    store.write(int(index), value)
    return flow


register(
    "TensorArrayWriteV3",
    inputs=["handle: resource", "index: int32", "value: T", "flow_in: float"],
    outputs=["flow_out: float"],
    attrs=["T: type"],
    shape=_scalar,
    kernel=_keeping(_write),
    stateful=True,
)


def _read(store: ArrayStore, index: Any, _flow: Any) -> Any:
    return store.read(int(index))


register(
    "TensorArrayReadV3",
    inputs=["handle: resource", "index: int32", "flow_in: float"],
    outputs=["value: dtype"],
    attrs=["dtype: type"],
    kernel=lambda _node: Kernel(_read, opaque=True, cost_ns=1000),
    stateful=True,
)


def _gathered_shape(context: ShapeContext) -> TensorShape:
    return TensorShape([None]).concatenate(context.attr("element_shape"))


def _gather_kernel(node: KernelNode) -> Kernel:
    dtype, element = node.attr("dtype"), node.attr("element_shape")

    def call(store: ArrayStore, indices: Any, _flow: Any) -> Array:
        items = [store.read(int(i)) for i in indices]
        if not items:
            known = element.known
            if known is None:
                raise InvalidArgumentError.without_op(
                    f"TensorArray {store.name}: a gather of no elements needs a fully defined "
                    f"element shape, not {element}",
                )
            return np.zeros((0, *known), dtype.numpy)
        shapes = {np.shape(item) for item in items}
        if len(shapes) > 1:
            raise InvalidArgumentError.without_op(
                f"TensorArray {store.name} has inconsistent shapes: "
                f"{', '.join(TensorShape(s).brief() for s in sorted(shapes))}",
            )
        return np.stack(items)

    return Kernel(call, cost_ns=10_000)


register(
    "TensorArrayGatherV3",
    inputs=["handle: resource", "indices: int32", "flow_in: float"],
    outputs=["value: dtype"],
    attrs=["dtype: type", "element_shape: shape = unknown"],
    shape=_gathered_shape,
    kernel=_gather_kernel,
    stateful=True,
)


def _scatter(store: ArrayStore, indices: Any, value: Any, flow: Any) -> Any:
    if not np.ndim(value) or len(value) != len(indices):
        raise InvalidArgumentError.without_op(
            f"Expected len(indices) == values.shape[0], but saw: {len(indices)} vs. "
            f"{np.shape(value)[:1]}",
        )
    for row, index in enumerate(indices):
        store.write(int(index), value[row, ...])  # With the dots a string is an array, too.
    return flow


register(
    "TensorArrayScatterV3",
    inputs=["handle: resource", "indices: int32", "value: T", "flow_in: float"],
    outputs=["flow_out: float"],
    attrs=["T: type"],
    shape=_scalar,
    kernel=_keeping(_scatter),
    stateful=True,
)


def _split(store: ArrayStore, value: Any, lengths: Any, flow: Any) -> Any:
    if np.ndim(value) < 1 or int(np.sum(lengths)) != len(value):
        raise InvalidArgumentError.without_op(
            "Expected sum of lengths to be equal to values.shape[0], but sum of lengths is "
            f"{int(np.sum(lengths))} and value's shape is: {TensorShape(np.shape(value)).brief()}",
        )
    start = 0
    for index, length in enumerate(lengths):
        store.write(index, value[start : start + int(length)])
        start += int(length)
    return flow


register(
    "TensorArraySplitV3",
    inputs=["handle: resource", "value: T", "lengths: int64", "flow_in: float"],
    outputs=["flow_out: float"],
    attrs=["T: type"],
    shape=_scalar,
    kernel=_keeping(_split),
    stateful=True,
)


def _concat_kernel(node: KernelNode) -> Kernel:
    dtype, rest = node.attr("dtype"), node.attr("element_shape_except0")

    def call(store: ArrayStore, _flow: Any) -> tuple[Array, Array]:
        items = [store.read(i) for i in range(store.size())]
        if not items:
            return np.zeros((0, *(rest.known or ())), dtype.numpy), np.zeros(0, np.int64)
        if any(not np.ndim(item) for item in items):
            raise InvalidArgumentError.without_op(
                "Concat saw a scalar shape at index 0 but requires at least vectors."
            )
        lengths = np.array([len(item) for item in items], np.int64)
        return np.concatenate(items), lengths

    return Kernel(call, cost_ns=10_000)


register(
    "TensorArrayConcatV3",
    inputs=["handle: resource", "flow_in: float"],
    outputs=["value: dtype", "lengths: int64"],
    attrs=["dtype: type", "element_shape_except0: shape = unknown"],
    shape=lambda _c: [UNKNOWN, unknown_shape(1)],
    kernel=_concat_kernel,
    stateful=True,
)
register(
    "TensorArraySizeV3",
    inputs=["handle: resource", "flow_in: float"],
    outputs=["size: int32"],
    shape=_scalar,
    kernel=lambda _node: Kernel(
        lambda store, _flow: np.array(store.size(), np.int32), cost_ns=1000
    ),
    stateful=True,
)
register(
    "TensorArrayCloseV3",
    inputs=["handle: resource"],
    shape=lambda _c: [],
    kernel=lambda _node: Kernel(lambda store: store.close(), cost_ns=1000),
    stateful=True,
)


def _gradient_kernel(node: KernelNode) -> Kernel:
    source = node.attr("source").decode()

    def call(store: ArrayStore, flow: Any) -> tuple[ArrayStore, Any]:
        return store.gradient(source), flow

    return Kernel(call, opaque=True, cost_ns=2000)


register(
    "TensorArrayGradV3",
    inputs=["handle: resource", "flow_in: float"],
    outputs=["grad_handle: resource", "flow_out: float"],
    attrs=["source: string"],
    shape=lambda _c: [TensorShape((2,)), TensorShape(())],
    kernel=_gradient_kernel,
    stateful=True,
)
no_gradient("TensorArrayV3", "TensorArraySizeV3", "TensorArrayCloseV3")


def _gradients_of(op: Operation, dtype: Any, flow: Tensor, element: Any = None) -> TensorArray:
    array = TensorArray(dtype, handle=op.inputs[0], flow=flow, infer_shape=False,
                        element_shape=element)  # fmt: skip
    return array.grad(op.graph.get_gradient_source() or "gradients", flow)


@gradient("TensorArrayReadV3")
def _read_gradient(op: Operation, grad: Tensor) -> list[Tensor | None]:
    array = _gradients_of(op, op.get_attr("dtype"), op.inputs[2])
    return [None, None, array.write(op.inputs[1], grad).flow]


@gradient("TensorArrayWriteV3")
def _write_gradient(op: Operation, flow: Tensor) -> list[Tensor | None]:
    _, index, value, _ = op.inputs
    array = _gradients_of(op, op.get_attr("T"), flow, value.shape)
    return [None, None, array.read(index), flow]


@gradient("TensorArrayGatherV3")
def _gather_gradient(op: Operation, grad: Tensor) -> list[Tensor | None]:
    array = _gradients_of(op, op.get_attr("dtype"), op.inputs[2])
    return [None, None, array.scatter(op.inputs[1], grad).flow]


@gradient("TensorArrayScatterV3")
def _scatter_gradient(op: Operation, flow: Tensor) -> list[Tensor | None]:
    _, indices, value, _ = op.inputs
    axes = value.shape.axes
    element = UNKNOWN if axes is None else TensorShape(axes[1:])
    array = _gradients_of(op, op.get_attr("T"), flow, element)
    return [None, None, array.gather(indices), flow]


@gradient("TensorArrayConcatV3")
def _concat_gradient(op: Operation, grad: Tensor, _lengths: Any) -> list[Tensor | None]:
    array = _gradients_of(op, op.get_attr("dtype"), op.inputs[1])
    return [None, array.split(grad, op.outputs[1]).flow]


@gradient("TensorArraySplitV3")
def _split_gradient(op: Operation, flow: Tensor) -> list[Tensor | None]:
    array = _gradients_of(op, op.get_attr("T"), flow)
    return [None, array.concat(), None, flow]


@gradient("TensorArrayGradV3")
def _array_of_gradients_gradient(
    _op: Operation, _handle: Any, flow: Tensor | None
) -> list[Tensor | None]:
    return [None, flow]
