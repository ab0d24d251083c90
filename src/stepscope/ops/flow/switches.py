"""The op types that TensorFlow 1's conditionals and loops are made of: Switch, Merge and frames.

A tensor may be *dead*: it is on the branch that was not taken. `Switch` makes one of its outputs
dead; whatever has a dead input does not execute and is dead itself; `Merge` passes on the input
that is not. A loop is a *frame*: `Enter` brings tensors into its first iteration (`is_constant`:
into every one), `NextIteration` into the following one, `Exit` out of it. The executor moves
tensors between frames and iterations; the kernels here only say which tensor goes on.

Each has a twin for references to variables (`RefSwitch`, ...), which passes the variable on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from stepscope.errors import InvalidArgumentError
from stepscope.graph.build import apply_op, convert_to_tensor
from stepscope.graph.dtypes import resource
from stepscope.graph.operation import Operation, Tensor
from stepscope.graph.registry import Kernel, KernelNode, ShapeContext, gradient, register
from stepscope.graph.shapes import UNKNOWN, TensorShape
from stepscope.ops.arrays.constants import zeros_like
from stepscope.ops.math.comparison import equal


class _Dead:
    def __repr__(self) -> str:
        return "<dead>"


DEAD: Final = _Dead()
"""What a kernel gives for an output that is dead."""

SWITCHES: Final = frozenset({"Switch", "RefSwitch"})
MERGES: Final = frozenset({"Merge", "RefMerge"})
ENTERS: Final = frozenset({"Enter", "RefEnter"})
EXITS: Final = frozenset({"Exit", "RefExit"})
NEXT_ITERATIONS: Final = frozenset({"NextIteration", "RefNextIteration"})
FLOW: Final = SWITCHES | MERGES | ENTERS | EXITS | NEXT_ITERATIONS

_MERGE_INDICES: Final = [np.array(i, np.int32) for i in range(16)]


def _switch(data: Any, pred: Any) -> tuple[Any, Any]:
    if np.ndim(pred):
        raise InvalidArgumentError.without_op(
            f"The second input must be a scalar, but it has shape {np.shape(pred)}"
        )
    return (DEAD, data) if pred else (data, DEAD)


def _merge(index: int, value: Any) -> tuple[Any, Any]:
    """Called by the executor with the input that is there, and which one it is."""
    known = index < len(_MERGE_INDICES)
    return value, _MERGE_INDICES[index] if known else np.array(index, np.int32)


def _merged_shape(context: ShapeContext) -> list[TensorShape]:
    """What holds for every input; a loop's second input is not known when this is asked."""
    first, *others = context.inputs
    axes = first.axes
    for other in others:
        if axes is None or other.axes is None or len(axes) != len(other.axes):
            axes = None
            break
        axes = tuple(a if a == b else None for a, b in zip(axes, other.axes, strict=True))
    return [UNKNOWN if axes is None else TensorShape(axes), TensorShape(())]


def _entered_shape(context: ShapeContext) -> TensorShape:
    """Of a loop variable the loop decides: its shape may differ between iterations."""
    keeps = context.attr("is_constant") or context.op_type == "RefEnter"
    return context.input(0) if keeps else UNKNOWN


def _scalar(context: ShapeContext) -> TensorShape:
    return context.input(0).merge_with(TensorShape(()))


def _passes_on(_node: KernelNode) -> Kernel:
    return Kernel(_same, views=(0,), cost_ns=100)


def _same(value: Any) -> Any:
    return value


def _register_both(
    name: str,
    data: str,
    outputs: Sequence[str],
    attrs: Sequence[str],
    shape: Callable[[ShapeContext], Any],
    kernel: Callable[[KernelNode], Kernel],
    more: Sequence[str] = (),
) -> None:
    """The op type, and its twin for references."""
    register(name, inputs=[f"{data}: T", *more], outputs=[f"{o}: T" for o in outputs],
             attrs=["T: type", *attrs], shape=shape, kernel=kernel)  # fmt: skip
    register(f"Ref{name}", inputs=[f"{data}: Ref(T)", *more],
             outputs=[f"{o}: Ref(T)" for o in outputs], attrs=["T: type", *attrs], shape=shape,
             kernel=kernel)  # fmt: skip


_register_both(
    "Switch", "data", ["output_false", "output_true"], [], lambda c: [c.input(0), c.input(0)],
    lambda _node: Kernel(_switch, views=(0,), cost_ns=300), more=["pred: bool"],
)  # fmt: skip
_register_both(
    "Enter", "data", ["output"],
    ["frame_name: string", "is_constant: bool = false", "parallel_iterations: int = 10"],
    _entered_shape, _passes_on,
)  # fmt: skip
_register_both("Exit", "data", ["output"], [], lambda c: c.input(0), _passes_on)
_register_both("NextIteration", "data", ["output"], [], lambda c: c.input(0), _passes_on)
register("RefIdentity", inputs=["input: Ref(T)"], outputs=["output: Ref(T)"], attrs=["T: type"],
         shape=lambda c: c.input(0), kernel=_passes_on)  # fmt: skip
