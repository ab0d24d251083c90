"""Checks that a graph makes when it runs (`tf.assert_*`), or at once where all is known.

>>> import stepscope.tf1 as tf
>>> with tf.Graph().as_default(), tf.Session() as session:
...     x = tf.placeholder(tf.float32, [2], name="x")
...     with tf.control_dependencies([tf.assert_positive(x, message="x is a length")]):
...         root = tf.sqrt(x)
...     try:
...         session.run(root, {x: [1.0, -4.0]})
...     except tf.errors.InvalidArgumentError as error:
...         print(error.message.splitlines()[0][:57])
assertion failed: [x is a length.  ] [Condition x > 0 did
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from stepscope.errors import InvalidArgumentError
from stepscope.graph.build import convert_to_tensor
from stepscope.graph.constants import constant_value
from stepscope.graph.dtypes import DType, as_dtype, float32, int32
from stepscope.graph.graph import name_scope
from stepscope.graph.operation import Operation, Tensor
from stepscope.graph.sparse_tensor import SparseTensor
from stepscope.ops.arrays import shaping, slicing
from stepscope.ops.flow.ordering import Assert, no_op
from stepscope.ops.math import comparison
from stepscope.ops.math.elementwise import maximum
from stepscope.ops.math.reductions import reduce_all
from stepscope.ops.math.unary import abs as absolute
from stepscope.ops.signatures import NUMBERS

__all__ = [
    "assert_equal", "assert_greater", "assert_greater_equal", "assert_integer", "assert_less",
    "assert_less_equal", "assert_near", "assert_negative", "assert_non_negative",
    "assert_non_positive", "assert_none_equal", "assert_positive", "assert_proper_iterable",
    "assert_rank", "assert_rank_at_least", "assert_rank_in", "assert_same_float_dtype",
    "assert_scalar", "assert_type", "is_non_decreasing", "is_numeric_tensor",
    "is_strictly_increasing",
]  # fmt: skip

Check = Callable[..., Operation]


def _prefix(message: str | None) -> str:
    return f"{message}.  " if message else ""


# -- two tensors, element by element -----------------------------------------------------------


def _compared(
    name: str, sign: str, holds: Callable[..., Tensor], known: Callable[..., Any]
) -> Check:
    def check(
        x: Any, y: Any, data: Sequence[Any] | None = None, summarize: int | None = None,
        message: str | None = None, name: str | None = None,
    ) -> Operation:  # fmt: skip
        with name_scope(name, own, [x, y]):
            if sign == "==" and x is y:
                return no_op()
            x, y = convert_to_tensor(x, name="x"), _beside(x, y)
            shown: list[Any] = list(data) if data is not None else [
                f"Condition x {sign} y did not hold element-wise:",
                f"x ({x.name}) = ", x, f"y ({y.name}) = ", y,
            ]  # fmt: skip
            if message is not None:
                shown.insert(0, message)
            condition = reduce_all(holds(x, y))
            values = constant_value(x), constant_value(y)
            if values[0] is not None and values[1] is not None and not np.all(known(*values)):
                raise InvalidArgumentError.without_op("\n".join(map(_known_text, shown)))
            return Assert(condition, shown, summarize=summarize)

    own = name
    check.__name__ = check.__qualname__ = name
    check.__doc__ = f"An op that fails unless `x {sign} y` for every element."
    return check


def _beside(x: Any, y: Any) -> Tensor:
    """The second tensor, of the first one's type where it is a plain value."""
    wish = x.dtype.base_dtype if isinstance(x, Tensor) else None
    return convert_to_tensor(y, None, "y", preferred_dtype=wish)


def _known_text(value: Any) -> str:
    if not isinstance(value, Tensor):
        return str(value)
    found = constant_value(value)
    return str(value if found is None else found)


assert_equal = _compared("assert_equal", "==", comparison.equal, np.equal)
assert_none_equal = _compared("assert_none_equal", "!=", comparison.not_equal, np.not_equal)
assert_less = _compared("assert_less", "<", comparison.less, np.less)
assert_less_equal = _compared("assert_less_equal", "<=", comparison.less_equal, np.less_equal)
assert_greater = _compared("assert_greater", ">", comparison.greater, np.greater)
assert_greater_equal = _compared(
    "assert_greater_equal", ">=", comparison.greater_equal, np.greater_equal
)


