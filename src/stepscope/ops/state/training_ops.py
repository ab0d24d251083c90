"""The ops that apply gradients to variables: one rule each, for whole variables and for rows.

A rule changes arrays in place: the variable's and those of its slots. The same rule serves the
reference form (`ApplyAdam`), the resource form (`ResourceApplyAdam`) and the sparse form, which
runs it on the rows that have a gradient. Whole variables are changed block by block, so that what
is computed on the way stays in the processor's cache, and takes no memory to speak of.

An update holds the locks of the variable and its slots, in that order: two updates of one variable
follow each other, and a reader sees all of an update or nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from stepscope.errors import InvalidArgumentError
from stepscope.graph.dtypes import Array
from stepscope.graph.registry import Kernel, KernelNode, ShapeContext, register
from stepscope.graph.shapes import TensorShape
from stepscope.ops.signatures import FLOATS
from stepscope.ops.state.variable_cells import VariableCell, brief_shape
from stepscope.ops.state.variable_ops import check_indices

_BLOCK: Final = 16384

Values = Mapping[str, Any]
Rule = Callable[[Sequence[Array], Array, Values], None]
"""`rule(states, gradient, values)`: the arrays to change, and what else the op was given."""


# -- the rules ---------------------------------------------------------------------------------


def _gradient_descent(states: Sequence[Array], grad: Array, given: Values) -> None:
    (var,) = states
    np.subtract(var, np.multiply(grad, given["alpha"]), var)


def _momentum(states: Sequence[Array], grad: Array, given: Values) -> None:
    var, accum = states
    rate, momentum = given["lr"], given["momentum"]
    np.multiply(accum, momentum, accum)
    np.add(accum, grad, accum)
    if given["use_nesterov"]:
        step = np.multiply(accum, momentum)
        np.add(step, grad, step)
        np.multiply(step, rate, step)
    else:
        step = np.multiply(accum, rate)
    np.subtract(var, step, var)


def _towards(average: Array, value: Array, share: Any) -> None:
    """Move a running average towards a value, which is overwritten."""
    np.subtract(value, average, value)
    np.multiply(value, share, value)
    np.add(average, value, average)


def _adam(states: Sequence[Array], grad: Array, given: Values) -> None:
    var, m, v = states
    beta1, one = given["beta1"], var.dtype.type(1)
    rate = given["lr"] * np.sqrt(one - given["beta2_power"]) / (one - given["beta1_power"])
    _towards(m, np.array(grad), one - beta1)
    _towards(v, np.square(grad), one - given["beta2"])
    scale = np.add(np.sqrt(v), given["epsilon"])
    if given["use_nesterov"]:
        step = np.multiply(grad, one - beta1)
        np.add(step, np.multiply(m, beta1), step)
        np.multiply(step, rate, step)
    else:
        step = np.multiply(m, rate)
    np.divide(step, scale, step)
    np.subtract(var, step, var)


def _rms_prop(states: Sequence[Array], grad: Array, given: Values) -> None:
    var, ms, mom = states
    _towards(ms, np.square(grad), var.dtype.type(1) - given["rho"])
    _step_by_scale(var, mom, grad, np.add(ms, given["epsilon"]), given)


def _centered_rms_prop(states: Sequence[Array], grad: Array, given: Values) -> None:
    var, mg, ms, mom = states
    share = var.dtype.type(1) - given["rho"]
    _towards(ms, np.square(grad), share)
    _towards(mg, np.array(grad), share)
    variance = np.subtract(ms, np.square(mg))
    _step_by_scale(var, mom, grad, np.add(variance, given["epsilon"], variance), given)


def _step_by_scale(var: Array, mom: Array, grad: Array, squares: Array, given: Values) -> None:
    step = np.divide(np.multiply(grad, given["lr"]), np.sqrt(squares, squares))
    np.multiply(mom, given["momentum"], mom)
    np.add(mom, step, mom)
    np.subtract(var, mom, var)


# -- how they run ------------------------------------------------------------------------------


def _blocks(arrays: Sequence[Array]) -> Iterator[list[Array]]:
    flat = [a.reshape(-1) for a in arrays]
    for start in range(0, flat[0].size, _BLOCK):
        yield [a[start : start + _BLOCK] for a in flat]


def _changing(cells: Sequence[VariableCell], change: Callable[[list[Array]], None]) -> None:
    """Call `change` with the stored arrays of all cells, to be written to."""
    if len(cells) == 1:
        cells[0].modify(lambda array: change([array]))
        return

    def enter(number: int, arrays: list[Array]) -> None:
        if number == len(cells):
            change(arrays)
        else:
            cells[number].modify(lambda array: enter(number + 1, [*arrays, array]))

    enter(0, [])


def _same_shapes(arrays: Sequence[Array], shape: tuple[int, ...], what: str) -> None:
    for array in arrays:
        if array.shape != shape:
            raise InvalidArgumentError.without_op(
                f"The variable, its slots and {what} must have one shape, found "
                f"{brief_shape(array.shape)} and {brief_shape(shape)}.",
            )


def _dense(rule: Rule, states: Sequence[Array], grad: Array, given: Values) -> None:
    _same_shapes(states, np.shape(grad), "the gradient")
    if grad.size <= _BLOCK:
        rule(states, grad, given)
        return
    for *parts, slope in _blocks([*states, grad]):
        rule(parts, slope, given)


def _sparse(
    rule: Rule, states: Sequence[Array], grad: Array, indices: Array, given: Values
) -> None:
    check_indices(indices, states[0].shape[0])
    _same_shapes([grad], (*np.shape(indices), *states[0].shape[1:]), "rows of gradients")
    repeated = len(np.unique(indices)) != indices.size
    # Rows that come twice are changed twice, one after the other.
    for chosen in range(indices.size) if repeated else (slice(None),):
        places = np.atleast_1d(indices[chosen])
        rows = [state[places] for state in states]
        rule(rows, grad[chosen].reshape(rows[0].shape), given)
        for state, row in zip(states, rows, strict=True):
            state[places] = row


def _kernel(rule: Rule, states: int, names: Sequence[str], node: KernelNode) -> Kernel:
    nesterov = bool(node.op.attrs.get("use_nesterov", False))
    slope = "delta" if "delta" in names else "grad"
    sparse, by_reference = "indices" in names, bool(node.output_dtypes)

    def call(*inputs: Any) -> Any:
        cells, given = inputs[:states], dict(zip(names, inputs[states:], strict=True))
        given["use_nesterov"] = nesterov
        grad = given[slope]
        if sparse:
            _changing(cells, lambda arrays: _sparse(rule, arrays, grad, given["indices"], given))
        else:
            _changing(cells, lambda arrays: _dense(rule, arrays, grad, given))
        return cells[0] if by_reference else None

    return Kernel(call)


def _shape(ctx: ShapeContext) -> Any:
    if ctx.attr("T") not in FLOATS:
        raise TypeError(f"{ctx.op_type} takes floats, not {ctx.attr('T').name}.")
    if ctx.op_type.startswith("Resource"):
        return []
    shape = ctx.input(0)
    if not ctx.op_type.startswith("Sparse"):
        spec = [s for s in ctx.inputs[1:] if s.rank not in (None, 0)]
        for other in spec:
            shape = shape.merge_with(other)
    return TensorShape(shape)


def _training_op(name: str, states: str, values: str, rule: Rule, nesterov: bool = False) -> None:
    """Register an op and its resource form; both take the states, then the values, in order."""
    held, names = states.split(), values.split()
    sparse = "indices" in names
    attrs = ["T: type", *(["Tindices: type"] if sparse else []), "use_locking: bool = false"]
    if nesterov:
        attrs.append("use_nesterov: bool = false")
    plain = [f"{n}: {'Tindices' if n == 'indices' else 'T'}" for n in names]
    for prefix, kind, outputs in (("", "Ref(T)", ["out: Ref(T)"]), ("Resource", "resource", [])):
        register(
            prefix + name,
            inputs=[*(f"{s}: {kind}" for s in held), *plain],
            outputs=outputs,
            attrs=attrs,
            shape=_shape,
            kernel=lambda node: _kernel(rule, len(held), names, node),
            stateful=True,
        )


_training_op("ApplyGradientDescent", "var", "alpha delta", _gradient_descent)
_training_op("ApplyMomentum", "var accum", "lr grad momentum", _momentum, nesterov=True)
_training_op(
    "SparseApplyMomentum", "var accum", "lr grad indices momentum", _momentum, nesterov=True
)
_training_op(
    "ApplyAdam", "var m v", "beta1_power beta2_power lr beta1 beta2 epsilon grad", _adam,
    nesterov=True,
)  # fmt: skip
_training_op("ApplyRMSProp", "var ms mom", "lr rho momentum epsilon grad", _rms_prop)
_training_op("SparseApplyRMSProp", "var ms mom", "lr rho momentum epsilon grad indices", _rms_prop)
_training_op(
    "ApplyCenteredRMSProp", "var mg ms mom", "lr rho momentum epsilon grad", _centered_rms_prop
)
_training_op(
    "SparseApplyCenteredRMSProp", "var mg ms mom", "lr rho momentum epsilon grad indices",
    _centered_rms_prop,
)  # fmt: skip
