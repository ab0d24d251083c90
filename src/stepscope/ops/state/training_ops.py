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
_OPTIONS: Final = {
    "use_nesterov": "false",
    "update_slots": "true",
    "multiply_linear_by_lr": "false",
}
"""Attributes that change what a rule does, with TensorFlow's defaults."""
_FIXED: Final = {"indices": "Tindices", "global_step": "int64"}
"""Inputs that are not of the variable's type."""

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


def _adagrad(states: Sequence[Array], grad: Array, given: Values) -> None:
    var, accum = states
    if given["update_slots"]:
        np.add(accum, np.square(grad), accum)
    scale = np.sqrt(accum)
    if "epsilon" in given:
        np.add(scale, given["epsilon"], scale)
    np.subtract(var, np.divide(np.multiply(grad, given["lr"]), scale, scale), var)


def _adadelta(states: Sequence[Array], grad: Array, given: Values) -> None:
    var, accum, accum_update = states
    share, small = var.dtype.type(1) - given["rho"], given["epsilon"]
    _mixed(accum, np.square(grad), given["rho"], share)
    step = np.sqrt(np.add(accum_update, small))
    np.divide(step, np.sqrt(np.add(accum, small)), step)
    np.multiply(step, grad, step)
    np.subtract(var, np.multiply(step, given["lr"]), var)
    _mixed(accum_update, np.square(step), given["rho"], share)


def _mixed(average: Array, value: Array, kept: Any, share: Any) -> None:
    """`kept` of a running average plus `share` of a value, which is overwritten."""
    np.multiply(average, kept, average)
    np.multiply(value, share, value)
    np.add(average, value, average)


def _ftrl(states: Sequence[Array], grad: Array, given: Values) -> None:
    var, accum, linear = states
    rate, power, two = given["lr"], -given["lr_power"], var.dtype.type(2)
    steps = np.add(grad, np.multiply(var, two * given.get("l2_shrinkage", var.dtype.type(0))))
    before = np.power(accum, power)
    np.add(accum, np.square(grad), accum)
    after = np.power(accum, power)
    # The linear part is kept times the rate where that is asked for: then a rate may be 0.
    inverse = var.dtype.type(1) if given["multiply_linear_by_lr"] else 1 / rate
    factor = rate if given["multiply_linear_by_lr"] else var.dtype.type(1)
    sigma = np.multiply(np.subtract(after, before, before), inverse, before)
    np.add(linear, np.subtract(steps * factor, sigma * var), linear)
    threshold = given["l1"] * factor
    numerator = np.subtract(np.sign(linear) * threshold, linear)
    divisor = np.add(after * inverse, two * given["l2"] * factor)
    np.copyto(var, np.where(np.abs(linear) > threshold, numerator / divisor, var.dtype.type(0)))


def _shrunk(values: Array, l1: Any, divisor: Any) -> Array:
    """Every value `l1` nearer to zero, but not beyond, and divided."""
    nearer = np.sign(values) * np.maximum(np.abs(values) - l1, values.dtype.type(0))
    shrunk: Array = nearer / divisor
    return shrunk


def _proximal_gradient_descent(states: Sequence[Array], grad: Array, given: Values) -> None:
    (var,) = states
    rate, one = given["alpha"], var.dtype.type(1)
    np.copyto(var, _shrunk(var - grad * rate, rate * given["l1"], one + rate * given["l2"]))


def _proximal_adagrad(states: Sequence[Array], grad: Array, given: Values) -> None:
    var, accum = states
    np.add(accum, np.square(grad), accum)
    rate, one = given["lr"] / np.sqrt(accum), var.dtype.type(1)
    np.copyto(var, _shrunk(var - grad * rate, rate * given["l1"], one + rate * given["l2"]))


def _adagrad_da(states: Sequence[Array], grad: Array, given: Values) -> None:
    var, total, squares = states
    rate, steps = given["lr"], var.dtype.type(given["global_step"])
    np.add(total, grad, total)
    np.add(squares, np.square(grad), squares)
    divisor = given["l2"] * steps * rate + np.sqrt(squares)
    np.copyto(var, -rate * _shrunk(total, given["l1"] * steps, divisor))


def _ada_max(states: Sequence[Array], grad: Array, given: Values) -> None:
    var, m, v = states
    one = var.dtype.type(1)
    _towards(m, np.array(grad), one - given["beta1"])
    np.maximum(np.multiply(v, given["beta2"], v), np.abs(grad), out=v)
    rate = given["lr"] / (one - given["beta1_power"])
    np.subtract(var, rate * (m / (v + given["epsilon"])), var)


