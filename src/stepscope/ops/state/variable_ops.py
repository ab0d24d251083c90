"""The ops that make, read and change variables; `variable_cells` says what they may rely on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from stepscope.errors import InvalidArgumentError
from stepscope.graph.build import apply_op, constant_op
from stepscope.graph.dtypes import Array
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
from stepscope.graph.shapes import SCALAR, UNKNOWN, TensorShape, unknown_shape
from stepscope.ops.arrays.shaping import reshape, size
from stepscope.ops.signatures import output_of
from stepscope.ops.state.variable_cells import KIND, VariableCell, brief_shape

# -- the variables themselves ------------------------------------------------------------------


def _cell(node: KernelNode) -> VariableCell:
    container, shared = node.attr("container"), node.attr("shared_name")
    name = shared.decode() if shared else node.name
    key = f"{container.decode()}/{name}" if container else name
    dtype, shape = node.attr("dtype"), node.attr("shape")
    cell: VariableCell = node.resources.get_or_create(
        KIND,
        key,
        lambda: VariableCell(
            name, dtype, _declared(node.op.type, shape),
            op=node.name, device=node.device, held=node.resources.held,
            by_reference=node.op.type != "VarHandleOp",
        ),
    )  # fmt: skip
    if cell.dtype is not dtype.base_dtype:
        raise InvalidArgumentError.without_op(
            f"Variable {key!r} holds {cell.dtype.name} in this session, but node {node.name!r} "
            f"declares {dtype.base_dtype.name}: give the two different names.",
        )
    return cell


def _declared(op_type: str, shape: TensorShape) -> TensorShape:
    # The oldest of the variable ops has no way to say "unknown" and writes a scalar instead.
    return UNKNOWN if op_type == "Variable" and shape.rank == 0 else shape


def _variable_kernel(node: KernelNode) -> Kernel:
    cell = _cell(node)
    return Kernel(lambda: cell, cost_ns=50)


for _name in ("VariableV2", "Variable"):
    register(
        _name,
        outputs=["ref: Ref(dtype)"],
        attrs=["shape: shape", "dtype: type", "container: string = ''",
               "shared_name: string = ''"],
        shape=lambda c: _declared(c.op_type, c.attr("shape")),
        kernel=_variable_kernel,
        stateful=True,
    )  # fmt: skip

register(
    "VarHandleOp",
    outputs=["resource: resource"],
    attrs=["container: string = ''", "shared_name: string = ''", "debug_name: string = ''",
           "dtype: type", "shape: shape", "allowed_devices: list(string) = []"],
    shape=lambda _c: SCALAR,
    kernel=_variable_kernel,
    stateful=True,
)  # fmt: skip

# -- assignment by reference -------------------------------------------------------------------
# TensorFlow calls these stateless; here they are stateful, so that nothing evaluates them early.


def _assign_shape(context: ShapeContext) -> TensorShape:
    if not context.attr("validate_shape"):
        return context.input(1)
    return context.input(0).merge_with(context.input(1))


def _assign_kernel(node: KernelNode) -> Kernel:
    if node.attr("validate_shape"):
        return Kernel(lambda cell, value: cell.assign(value, same_shape=True))
    return Kernel(VariableCell.assign)


register(
    "Assign",
    inputs=["ref: Ref(T)", "value: T"],
    outputs=["output_ref: Ref(T)"],
    attrs=["T: type", "validate_shape: bool = true", "use_locking: bool = true"],
    shape=_assign_shape,
    kernel=_assign_kernel,
    stateful=True,
)

for _name, _method in (
    ("AssignAdd", VariableCell.assign_add),
    ("AssignSub", VariableCell.assign_sub),
):
    register(
        _name,
        inputs=["ref: Ref(T)", "value: T"],
        outputs=["output_ref: Ref(T)"],
        attrs=["T: type", "use_locking: bool = false"],
        shape=lambda c: c.input(0).merge_with(c.input(1)),
        kernel=lambda _node, method=_method: Kernel(method),  # type: ignore[misc]
        stateful=True,
    )


def _is_initialized(cell: VariableCell) -> Any:
    return np.bool_(cell.initialized)


register(
    "IsVariableInitialized",
    inputs=["ref: Ref(dtype)"],
    outputs=["is_initialized: bool"],
    attrs=["dtype: type"],
    shape=lambda _c: SCALAR,
    kernel=lambda _node: Kernel(_is_initialized, cost_ns=200),
    stateful=True,
)


# -- rows of a variable ------------------------------------------------------------------------


def _put(array: Array, indices: Array, updates: Array) -> None:
    array[indices, ...] = updates  # With the dots one string is put in, not its array.


def _to_each_row(change: np.ufunc) -> Callable[[Array, Array, Array], None]:
    """Change the rows that indices name, in their order, a row as often as it is named.

    `ufunc.at` goes number by number. Rows are changed as wholes instead, all of them at once where
    each is named for the first time, so that only repetitions are left:

    >>> rows = np.zeros((3, 2))
    >>> _to_each_row(np.add)(rows, np.array([2, 0, 2]), np.array([[1, 2], [3, 4], [5, 6]]))
    >>> rows
    array([[3., 4.],
           [0., 0.],
           [6., 8.]])
    """

    def write(array: Array, indices: Array, updates: Array) -> None:
        if array.ndim == 1:  # NumPy has a quick way for these.
            change.at(array, indices, updates)
            return
        named = np.reshape(indices, -1)
        rows = np.broadcast_to(updates, np.shape(indices) + array.shape[1:])
        rows = rows.reshape(-1, *array.shape[1:])
        _, first = np.unique(named, return_index=True)
        if first.size == named.size:
            array[named] = change(array[named], rows)
            return
        array[named[first]] = change(array[named[first]], rows[first])
        again = np.ones(named.size, bool)
        again[first] = False
        change.at(array, named[again], rows[again])

    return write


def _scatter_shape(context: ShapeContext) -> TensorShape:
    ref, indices, updates = context.inputs
    if updates.rank != 0 and ref.rank is not None:
        indices.concatenate(ref[1:]).assert_is_compatible_with(updates)
    return ref


def _scatter_kernel(write: Callable[[Array, Array, Array], Any]) -> Callable[[KernelNode], Kernel]:
    def scatter(cell: VariableCell, indices: Array, updates: Array) -> VariableCell:
        def change(array: Array) -> None:
            check_indices(indices, array.shape[0])
            wanted = np.shape(indices) + array.shape[1:]
            if np.shape(updates) not in ((), wanted):
                raise InvalidArgumentError.without_op(
                    "Must have updates.shape = indices.shape + params.shape[1:] or "
                    f"updates.shape = [], got updates.shape {brief_shape(np.shape(updates))}, "
                    f"indices.shape {brief_shape(np.shape(indices))}, "
                    f"params.shape {brief_shape(array.shape)}",
                )
            write(array, indices, updates)

        return cell.modify(change)

    return lambda _node: Kernel(scatter)


def check_indices(indices: Any, length: int) -> None:
    """InvalidArgumentError naming the first index that is not in [0, length)."""
    wrong = (indices < 0) | (indices >= length)
    if np.any(wrong):
        where = tuple(int(i) for i in np.argwhere(wrong)[0])
        place = f"indices[{','.join(map(str, where))}]" if where else "indices"
        raise InvalidArgumentError.without_op(
            f"{place} = {np.asarray(indices)[where]} is not in [0, {length})"
        )


for _name, _write, _locking in (
    ("ScatterUpdate", _put, "true"),
    ("ScatterAdd", _to_each_row(np.add), "false"),
    ("ScatterSub", _to_each_row(np.subtract), "false"),
):
    register(
        _name,
        inputs=["ref: Ref(T)", "indices: Tindices", "updates: T"],
        outputs=["output_ref: Ref(T)"],
        attrs=["T: type", "Tindices: type", f"use_locking: bool = {_locking}"],
        shape=_scatter_shape,
        kernel=_scatter_kernel(_write),
        stateful=True,
    )


# -- resource variables ------------------------------------------------------------------------
# A read is a view of what the handle stands for: the engine neither writes to it nor hands it out
# without copying.

register(
    "ReadVariableOp",
    inputs=["resource: resource"],
    outputs=["value: dtype"],
    attrs=["dtype: type"],
    kernel=lambda _node: Kernel(VariableCell.read, views=(0,)),
    stateful=True,
)


def _assign_resource(cell: VariableCell, value: Any) -> None:
    cell.assign(value)


def _assign_resource_checked(cell: VariableCell, value: Any) -> None:
    cell.assign(value, same_shape=True)


def _add_to_resource(cell: VariableCell, value: Any) -> None:
    cell.assign_add(value)


def _subtract_from_resource(cell: VariableCell, value: Any) -> None:
    cell.assign_sub(value)


def _assign_resource_kernel(node: KernelNode) -> Kernel:
    checked = node.attr("validate_shape")
    return Kernel(_assign_resource_checked if checked else _assign_resource)


def _no_outputs(_context: ShapeContext) -> list[TensorShape]:
    return []


register(
    "AssignVariableOp",
    inputs=["resource: resource", "value: dtype"],
    attrs=["dtype: type", "validate_shape: bool = false"],
    shape=_no_outputs,
    kernel=_assign_resource_kernel,
    stateful=True,
)
register(
    "AssignAddVariableOp",
    inputs=["resource: resource", "value: dtype"],
    attrs=["dtype: type"],
    shape=_no_outputs,
    kernel=lambda _node: Kernel(_add_to_resource),
    stateful=True,
)
register(
    "AssignSubVariableOp",
    inputs=["resource: resource", "value: dtype"],
    attrs=["dtype: type"],
    shape=_no_outputs,
    kernel=lambda _node: Kernel(_subtract_from_resource),
    stateful=True,
)
register(
    "VarIsInitializedOp",
    inputs=["resource: resource"],
    outputs=["is_initialized: bool"],
    shape=lambda _c: SCALAR,
    kernel=lambda _node: Kernel(_is_initialized, cost_ns=200),
    stateful=True,
)


def _resource_gather_kernel(node: KernelNode) -> Kernel:
    if node.attr("batch_dims"):
        raise InvalidArgumentError.without_op(
            f"ResourceGather {node.name!r}: batch_dims other than 0 is not supported."
        )

    def gather(cell: VariableCell, indices: Array) -> Array:
        array = cell.read()
        check_indices(indices, array.shape[0])
        return np.take(array, indices, axis=0)

    return Kernel(gather)


register(
    "ResourceGather",
    inputs=["resource: resource", "indices: Tindices"],
    outputs=["output: dtype"],
    attrs=["batch_dims: int = 0", "validate_indices: bool = true", "dtype: type",
           "Tindices: type"],
    kernel=_resource_gather_kernel,
    stateful=True,
)  # fmt: skip


def _no_result(write: Callable[[Array, Array, Array], Any]) -> Callable[[KernelNode], Kernel]:
    by_reference = _scatter_kernel(write)

    def factory(node: KernelNode) -> Kernel:
        scatter = by_reference(node).call

        def call(cell: VariableCell, indices: Array, updates: Array) -> None:
            scatter(cell, indices, updates)

        return Kernel(call)

    return factory


for _name, _write in (
    ("ResourceScatterUpdate", _put),
    ("ResourceScatterAdd", _to_each_row(np.add)),
    ("ResourceScatterSub", _to_each_row(np.subtract)),
):
    register(
        _name,
        inputs=["resource: resource", "indices: Tindices", "updates: dtype"],
        attrs=["dtype: type", "Tindices: type"],
        shape=_no_outputs,
        kernel=_no_result(_write),
        stateful=True,
    )


def add_to_rows(handle: Tensor, indices: Any, updates: Any) -> Operation:
    """Add to the rows of a resource variable; a repeated index is added to each time."""
    return apply_op("ResourceScatterAdd", handle, indices, updates)


# -- gradients ---------------------------------------------------------------------------------

no_gradient("Assign", "AssignAdd", "AssignSub", "ScatterAdd", "ScatterSub", "VarIsInitializedOp")


def _variable_shape_kernel(node: KernelNode) -> Kernel:
    dtype = node.output_dtypes[0].numpy
    return Kernel(lambda cell: np.array(cell.read().shape, dtype))


register(
    "VariableShape",
    inputs=["input: resource"],
    outputs=["output: out_type"],
    attrs=["out_type: type = int32"],
    shape=lambda _c: unknown_shape(1),
    kernel=_variable_shape_kernel,
    stateful=True,
)
no_gradient("VariableShape")


@gradient("ReadVariableOp")
def _read_gradient(_op: Operation, grad: Tensor) -> Tensor:
    return grad


@gradient("ResourceGather")
def _resource_gather_gradient(op: Operation, grad: Tensor) -> list[Any]:
    handle, indices = op.inputs
    declared = handle.op.attrs.get("shape", UNKNOWN)
    known = declared.known
    dense = output_of("VariableShape", handle) if known is None else constant_op(list(known))
    count = reshape(size(indices), [1])
    values = reshape(grad, output_of("ConcatV2", [count, dense[1:]], 0))
    return [IndexedSlices(values, reshape(indices, [-1]), dense), None]