def assert_near(
    x: Any, y: Any, rtol: Any = None, atol: Any = None, data: Sequence[Any] | None = None,
    summarize: int | None = None, message: str | None = None, name: str | None = None,
) -> Operation:  # fmt: skip
    """An op that fails unless the tensors differ by less than `atol + rtol * abs(y)`."""
    with name_scope(name, "assert_near", [x, y]):
        x = convert_to_tensor(x, name="x")
        dtype = x.dtype.base_dtype
        y = convert_to_tensor(y, dtype, "y")
        real = dtype.real_dtype if dtype.is_complex else dtype
        default = 10 * np.finfo(real.numpy).eps
        relative = convert_to_tensor(default if rtol is None else rtol, real, "rtol")
        least = convert_to_tensor(default if atol is None else atol, real, "atol")
        shown = data if data is not None else [
            _prefix(message),
            f"x and y not equal to tolerance rtol = {relative}, atol = {least}",
            f"x ({x.name}) = ", x, f"y ({y.name}) = ", y,
        ]  # fmt: skip
        inside = comparison.less(absolute(x - y), least + relative * absolute(y))
        return Assert(reduce_all(inside), shown, summarize=summarize)


# -- signs -------------------------------------------------------------------------------------


def _signed(name: str, sign: str, compare: Check, zero_first: bool) -> Check:
    def check(
        x: Any, data: Sequence[Any] | None = None, summarize: int | None = None,
        message: str | None = None, name: str | None = None,
    ) -> Operation:  # fmt: skip
        with name_scope(name, own, [x]):
            x = convert_to_tensor(x, name="x")
            shown = data if data is not None else [
                _prefix(message), f"Condition x {sign} 0 did not hold element-wise:",
                f"x ({x.name}) = ", x,
            ]  # fmt: skip
            zero = convert_to_tensor(0, x.dtype.base_dtype)
            pair = (zero, x) if zero_first else (x, zero)
            return compare(*pair, data=shown, summarize=summarize)

    own = name
    check.__name__ = check.__qualname__ = name
    check.__doc__ = f"An op that fails unless `x {sign} 0` for every element."
    return check


assert_negative = _signed("assert_negative", "<", assert_less, zero_first=False)
assert_positive = _signed("assert_positive", ">", assert_less, zero_first=True)
assert_non_negative = _signed(
    "assert_non_negative", ">=", assert_less_equal, zero_first=True
)  # fmt: skip
assert_non_positive = _signed(
    "assert_non_positive", "<=", assert_less_equal, zero_first=False
)  # fmt: skip

# -- ranks -------------------------------------------------------------------------------------


def _ranked(
    own: str, words: str, x: Any, ranks: Sequence[Any], holds: Callable[[Any, Any], Any],
    data: Sequence[Any] | None, summarize: int | None, message: str | None, name: str | None,
) -> Operation:  # fmt: skip
    with name_scope(name, own, [x, *ranks]):
        x = convert_to_tensor(x, name="x")
        wanted = [convert_to_tensor(rank, name="rank") for rank in ranks]
        for rank in wanted:
            assert_type(rank, int32)
        known = [constant_value(rank) for rank in wanted]
        if any(value is not None and np.ndim(value) for value in known):
            raise ValueError("Rank must be a scalar.")
        found = x.shape.rank
        if found is not None and all(value is not None for value in known):
            numbers = [int(value) for value in known if value is not None]
            if not any(holds(found, number) for number in numbers):
                many = tuple(numbers) if own == "assert_rank_in" else numbers[0]
                raise ValueError(
                    f"{_prefix(message)}Tensor {x.name} must have {words} {many}.  Received rank "
                    f"{found}, shape {x.shape}"
                )
            return no_op(name="static_checks_determined_all_ok")
        shown = data if data is not None else [
            _prefix(message), f"Tensor {x.name} must have {words}", *wanted, "Received shape: ",
            shaping.shape(x),
        ]  # fmt: skip
        own_rank = shaping.rank(x)
        condition = holds(own_rank, wanted[0])
        for rank in wanted[1:]:
            condition = comparison.logical_or(condition, holds(own_rank, rank))
        return Assert(condition, shown, summarize=summarize)


def _equal(a: Any, b: Any) -> Any:
    return a == b if isinstance(a, int) else comparison.equal(a, b)


def assert_rank(
    x: Any, rank: Any, data: Sequence[Any] | None = None, summarize: int | None = None,
    message: str | None = None, name: str | None = None,
) -> Operation:  # fmt: skip
    """An op that fails unless the tensor has so many axes; ValueError where that is known."""
    return _ranked(
        "assert_rank", "rank", x, [rank], _equal, data, summarize, message, name
    )  # fmt: skip


