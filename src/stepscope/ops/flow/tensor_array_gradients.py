"""How gradients go back through TensorArrays.

Beside each array there is, for each call of `gradients`, one of gradients (`TensorArray.grad`), in
which those of the same element are added up. What reads an element writes to it, what writes an
element reads from it, and the gradient of a flow is the flow of that array: it keeps them in order.
"""

from __future__ import annotations

from typing import Any

from stepscope.graph.operation import Operation, Tensor
from stepscope.graph.registry import gradient
from stepscope.graph.shapes import UNKNOWN, TensorShape
from stepscope.ops.flow import tensor_array_ops as _registers_the_op_types  # noqa: F401
from stepscope.ops.flow.tensor_array import TensorArray


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
