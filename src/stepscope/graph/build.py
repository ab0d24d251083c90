"""Python values to tensors, and op types applied to them: what every op function is made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from stepscope.graph.dtypes import Array, DType, as_dtype, string
from stepscope.graph.graph import Graph, graph_of
from stepscope.graph.operation import Operation, Tensor, places
from stepscope.graph.registry import ArgSpec, OpType, lookup
from stepscope.graph.shapes import Dimension, TensorShape
from stepscope.graph.tensor_proto import as_bytes


def as_array(value: Any, dtype: DType | None = None) -> Array:
    """The array of a Python value, with TensorFlow's defaults: ints int32, floats float32.

    TypeError if a value does not fit the dtype (a float for an int type, text for a number).
    """
    if isinstance(value, TensorShape):
        known = value.known
        if known is None:
            raise ValueError(f"Cannot convert a partially known shape {value} to a tensor.")
        value = list(known)
        dtype = dtype or as_dtype("int32")
    plain = _plain(value)
    if isinstance(plain, (np.ndarray, np.generic)):
        array = np.asarray(plain)
    else:
        array = np.asarray(plain, dtype=object if _has_text(plain) else None)
    if array.dtype.kind in "SUO":
        return _as_string_array(array, value, dtype)
    if dtype is None:
        is_numpy = isinstance(value, (np.ndarray, np.generic)) or _holds_arrays(value)
        if not is_numpy and array.dtype == np.float64:
            return array.astype(np.float32)
        if not is_numpy and array.dtype == np.int64:
            if array.size and (array.max() > 2**31 - 1 or array.min() < -(2**31)):
                return array
            return array.astype(np.int32)
        as_dtype(array.dtype)
        return array
    target = dtype.base_dtype.numpy
    is_numpy = isinstance(value, (np.ndarray, np.generic))
    if not _fits(array.dtype, target, is_numpy) and array.size:
        raise TypeError(
            f"Expected {dtype.base_dtype.name}, got {value!r} of type "
            f"{type(value).__name__!r} ({array.dtype.name}) instead."
        )
    return array.astype(target, copy=False)


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, Dimension):
        return int(value)
    return value


def _has_text(value: Any) -> bool:
    while isinstance(value, (list, tuple)) and value:
        value = value[0]
    return isinstance(value, (str, bytes))


def _holds_arrays(value: Any) -> bool:
    while isinstance(value, (list, tuple)) and value:
        value = value[0]
    return isinstance(value, np.ndarray) and value.ndim > 0


def _as_string_array(array: Array, value: Any, dtype: DType | None) -> Array:
    if dtype is not None and dtype.base_dtype is not string:
        raise TypeError(f"Expected {dtype.base_dtype.name}, got {value!r} instead.")
    flat = array.reshape(-1)
    out = np.empty(flat.shape, dtype=object)
    for i, item in enumerate(flat):
        if not isinstance(item, (str, bytes)):
            raise TypeError(
                f"Cannot convert {value!r} to a tensor: it holds {type(item).__name__} values "
                "(ragged lists and mixed types are not tensors)."
            )
        out[i] = as_bytes(item)
    return out.reshape(array.shape)


def _fits(source: np.dtype[Any], target: np.dtype[Any], is_numpy: bool) -> bool:
    """Whether a value may become the target type. NumPy values are cast as NumPy would."""
    if source.kind == "b" or (is_numpy and source.kind in "iuf"):
        return target.kind in "biufc"
    if source.kind in "iu":
        return target.kind in "iufc"
    if source.kind == "f":
        return target.kind in "fc"
    return source.kind == target.kind


def constant_op(
    value: Any,
    dtype: Any = None,
    shape: Any = None,
    name: str = "Const",
    graph: Graph | None = None,
) -> Tensor:
    """A Const node holding the value, filled up to `shape` where that is given."""
    wanted = None if dtype is None else as_dtype(dtype)
    array = as_array(value, wanted)
    if shape is not None:
        target = TensorShape(shape).known
        if target is None:
            raise ValueError(f"A constant needs a full shape, not {shape}.")
        if array.size == 1:
            array = np.full(target, array.reshape(-1)[0], dtype=array.dtype)
        else:
            size = int(np.prod(target, dtype=np.int64))
            flat = array.reshape(-1)
            if flat.size > size:
                raise ValueError(
                    f"Too many elements provided. Needed at most {size}, but received {flat.size}"
                )
            if flat.size < size:
                flat = np.concatenate([flat, np.repeat(flat[-1:], size - flat.size)])
            array = flat.reshape(target)
    held = np.array(array, order="C")
    held.setflags(write=False)
    final = wanted.base_dtype if wanted is not None else as_dtype(held.dtype)
    target_graph = graph if graph is not None else graph_of(())
    return target_graph.create_op("Const", [], {"value": held, "dtype": final}, name).values()[0]


def convert_to_tensor(
    value: Any,
    dtype: Any = None,
    name: str | None = None,
    preferred_dtype: Any = None,
    graph: Graph | None = None,
) -> Tensor:
    """The tensor of a tensor, variable, array, number, text or (nested) list of these."""
    wanted = None if dtype is None else as_dtype(dtype)
    convert = getattr(value, "_as_tensor", None)
    if convert is not None:
        value = convert(wanted)
    if isinstance(value, Tensor):
        if wanted is not None and value.dtype.base_dtype is not wanted.base_dtype:
            raise ValueError(
                f"Tensor conversion requested dtype {wanted.name} for Tensor with dtype "
                f"{value.dtype.name}: {value!r}"
            )
        return value
    if isinstance(value, (list, tuple)) and _holds_tensor(value):
        return _pack(value, wanted, name, graph)
    if wanted is None and preferred_dtype is not None:
        try:
            return constant_op(value, preferred_dtype, name=name or "Const", graph=graph)
        except (TypeError, ValueError):
            pass
    return constant_op(value, wanted, name=name or "Const", graph=graph)


def _holds_tensor(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_holds_tensor(v) for v in value)
    return isinstance(value, Tensor) or hasattr(value, "_as_tensor")


def _pack(
    items: Sequence[Any], dtype: DType | None, name: str | None, graph: Graph | None
) -> Tensor:
    known = dtype
    if known is None:
        known = next((t.dtype.base_dtype for t in _tensors_in(items)), None)
    target = graph if graph is not None else graph_of(_tensors_in(items))
    packed = _pack_lists(items, known, name or "packed", target)
    assert isinstance(packed, Tensor)
    return packed


def _pack_lists(items: Sequence[Any], dtype: DType | None, name: str, graph: Graph) -> Any:
    """The Pack of a list that holds a tensor somewhere; the list itself if it holds none.

    Inner lists come first and take the name of their place, as in TensorFlow.
    """
    with graph.name_scope(name) as scope:
        parts: list[Any] = []
        for i, item in enumerate(items):
            if isinstance(item, (list, tuple)):
                parts.append(_pack_lists(item, dtype, str(i), graph))
            elif _holds_tensor(item):
                parts.append(convert_to_tensor(item, dtype, graph=graph))
            else:
                parts.append(item)
        if not any(isinstance(p, Tensor) for p in parts):
            return items
        tensors = [
            p if isinstance(p, Tensor) else constant_op(p, dtype, name=str(i), graph=graph)
            for i, p in enumerate(parts)
        ]
        attrs = {"N": len(tensors), "T": tensors[0].dtype.base_dtype, "axis": 0}
        return graph.create_op("Pack", tensors, attrs, scope).values()[0]


def _tensors_in(value: Any) -> Iterable[Any]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for v in value:
            yield from _tensors_in(v)
    elif hasattr(value, "_as_tensor"):
        # A variable has a graph and a dtype as a tensor has; converting it may make a node.
        yield value


def apply_op(op_type: str, *args: Any, name: str | None = None, **attrs: Any) -> Operation:
    """Apply an op type to arguments in the order of its inputs, converting values to tensors.

    A list argument takes a list. Type and number attributes follow from the arguments; others
    are keywords. Constants made on the way are named after their argument, below the op's name.
    """
    definition = lookup(op_type)
    graph = graph_of(_tensors_in(list(args)))
    with graph.as_default(), graph.name_scope(name or op_type) as scope:
        resolved = dict(attrs)
        _preset_types(definition, args, resolved)
        inputs: list[Tensor] = []
        for spec, value in zip(definition.inputs, args, strict=True):
            inputs.extend(_convert_argument(definition, spec, value, resolved, graph))
        return graph.create_op(op_type, inputs, resolved, scope)


def _preset_types(definition: OpType, args: Sequence[Any], attrs: dict[str, Any]) -> None:
    """Let tensors decide the type attributes before plain values are converted."""
    for spec, value in zip(definition.inputs, args, strict=True):
        if spec.type_attr and attrs.get(spec.type_attr) is None:
            attrs.pop(spec.type_attr, None)
            first = next(iter(_tensors_in(value)), None)
            if first is not None:
                attrs[spec.type_attr] = first.dtype.base_dtype


def _convert_argument(
    definition: OpType, spec: ArgSpec, value: Any, attrs: dict[str, Any], graph: Graph
) -> list[Tensor]:
    if spec.is_list:
        if not isinstance(value, (list, tuple)):
            raise TypeError(
                f"Expected list for '{spec.name}' argument to '{definition.name}' Op, "
                f"not {value!r}."
            )
        names = [f"{spec.name}_{i}" for i in range(len(value))]
        if spec.type_list_attr:
            declared = attrs.get(spec.type_list_attr)
            types = declared if declared is not None else [None] * len(value)
            tensors = [
                convert_to_tensor(v, t, n, graph=graph)
                for v, t, n in zip(value, types, names, strict=True)
            ]
            attrs[spec.type_list_attr] = [t.dtype.base_dtype for t in tensors]
            return tensors
        tensors = []
        for v, n in zip(value, names, strict=True):
            tensors.append(_convert_one(definition, spec, v, attrs, graph, n))
        attrs[spec.number_attr] = len(tensors)
        return tensors
    return [_convert_one(definition, spec, value, attrs, graph, spec.name)]


def _convert_one(
    definition: OpType, spec: ArgSpec, value: Any, attrs: dict[str, Any], graph: Graph, name: str
) -> Tensor:
    wanted = spec.dtype if spec.dtype is not None else attrs.get(spec.type_attr)
    if spec.is_ref:
        ref = getattr(value, "_as_ref", None)
        tensor = ref() if ref is not None else convert_to_tensor(value, None, name, graph=graph)
        if not tensor.dtype._is_ref_dtype:
            raise TypeError(
                f"'{definition.name}' Op requires that input '{spec.name}' be a mutable tensor "
                f"(e.g.: a tf.Variable), not {tensor!r}."
            )
    else:
        default = definition.attrs[spec.type_attr].default if spec.type_attr else None
        preferred = default if isinstance(default, DType) and _needs(default, value) else None
        try:
            tensor = convert_to_tensor(
                value, None if isinstance(value, Tensor) else wanted, name, preferred, graph
            )
        except TypeError as error:
            if wanted is None:
                raise
            raise TypeError(
                f"Input '{spec.name}' of '{definition.name}' Op expects {wanted.name}: {error} "
                f"{places([])}"
            ) from None
    if wanted is not None and tensor.dtype.base_dtype is not wanted.base_dtype:
        raise TypeError(
            f"Input '{spec.name}' of '{definition.name}' Op has type "
            f"{tensor.dtype.base_dtype.name} that does not match type {wanted.name} of "
            + (f"argument '{_first_of(definition, spec)}'." if spec.type_attr else "the op.")
            + f" {places([tensor])}"
        )
    if spec.type_attr:
        attrs[spec.type_attr] = tensor.dtype.base_dtype
    return tensor


def _needs(default: DType, value: Any) -> bool:
    """Whether a plain value is of another kind than the default (an empty list for an int)."""
    if _holds_tensor(value):
        return False
    try:
        return as_array(value).dtype.kind != default.numpy.kind
    except (TypeError, ValueError):
        return False


def _first_of(definition: OpType, spec: ArgSpec) -> str:
    return next(a.name for a in definition.inputs if a.type_attr == spec.type_attr)