def _add_sign(states: Sequence[Array], grad: Array, given: Values) -> None:
    agreed = _agreement(states, grad, given)
    step = given["lr"] * (given["alpha"] + given["sign_decay"] * agreed) * grad
    np.subtract(states[0], step, states[0])


def _power_sign(states: Sequence[Array], grad: Array, given: Values) -> None:
    agreed = _agreement(states, grad, given)
    step = given["lr"] * np.exp(given["logbase"] * given["sign_decay"] * agreed) * grad
    np.subtract(states[0], step, states[0])


def _agreement(states: Sequence[Array], grad: Array, given: Values) -> Array:
    """Whether the gradient points where the running average, with it, does: 1, 0 or -1."""
    average = states[1]
    _mixed(average, np.array(grad), given["beta"], average.dtype.type(1) - given["beta"])
    agreed: Array = np.sign(grad) * np.sign(average)
    return agreed


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
    if np.ndim(grad) == 0:  # NumPy's functions make numbers of arrays without axes
        states, grad = [state.reshape(1) for state in states], np.reshape(grad, 1)
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
    options = {name: bool(node.op.attrs[name]) for name in _OPTIONS if name in node.op.attrs}
    slope = "delta" if "delta" in names else "grad"
    sparse, by_reference = "indices" in names, bool(node.output_dtypes)

    def call(*inputs: Any) -> Any:
        cells = inputs[:states]
        given = {**dict(zip(names, inputs[states:], strict=True)), **options}
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


def _training_op(name: str, states: str, values: str, rule: Rule, option: str = "") -> None:
    """Register an op and its resource form; both take the states, then the values, in order."""
    held, names = states.split(), values.split()
    attrs = ["T: type", "use_locking: bool = false"]
    if "indices" in names:
        attrs.insert(1, "Tindices: type")
    if option:
        attrs.append(f"{option}: bool = {_OPTIONS[option]}")
    plain = [f"{n}: {_FIXED.get(n, 'T')}" for n in names]
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


def _with_rows(name: str, states: str, values: str, rule: Rule, option: str = "") -> None:
    """Register an op for whole variables and the one for rows; "rows" in `values` is where the
    indices come in the latter's inputs.
    """
    whole = [n for n in values.split() if n != "rows"]
    _training_op(name, states, " ".join(whole), rule, option)
    rows = " ".join(values.split()).replace("rows", "indices").replace("delta", "grad")
    _training_op(f"Sparse{name}", states, rows, rule, option)


_training_op("ApplyGradientDescent", "var", "alpha delta", _gradient_descent)
_training_op(
    "ApplyAdam", "var m v", "beta1_power beta2_power lr beta1 beta2 epsilon grad", _adam,
    "use_nesterov",
)  # fmt: skip
_training_op("ApplyAdaMax", "var m v", "beta1_power lr beta1 beta2 epsilon grad", _ada_max)
_training_op("ApplyAddSign", "var m", "lr alpha sign_decay beta grad", _add_sign)
_training_op("ApplyPowerSign", "var m", "lr logbase sign_decay beta grad", _power_sign)
_with_rows("ApplyMomentum", "var accum", "lr grad rows momentum", _momentum, "use_nesterov")
_with_rows("ApplyRMSProp", "var ms mom", "lr rho momentum epsilon grad rows", _rms_prop)
_with_rows(
    "ApplyCenteredRMSProp", "var mg ms mom", "lr rho momentum epsilon grad rows",
    _centered_rms_prop,
)  # fmt: skip
_with_rows("ApplyAdagrad", "var accum", "lr grad rows", _adagrad, "update_slots")
_with_rows("ApplyAdagradV2", "var accum", "lr epsilon grad rows", _adagrad, "update_slots")
_with_rows("ApplyAdadelta", "var accum accum_update", "lr rho epsilon grad rows", _adadelta)
_with_rows(
    "ApplyFtrl", "var accum linear", "grad rows lr l1 l2 lr_power", _ftrl, "multiply_linear_by_lr"
)
_with_rows(
    "ApplyFtrlV2", "var accum linear", "grad rows lr l1 l2 l2_shrinkage lr_power", _ftrl,
    "multiply_linear_by_lr",
)  # fmt: skip
_with_rows(
    "ApplyProximalGradientDescent", "var", "alpha l1 l2 delta rows", _proximal_gradient_descent
)
_with_rows("ApplyProximalAdagrad", "var accum", "lr l1 l2 grad rows", _proximal_adagrad)
_with_rows(
    "ApplyAdagradDA", "var gradient_accumulator gradient_squared_accumulator",
    "grad rows lr l1 l2 global_step", _adagrad_da,
)  # fmt: skip