register("LoopCond", inputs=["input: bool"], outputs=["output: bool"], shape=_scalar,
         kernel=_passes_on)  # fmt: skip
register("ControlTrigger", shape=lambda _c: [], kernel=lambda _node: Kernel(_nothing, cost_ns=20))


def _nothing() -> None:
    return None


def _merge_kernel(node: KernelNode) -> Kernel:
    return Kernel(_merge, views=tuple(range(len(node.input_shapes))), cost_ns=300)


for _prefix, _inputs, _output in (("", "N * T", "T"), ("Ref", "Ref(N * T)", "Ref(T)")):
    register(
        f"{_prefix}Merge",
        inputs=[f"inputs: {_inputs}"],
        outputs=[f"output: {_output}", "value_index: int32"],
        attrs=["T: type", "N: int"],
        shape=_merged_shape,
        kernel=_merge_kernel,
    )


# -- gradients ---------------------------------------------------------------------------------


@gradient("Switch")
def _switch_gradient(op: Operation, *grads: Tensor | None) -> list[Tensor | None]:
    """The branch that was taken sends its gradient; one that does not use the value sends zeros.

    Of a loop's variable, the body sends it: what the loop gives out has a way of its own.
    """
    data, pred = op.inputs
    if pred.op.type == "LoopCond":
        return [grads[1], None]
    value = data
    if data.dtype is resource:
        dtype = next(g.dtype for g in grads if g is not None)
        value = apply_op("ReadVariableOp", data, dtype=dtype).values()[0]
    # Zeros that are there only where that branch was taken.
    sent = [
        switch(zeros_like(value), pred)[branch] if grad is None else grad
        for branch, grad in enumerate(grads)
    ]
    return [merge(sent, name="cond_grad")[0], None]


@gradient("Merge")
def _merge_gradient(op: Operation, grad: Tensor, _index: Tensor | None) -> list[Tensor | None]:
    context = op.inputs[0].op._context
    pred = getattr(context, "pred", None)
    if pred is not None and len(op.inputs) == 2:
        return list(switch(grad, pred, name="cond_grad"))
    return [
        switch(grad, equal(op.outputs[1], np.int32(i)))[1] for i in range(len(op.inputs))
    ]  # fmt: skip


@gradient("RefIdentity")
def _ref_identity_gradient(_op: Operation, grad: Tensor) -> Tensor:
    return grad


# -- functions ---------------------------------------------------------------------------------


def switch(data: Any, pred: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """(data where `pred` is false, data where it is true); the other one is dead."""
    tensor = data if isinstance(data, Tensor) else convert_to_tensor(data)
    kind = "RefSwitch" if tensor.dtype._is_ref_dtype else "Switch"
    with tensor.graph.colocate_with(tensor, ignore_existing=True):
        false, true = apply_op(kind, tensor, pred, name=name or "Switch").values()
    return false, true


def merge(inputs: Sequence[Any], name: str | None = None) -> tuple[Tensor, Tensor]:
    """The first of the inputs that is there and not dead, and which one it is."""
    tensors = [t if isinstance(t, Tensor) else convert_to_tensor(t) for t in inputs]
    is_ref = all(t.dtype._is_ref_dtype for t in tensors)
    kind = "RefMerge" if is_ref else "Merge"
    output, index = apply_op(kind, tensors, name=name or "Merge").values()
    return output, index


def enter(
    data: Tensor, frame_name: str, *, is_constant: bool = False, parallel_iterations: int = 10,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """The tensor inside the loop of that name."""
    kind = "RefEnter" if data.dtype._is_ref_dtype else "Enter"
    op = apply_op(kind, data, name=name, frame_name=frame_name, is_constant=is_constant,
                  parallel_iterations=parallel_iterations)  # fmt: skip
    return op.values()[0]


def exit_loop(data: Tensor, name: str | None = None) -> Tensor:
    """The tensor as it leaves the loop."""
    kind = "RefExit" if data.dtype._is_ref_dtype else "Exit"
    return apply_op(kind, data, name=name).values()[0]


def next_iteration(data: Tensor, name: str | None = None) -> Tensor:
    """The tensor in the following iteration."""
    kind = "RefNextIteration" if data.dtype._is_ref_dtype else "NextIteration"
    return apply_op(kind, data, name=name).values()[0]


def identity_in_loop(data: Tensor) -> Tensor:
    """A loop variable as the body of the loop sees it."""
    kind = "RefIdentity" if data.dtype._is_ref_dtype else "Identity"
    return apply_op(kind, data).values()[0]


def loop_cond(pred: Tensor, name: str | None = None) -> Tensor:
    """Whether the loop goes on."""
    return apply_op("LoopCond", pred, name=name or "LoopCond").values()[0]
