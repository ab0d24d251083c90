"""Ops that order other ops, look at values or refuse them: NoOp, group, tuple, Print, Assert."""

from __future__ import annotations

import builtins
import itertools
import sys
import threading
from collections.abc import Iterable, Sequence, ValuesView
from typing import Any

import numpy as np

from stepscope.errors import InvalidArgumentError
from stepscope.graph.build import apply_op, convert_to_tensor
from stepscope.graph.dtypes import Array
from stepscope.graph.graph import control_dependencies, graph_of, name_scope
from stepscope.graph.indexed_slices import IndexedSlices
from stepscope.graph.operation import Operation, Tensor
from stepscope.graph.registry import (
    Kernel,
    KernelNode,
    ShapeContext,
    gradient,
    no_gradient,
    register,
)
from stepscope.graph.shapes import TensorShape
from stepscope.ops.arrays.conversion import identity

# -- NoOp, and what is made of it --------------------------------------------------------------


def _nothing() -> None:
    return None


def _no_outputs(_context: ShapeContext) -> list[TensorShape]:
    return []


register("NoOp", shape=_no_outputs, kernel=lambda _node: Kernel(_nothing, cost_ns=20))


def no_op(name: str | None = None) -> Operation:
    """An op that does nothing; useful for its control dependencies."""
    return apply_op("NoOp", name=name)


def group(*inputs: Any, name: str | None = None) -> Operation:
    """An op that is done when all the given ops and tensors are.

    Lists, tuples and dicts of them are taken apart. Where they sit on several devices, one node
    per device collects those of its own.
    """
    items = [_as_op(item) for item in _flatten(inputs)]
    graph = graph_of(items)
    with graph.as_default(), name_scope(name, "group_deps", items) as scope:
        by_device: dict[str, list[Operation]] = {}
        for op in items:
            by_device.setdefault(op.device, []).append(op)
        if len(by_device) <= 1:
            device = next(iter(by_device), "")
            return _collect(items, device, scope)
        collected = [_collect(by_device[device], device, None) for device in sorted(by_device)]
        return _collect(collected, "", scope)


def _collect(ops: Sequence[Operation], device: str, name: str | None) -> Operation:
    with control_dependencies(ops):
        if not device:
            return no_op(name)
        with graph_of(ops).device(device):
            return no_op(name)


def _flatten(value: Any) -> Iterable[Any]:
    if isinstance(value, (list, builtins.tuple, set, ValuesView)):
        for item in value:
            yield from _flatten(item)
    elif isinstance(value, dict):
        for key in sorted(value):
            yield from _flatten(value[key])
    elif value is not None:
        yield value


def _as_op(item: Any) -> Operation:
    element = item._as_graph_element() if hasattr(item, "_as_graph_element") else item
    if isinstance(element, Operation):
        return element
    if isinstance(element, (Tensor, IndexedSlices)):
        return element.op
    raise TypeError(
        "'inputs' should be zero or more (nested) Tensors. "
        f"Received '{item}' with type '{type(item)}'."
    )


def with_dependencies(
    dependencies: Sequence[Any], output_tensor: Any, name: str | None = None
) -> Tensor:
    """The tensor, available only once the dependencies are done."""
    tensor = convert_to_tensor(output_tensor)
    graph = tensor.graph
    values = [*dependencies, tensor]
    with graph.as_default(), name_scope(name, "control_dependency", values) as scope:  # noqa: SIM117
        with graph.colocate_with(tensor), graph.control_dependencies(dependencies):
            return identity(tensor, name=scope)


def tuple(
    tensors: Sequence[Any],
    name: str | None = None,
    control_inputs: Sequence[Any] | None = None,
) -> list[Any]:
    """The same tensors, each available only once all of them (and `control_inputs`) are."""
    items = list(tensors)
    present = [t for t in items if t is not None]
    if not present:
        raise ValueError(f"'tensors' must have at least one Tensor. Received: {tensors}.")
    with name_scope(name, "tuple", present):
        gate = group(*[*present, *(control_inputs or ())])
        result: list[Any] = []
        for item in items:
            if isinstance(item, Operation):
                result.append(group(item, gate))
            elif item is None:
                result.append(None)
            elif isinstance(item, IndexedSlices):
                values = with_dependencies([gate], item.values)
                result.append(IndexedSlices(values, item.indices, item.dense_shape))
            else:
                result.append(with_dependencies([gate], item))
        return result


# -- how values are written --------------------------------------------------------------------


def summarize_value(value: Any, limit: int) -> str:
    """The first `limit` elements (all if negative), rows in brackets: `[1 2][3...]...`."""
    array = np.asarray(value)
    count = array.size if limit < 0 else min(limit, array.size)
    if array.ndim == 0:
        return element_text(array[()]) if count else "..."
    text, shown = _rows(array, count)
    return text + ("..." if shown < array.size else "")


def _rows(array: Array, room: int) -> builtins.tuple[str, int]:
    """Up to `room` elements of the array as text, and how many they are."""
    if array.ndim == 1:
        return " ".join(element_text(x) for x in array[:room]), min(room, len(array))
    parts: list[str] = []
    shown = 0
    for row in array:
        if shown >= room:
            break
        text, count = _rows(row, room - shown)
        cut = "..." if row.ndim == 1 and count < len(row) else ""
        parts.append(f"[{text}{cut}]")
        shown += count
    return "".join(parts), shown


def element_text(value: Any) -> str:
    if isinstance(value, (bytes, str)):
        text = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value
        escapes = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "'": "\\'"}
        return "".join(escapes.get(c, c) for c in text)
    if isinstance(value, np.bool_):
        return str(int(value))
    if isinstance(value, np.floating):
        short, long = (15, 17) if value.dtype.itemsize == 8 else (6, 9)
        text = f"{value:.{short}g}"
        return text if value.dtype.type(text) == value else f"{value:.{long}g}"
    if isinstance(value, np.complexfloating):
        return f"({element_text(value.real)},{element_text(value.imag)})"
    return str(value)