def assert_rank_at_least(
    x: Any, rank: Any, data: Sequence[Any] | None = None, summarize: int | None = None,
    message: str | None = None, name: str | None = None,
) -> Operation:  # fmt: skip
    """An op that fails unless the tensor has at least so many axes."""
    return _ranked(
        "assert_rank_at_least", "rank at least", x, [rank], lambda a, b: a >= b, data, summarize,
        message, name,
    )  # fmt: skip


def assert_rank_in(
    x: Any, ranks: Sequence[Any], data: Sequence[Any] | None = None, summarize: int | None = None,
    message: str | None = None, name: str | None = None,
) -> Operation:  # fmt: skip
    """An op that fails unless the number of the tensor's axes is one of these."""
    return _ranked(
        "assert_rank_in", "rank in", x, ranks, _equal, data, summarize, message, name
    )  # fmt: skip


# -- what is known when the graph is built -----------------------------------------------------


def assert_integer(x: Any, message: str | None = None, name: str | None = None) -> Operation:
    """TypeError unless the tensor is of integers."""
    with name_scope(name, "assert_integer", [x]):
        x = convert_to_tensor(x, name="x")
        if not x.dtype.is_integer:
            raise TypeError(
                f'{_prefix(message)}Expected "x" to be integer type.  Found: {x.name} of dtype '
                f"{x.dtype!r}"
            )
        return no_op("statically_determined_was_integer")


def assert_type(
    tensor: Any, tf_type: Any, message: str | None = None, name: str | None = None
) -> Operation:
    """TypeError unless the tensor is of that type."""
    wanted = as_dtype(tf_type)
    with name_scope(name, "assert_type", []):
        if not isinstance(tensor, SparseTensor):
            tensor = convert_to_tensor(tensor, name="tensor")
        if tensor.dtype is not wanted:
            what = getattr(tensor, "name", "tensor")
            raise TypeError(
                f"{_prefix(message)}{what} must be of type {wanted!r}; got {tensor.dtype!r}"
            )
        return no_op("statically_determined_correct_type")


def assert_scalar(tensor: Any, name: str | None = None, message: str | None = None) -> Tensor:
    """The tensor; ValueError unless it has no axes."""
    with name_scope(name, "assert_scalar", [tensor]) as scope:
        found = convert_to_tensor(tensor, name=scope)
        if found.shape.rank != 0:
            raise ValueError(
                f"{_prefix(message)}Expected scalar shape for {found.name}, saw shape: "
                f"{found.shape}."
            )
        return found


def assert_same_float_dtype(tensors: Iterable[Any] | None = None, dtype: Any = None) -> DType:
    """The floating-point type of them all (float32 for none); ValueError if they differ."""
    wanted = None if dtype is None else as_dtype(dtype)
    for tensor in tensors or ():
        if tensor is None:
            continue
        own = tensor.dtype.base_dtype
        if wanted is not None and own is not wanted:
            raise ValueError(f"{tensor.name}, type={own!r}, must be of the same type ({wanted!r}).")
        wanted = own
    if wanted is not None and not wanted.is_floating:
        raise ValueError(f"Expected floating point type, got {wanted!r}.")
    return wanted or float32


def assert_proper_iterable(values: Any) -> None:
    """TypeError for what can be iterated but is one thing: a tensor, an array, a text."""
    if isinstance(values, (Tensor, SparseTensor, np.ndarray, bytes, str)):
        raise TypeError(
            f'Expected argument "values" to be a "proper" iterable.  Found: {type(values)}'
        )
    if not hasattr(values, "__iter__"):
        raise TypeError(f'Expected argument "values" to be iterable.  Found: {type(values)}')


def is_numeric_tensor(tensor: Any) -> bool:
    """Whether it is a tensor of numbers."""
    return isinstance(tensor, Tensor) and tensor.dtype.base_dtype in NUMBERS


# -- order -------------------------------------------------------------------------------------


def _steps(x: Any, compare: Callable[..., Tensor]) -> Tensor:
    flat = shaping.reshape(convert_to_tensor(x, name="x"), [-1])
    count = shaping.size(flat)
    before = slicing.slice_(flat, [0], [maximum(count - 1, 0)])
    return reduce_all(compare(flat[1:], before))


def is_non_decreasing(x: Any, name: str | None = None) -> Tensor:
    """Whether no element is smaller than the one before it."""
    with name_scope(name, "is_non_decreasing", [x]):
        return _steps(x, comparison.greater_equal)


def is_strictly_increasing(x: Any, name: str | None = None) -> Tensor:
    """Whether every element is larger than the one before it."""
    with name_scope(name, "is_strictly_increasing", [x]):
        return _steps(x, comparison.greater)
