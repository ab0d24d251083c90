"""Python functions as nodes: `py_func` and `numpy_function`.

Guarantees. The function gets arrays of its own: it may write to them and keep them. What it
returns is copied, so it may keep and change that too. It lives as long as the graph it was put
into, or a session that has run it. A node finds its function by a token that holds in this process
only: a graph that was saved and loaded elsewhere has nothing to call, and says so when it runs.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from stepscope.errors import (
    InvalidArgumentError,
    OpError,
    OutOfRangeError,
    ResourceExhaustedError,
    UnimplementedError,
    UnknownError,
)
from stepscope.graph.build import apply_op
from stepscope.graph.defaults import get_default_graph
from stepscope.graph.dtypes import Array, DType, as_dtype, string
from stepscope.graph.graph import Graph
from stepscope.graph.operation import Operation, Tensor
from stepscope.graph.registry import Kernel, KernelNode, no_gradient, register
from stepscope.graph.tensor_proto import as_bytes
from stepscope.ops.resources import as_seen_outside


class _Registered:
    """A function under its token; weakly known to the process, kept by its graph."""

    __slots__ = ("__weakref__", "function")

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function


_tokens = itertools.count()
_registered: weakref.WeakValueDictionary[str, _Registered] = weakref.WeakValueDictionary()


def _register_function(graph: Graph, function: Callable[..., Any]) -> str:
    token = f"pyfunc_{next(_tokens)}"
    entry = _Registered(function)
    _registered[token] = entry
    vars(graph).setdefault("_python_functions", []).append(entry)
    return token


def function_of_token(token: str) -> Callable[..., Any] | None:
    """The function that the nodes with this token call; None where it is gone."""
    entry = _registered.get(token)
    return entry.function if entry is not None else None


# -- calling user code -------------------------------------------------------------------------

_CODES: Final[tuple[tuple[type[Exception], type[OpError]], ...]] = (
    (NotImplementedError, UnimplementedError),
    (StopIteration, OutOfRangeError),
    (MemoryError, ResourceExhaustedError),
    (TypeError, InvalidArgumentError),
    (ValueError, InvalidArgumentError),
)


def call_user_code(function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """What the function returns; what it raises becomes the OpError TensorFlow would raise."""
    try:
        return function(*args, **keywords)
    except Exception as error:
        kind = next((op for python, op in _CODES if isinstance(error, python)), UnknownError)
        raise kind(None, None, f"{type(error).__name__}: {error}") from error


def own_input(value: Any) -> Any:
    """A copy for user code: an array, or for rank 0 a NumPy scalar (bytes for a string)."""
    if isinstance(value, np.ndarray) and value.ndim:
        return value.copy()
    return np.asarray(as_seen_outside(value))[()]


def own_output(value: Any, dtype: DType, where: str) -> Array:
    """A copy of what user code returned; InvalidArgumentError if it is not of that dtype.

    `where` opens the message: what the value is.
    """
    # NumPy's own type of bytes drops zeros at their end.
    as_is = isinstance(value, np.ndarray) or dtype is not string
    try:
        array = np.array(value) if as_is else np.array(value, dtype=object)
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError.without_op(f"{where} is no array: {error}") from error
    if array.dtype.kind in "SUO":
        return _own_text(array, dtype, where)
    if array.dtype == dtype.numpy and dtype is not string:
        return array
    found: Any = array.dtype.name
    raise InvalidArgumentError.without_op(
        f"{where} is {found}, but expects {dtype.name}. Convert it in the function "
        "or declare what it returns."
    )


def _own_text(array: Array, dtype: DType, where: str) -> Array:
    flat = array.reshape(-1)
    kinds = {type(item).__name__ for item in flat if not isinstance(item, (str, bytes))}
    if kinds or dtype is not string:
        found = f"of Python objects ({', '.join(sorted(kinds))})" if kinds else "string"
        raise InvalidArgumentError.without_op(f"{where} is {found}, but expects {dtype.name}.")
    out = np.empty(flat.shape, dtype=object)
    for i, item in enumerate(flat):
        out[i] = as_bytes(item)
    return out.reshape(array.shape)


# -- the ops -----------------------------------------------------------------------------------


def _py_func_kernel(node: KernelNode) -> Kernel:
    token = node.attr("token").decode()
    entry = _registered.get(token)
    types: list[DType] = node.attr("Tout")

    def call(*inputs: Any) -> Any:
        if entry is None:
            raise InvalidArgumentError.without_op(
                f"ValueError: callback {token} is not found: the graph comes from another "
                "process, or the one it was made in is gone.",
            )
        result = call_user_code(entry.function, *[own_input(x) for x in inputs])
        return _outputs(result, types, token)

    return Kernel(call, opaque=True)


def _outputs(result: Any, types: Sequence[DType], token: str) -> Any:
    if result is None:
        values: Sequence[Any] = ()
    elif isinstance(result, (list, tuple)):
        values = result
    else:
        values = (result,)
    if len(values) != len(types):
        raise InvalidArgumentError.without_op(
            f"{token} returns {len(values)} values, but expects to see {len(types)} values.",
        )
    outputs = []
    for i, (value, dtype) in enumerate(zip(values, types, strict=True)):
        outputs.append(own_output(value, dtype, f"{i}-th value returned by {token}"))
    if not outputs:
        return None
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


for _name, _stateful in (("PyFunc", True), ("PyFuncStateless", False)):
    register(
        _name,
        inputs=["input: Tin"],
        outputs=["output: Tout"],
        attrs=["token: string", "Tin: list(type)", "Tout: list(type)"],
        kernel=_py_func_kernel,
        stateful=_stateful,
    )
no_gradient("PyFunc", "PyFuncStateless")


def py_func(
    func: Callable[..., Any],
    inp: Sequence[Any],
    Tout: Any,  # noqa: N803
    stateful: bool = True,
    name: str | None = None,
) -> Any:
    """A node that calls `func` with the values of `inp`, each time it runs.

    `func` gets NumPy arrays (scalars for rank 0) and returns one value of the dtype `Tout`, or a
    list of them where `Tout` is a list; None where that is empty. Returns a tensor, a list of
    them, or the operation, accordingly. The static shapes are unknown: use `set_shape`.
    """
    if not callable(func):
        raise ValueError(f"Expected func to be callable. Received func={func!r}.")
    is_list = isinstance(Tout, (list, tuple))
    types = [as_dtype(t) for t in (Tout if is_list else [Tout])]
    tensors = list(inp)
    graph = next((t.graph for t in tensors if hasattr(t, "graph")), get_default_graph())
    op: Operation = apply_op(
        "PyFunc" if stateful else "PyFuncStateless",
        tensors,
        token=_register_function(graph, func),
        Tout=types,
        name=name if name else "PyFunc",
    )
    outputs: list[Tensor] = op.outputs
    if not outputs:
        return op
    return outputs if is_list else outputs[0]


def numpy_function(
    func: Callable[..., Any] | None = None,
    inp: Sequence[Any] | None = None,
    Tout: Any = None,  # noqa: N803
    stateful: bool = True,
    name: str | None = None,
) -> Any:
    """The same as `py_func`, under TensorFlow 2's name."""
    if func is None:
        raise ValueError("numpy_function needs a function to call.")
    return py_func(func, inp or (), Tout, stateful, name)