# -- Print -------------------------------------------------------------------------------------

_print_lock = threading.Lock()


def _write(text: str) -> None:
    # One write per line, so that lines of several threads do not mix.
    with _print_lock:
        sys.stderr.write(text)
        sys.stderr.flush()


def _print_kernel(node: KernelNode) -> Kernel:
    message = node.attr("message").decode("utf-8", "replace")
    first_n, summarize = node.attr("first_n"), node.attr("summarize")
    # The count belongs to the session, not to one of its plans.
    calls = node.resources.get_or_create("print", node.name, itertools.count)

    def call(value: Any, *data: Any) -> Any:
        if first_n < 0 or next(calls) < first_n:
            _write(message + "".join(f"[{summarize_value(d, summarize)}]" for d in data) + "\n")
        return value

    return Kernel(call, views=(0,), cost_ns=20_000)


register(
    "Print",
    inputs=["input: T", "data: U"],
    outputs=["output: T"],
    attrs=["T: type", "U: list(type)", "message: string = ''", "first_n: int = -1",
           "summarize: int = 3"],
    shape=lambda c: c.input(0),
    kernel=_print_kernel,
    stateful=True,
)  # fmt: skip


@gradient("Print")
def _print_gradient(op: Operation, grad: Tensor) -> list[Tensor | None]:
    return [grad, *[None] * (len(op.inputs) - 1)]


def Print(
    input_: Any,
    data: Sequence[Any],
    message: str | None = None,
    first_n: int | None = None,
    summarize: int | None = None,
    name: str | None = None,
) -> Tensor:
    """`input_` itself; each time it is computed the values of `data` are written to stderr.

    `message` goes before them; `first_n` limits how often, `summarize` how many elements of each.
    """
    attrs = {"message": message, "first_n": first_n, "summarize": summarize}
    given = {key: value for key, value in attrs.items() if value is not None}
    return apply_op("Print", input_, list(data), name=name, **given).values()[0]


def _print_v2_kernel(node: KernelNode) -> Kernel:
    stream = node.attr("output_stream").decode()
    end = node.attr("end").decode("utf-8", "replace")
    if stream not in ("stderr", "stdout"):
        raise InvalidArgumentError.without_op(
            f"PrintV2 {node.name!r}: output_stream {stream!r} is not supported; "
            "use 'stderr' or 'stdout'.",
        )

    def call(value: Any) -> None:
        text: Any = np.asarray(value, dtype=object)[()]
        out = sys.stdout if stream == "stdout" else sys.stderr
        with _print_lock:
            out.write(text.decode("utf-8", "backslashreplace") + end)
            out.flush()

    return Kernel(call, cost_ns=20_000)


register(
    "PrintV2",
    inputs=["input: string"],
    attrs=["output_stream: string = 'stderr'", "end: string = '\\n'"],
    shape=_no_outputs,
    kernel=_print_v2_kernel,
    stateful=True,
)

# -- Assert ------------------------------------------------------------------------------------


def _assert_kernel(node: KernelNode) -> Kernel:
    summarize = node.attr("summarize")

    def call(condition: Any, *data: Any) -> None:
        if np.ndim(condition):
            found = TensorShape(np.shape(condition)).brief()
            raise InvalidArgumentError.without_op(f"In[0] should be a scalar: {found}")
        if not condition:
            values = " ".join(f"[{summarize_value(d, summarize)}]" for d in data)
            raise InvalidArgumentError.without_op(f"assertion failed: {values}")

    return Kernel(call, cost_ns=300)


register(
    "Assert",
    inputs=["condition: bool", "data: T"],
    attrs=["T: list(type)", "summarize: int = 3"],
    shape=_no_outputs,
    kernel=_assert_kernel,
    stateful=True,
)

no_gradient("Assert")


def Assert(
    condition: Any, data: Sequence[Any], summarize: int | None = None, name: str | None = None
) -> Operation:
    """An op that fails with InvalidArgumentError, showing `data`, where the condition is false."""
    attrs = {} if summarize is None else {"summarize": summarize}
    with name_scope(name, "Assert", [condition, *data]):
        for value in data:
            if not isinstance(value, Tensor):
                # TensorFlow looks at the types of all data first; these constants stay behind.
                convert_to_tensor(value)
        return apply_op("Assert", condition, list(data), name="Assert", **attrs)


# -- collectives -------------------------------------------------------------------------------
# Known, so that graphs that hold them can be read; without kernels, so that running one says so.

register(
    "CollectiveReduce",
    inputs=["input: T"],
    outputs=["data: T"],
    attrs=["T: type", "group_size: int", "group_key: int", "instance_key: int",
           "merge_op: string", "final_op: string", "subdiv_offsets: list(int)",
           "wait_for: list(int) = []", "communication_hint: string = 'auto'",
           "timeout_seconds: float = 0"],
    shape=lambda c: c.input(0),
    stateful=True,
)  # fmt: skip
register(
    "CollectiveReduceV2",
    inputs=["input: T", "group_size: int32", "group_key: int32", "instance_key: int32",
            "ordering_token: Nordering_token * resource"],
    outputs=["data: T"],
    attrs=["T: type", "merge_op: string", "final_op: string",
           "communication_hint: string = 'auto'", "timeout_seconds: float = 0",
           "is_stateless: bool = false", "Nordering_token: int = 0",
           "max_subdivs_per_device: int = -1"],
    shape=lambda c: c.input(0),
    stateful=True,
)  # fmt: skip
