"""Learning rates that depend on the count of training steps: `tf.train.polynomial_decay` and so on.

Each is a tensor that is worked out anew in every run, from the step as it is then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from stepscope.graph.build import convert_to_tensor
from stepscope.graph.dtypes import DType
from stepscope.graph.dtypes import int32 as int32_type
from stepscope.graph.dtypes import int64 as int64_type
from stepscope.graph.graph import name_scope
from stepscope.graph.operation import Tensor
from stepscope.ops.arrays import conversion
from stepscope.ops.flow import conditionals
from stepscope.ops.math import comparison, division, elementwise, unary
from stepscope.ops.math.random import random_normal
from stepscope.ops.signatures import argument


def exponential_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Tensor:
    """`learning_rate * decay_rate ** (global_step / decay_steps)`, in stairs where asked for.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     rate = tf.train.exponential_decay(0.8, 4, decay_steps=2, decay_rate=0.5)
    ...     print(session.run(rate))
    0.2
    """
    _check_step(global_step, "exponential_decay")
    with name_scope(name, "ExponentialDecay", [learning_rate, global_step]) as scope:
        rate, kind = _rate(learning_rate)
        elapsed = _elapsed(global_step, decay_steps, kind, staircase)
        factor = elementwise.pow(conversion.cast(decay_rate, kind), elapsed)
        return elementwise.multiply(rate, factor, name=scope)


def natural_exp_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Tensor:
    """`learning_rate * exp(-decay_rate * global_step / decay_steps)`.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     rate = tf.train.natural_exp_decay(1.0, 4, decay_steps=2, decay_rate=0.5)
    ...     print(round(float(session.run(rate)), 4))
    0.3679
    """
    _check_step(global_step, "natural_exp_decay")
    shrinking = unary.exp(unary.negative(convert_to_tensor(decay_rate)))
    return exponential_decay(
        learning_rate, global_step, decay_steps, shrinking, staircase=staircase, name=name
    )


def inverse_time_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Tensor:
    """`learning_rate / (1 + decay_rate * global_step / decay_steps)`.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     rate = tf.train.inverse_time_decay(1.0, 4, decay_steps=2, decay_rate=0.5)
    ...     print(session.run(rate))
    0.5
    """
    _check_step(global_step, "inverse_time_decay")
    with name_scope(name, "InverseTimeDecay", [learning_rate, global_step]) as scope:
        rate, kind = _rate(learning_rate)
        elapsed = _elapsed(global_step, decay_steps, kind, staircase)
        return division.divide(rate, 1.0 + conversion.cast(decay_rate, kind) * elapsed, name=scope)


def polynomial_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    end_learning_rate: Any = 0.0001,
    power: Any = 1.0,
    cycle: bool = False,
    name: str | None = None,
) -> Tensor:
    """From `learning_rate` to `end_learning_rate` in `decay_steps`, along a power of what is left.

    With `cycle`, each time it gets there it begins again, over as many more steps as make it reach
    the end after the next multiple of `decay_steps`.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     rate = tf.train.polynomial_decay(1.0, 5, decay_steps=10, end_learning_rate=0.0)
    ...     print(session.run(rate))
    0.5
    """
    _check_step(global_step, "polynomial_decay")
    with name_scope(name, "PolynomialDecay", [learning_rate, global_step]) as scope:
        rate, kind = _rate(learning_rate)
        end, exponent = conversion.cast(end_learning_rate, kind), conversion.cast(power, kind)
        step, steps = conversion.cast(global_step, kind), conversion.cast(decay_steps, kind)
        if cycle:
            one = convert_to_tensor(1.0, kind)
            rounds = comparison.where_v2(comparison.equal(step, 0), one, unary.ceil(step / steps))
            steps = elementwise.multiply(steps, rounds)
        else:
            step = elementwise.minimum(step, steps)
        left = elementwise.pow(1 - division.divide(step, steps), exponent)
        return elementwise.add(elementwise.multiply(rate - end, left), end, name=scope)


def piecewise_constant(
    x: Any, boundaries: Sequence[Any], values: Sequence[Any], name: str | None = None
) -> Tensor:
    """`values[0]` up to and with the first boundary, `values[1]` up to the second, and so on.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     rates = [tf.train.piecewise_constant(x, [2, 5], [1.0, 0.5, 0.25]) for x in (2, 3, 6)]
    ...     print(*session.run(rates))
    1.0 0.5 0.25
    """
    if len(boundaries) != len(values) - 1:
        raise ValueError(
            "The length of boundaries should be 1 less than the length of values: there are "
            f"{len(boundaries)} boundaries and {len(values)} values."
        )
    at = convert_to_tensor(x)
    bounds = [_boundary(b, at.dtype.base_dtype) for b in boundaries]
    steps = [convert_to_tensor(v) for v in values]
    for value in steps[1:]:
        if value.dtype.base_dtype is not steps[0].dtype.base_dtype:
            raise ValueError(
                "Values must have elements all with the same dtype "
                f"({steps[0].dtype.base_dtype!r} vs {value.dtype.base_dtype!r})."
            )
    if not bounds:
        return steps[0]
    with name_scope(name, "PiecewiseConstant", [x, boundaries, values]):
        chosen: list[tuple[Tensor, Callable[[], Tensor]]] = [
            (comparison.less_equal(at, bounds[0]), lambda: steps[0]),
            (comparison.greater(at, bounds[-1]), lambda: steps[-1]),
        ]
        for low, high, value in zip(bounds, bounds[1:], steps[1:], strict=False):
            inside = comparison.logical_and(
                comparison.greater(at, low), comparison.less_equal(at, high)
            )
            chosen.append((inside, partial(conversion.identity, value)))
        result: Tensor = conditionals.case(chosen, lambda: steps[0])
        return result


def _boundary(boundary: Any, kind: DType) -> Tensor:
    bound = convert_to_tensor(boundary)
    if bound.dtype.base_dtype is kind:
        return bound
    if bound.dtype.base_dtype is int32_type and kind is int64_type:
        return conversion.cast(bound, kind)
    raise ValueError(
        f"Boundaries ({bound.dtype.base_dtype!r}) must have the same dtype as x ({kind!r})."
    )


def cosine_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    alpha: Any = 0.0,
    name: str | None = None,
) -> Tensor:
    """Along half a cosine from `learning_rate` to `alpha` times it, in `decay_steps`.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     print(session.run(tf.train.cosine_decay(1.0, 10, decay_steps=10, alpha=0.25)))
    0.25
    """
    _check_step(global_step, "cosine_decay")
    with name_scope(name, "CosineDecay", [learning_rate, global_step]):
        rate, kind = _rate(learning_rate)
        steps = conversion.cast(decay_steps, kind)
        step = elementwise.minimum(conversion.cast(global_step, kind), steps)
        return elementwise.multiply(rate, (1 - alpha) * _half_cosine(step / steps) + alpha)


def cosine_decay_restarts(
    learning_rate: Any,
    global_step: Any,
    first_decay_steps: Any,
    t_mul: Any = 2.0,
    m_mul: Any = 1.0,
    alpha: Any = 0.0,
    name: str | None = None,
) -> Tensor:
    """Cosines one after the other, each `t_mul` times as long as the last and `m_mul` as high.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     rate = tf.train.cosine_decay_restarts(1.0, 10, first_decay_steps=10, m_mul=0.5)
    ...     print(session.run(rate))
    0.5
    """
    _check_step(global_step, "cosine_decay_restarts")
    with name_scope(name, "SGDRDecay", [learning_rate, global_step]) as scope:
        rate, kind = _rate(learning_rate)
        least, longer = conversion.cast(alpha, kind), conversion.cast(t_mul, kind)
        higher = conversion.cast(m_mul, kind)
        rounds = conversion.cast(global_step, kind) / conversion.cast(first_decay_steps, kind)

        def equally_long() -> list[Tensor]:
            number = unary.floor(rounds)
            return [number, rounds - number]

        def longer_and_longer() -> list[Tensor]:
            # The rounds before number n take (1 - t**n) / (1 - t) of the first one's length.
            number = unary.floor(unary.log(1.0 - rounds * (1.0 - longer)) / unary.log(longer))
            length = elementwise.pow(longer, number)
            before = (1.0 - length) / (1.0 - longer)
            return [number, (rounds - before) / length]

        same = comparison.equal(longer, 1.0)
        number, share = conditionals.cond(same, equally_long, longer_and_longer)
        decayed = elementwise.pow(higher, number) * _half_cosine(share)
        return elementwise.multiply(rate, (1 - least) * decayed + least, name=scope)


def linear_cosine_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    num_periods: Any = 0.5,
    alpha: Any = 0.0,
    beta: Any = 0.001,
    name: str | None = None,
) -> Tensor:
    """A falling line plus `alpha`, times a cosine of `num_periods`, plus `beta`; times the rate.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     print(session.run(tf.train.linear_cosine_decay(1.0, 0, decay_steps=10, beta=0.5)))
    1.5
    """
    _check_step(global_step, "linear_cosine_decay")
    with name_scope(name, "LinearCosineDecay", [learning_rate, global_step]) as scope:
        rate, kind = _rate(learning_rate)
        left, cosine, _ = _linear_and_cosine(global_step, decay_steps, num_periods, kind)
        raised = conversion.cast(alpha, kind) + left
        factor = raised * cosine + conversion.cast(beta, kind)
        return elementwise.multiply(rate, factor, name=scope)


def noisy_linear_cosine_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    initial_variance: Any = 1.0,
    variance_decay: Any = 0.55,
    num_periods: Any = 0.5,
    alpha: Any = 0.0,
    beta: Any = 0.001,
    name: str | None = None,
) -> Tensor:
    """`linear_cosine_decay` with normally distributed noise, less and less of it, on the line.

    >>> import stepscope.tf1 as tf
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     rate = tf.train.noisy_linear_cosine_decay(1.0, 10, 10, initial_variance=0.0)
    ...     print(round(float(session.run(rate)), 4))
    0.001
    """
    _check_step(global_step, "noisy_linear_cosine_decay")
    with name_scope(name, "NoisyLinearCosineDecay", [learning_rate, global_step]) as scope:
        rate, kind = _rate(learning_rate)
        left, cosine, step = _linear_and_cosine(global_step, decay_steps, num_periods, kind)
        grown = elementwise.pow(1.0 + step, conversion.cast(variance_decay, kind))
        spread = unary.sqrt(conversion.cast(initial_variance, kind) / grown)
        noisy = left + random_normal(left.shape, stddev=spread, dtype=kind)
        raised = conversion.cast(alpha, kind) + noisy
        factor = raised * cosine + conversion.cast(beta, kind)
        return elementwise.multiply(rate, factor, name=scope)


def _linear_and_cosine(
    global_step: Any, decay_steps: Any, num_periods: Any, kind: DType
) -> tuple[Tensor, Tensor, Tensor]:
    """What is left of the steps, the cosine of what is done, and the step, at most the last."""
    steps, periods = conversion.cast(decay_steps, kind), conversion.cast(num_periods, kind)
    step = elementwise.minimum(conversion.cast(global_step, kind), steps)
    return (steps - step) / steps, _half_cosine(2.0 * periods * (step / steps)), step


def _half_cosine(share: Tensor) -> Tensor:
    """1 at 0, 0 at 1."""
    pi = convert_to_tensor(math.pi, share.dtype.base_dtype)
    return 0.5 * (1.0 + unary.cos(pi * share))


def _rate(learning_rate: Any) -> tuple[Tensor, DType]:
    rate = argument(learning_rate, "learning_rate")
    return rate, rate.dtype.base_dtype


def _elapsed(global_step: Any, decay_steps: Any, kind: DType, staircase: bool) -> Tensor:
    elapsed = conversion.cast(global_step, kind) / conversion.cast(decay_steps, kind)
    return unary.floor(elapsed) if staircase else elapsed


def _check_step(global_step: Any, what: str) -> None:
    if global_step is None:
        raise ValueError(f"{what} needs a global_step: without one nothing decays.")
