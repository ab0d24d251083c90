"""What `Session.run` is asked for and given: nested fetches, and feeds checked and converted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from stepscope.graph import Graph, Operation, Tensor
from stepscope.graph.dtypes import Array, string
from stepscope.graph.indexed_slices import IndexedSlices, IndexedSlicesValue
from stepscope.graph.sparse_tensor import SparseTensor, SparseTensorValue
from stepscope.graph.tensor_proto import as_bytes
from stepscope.metadata.fetched_names import session_run
from stepscope.ops import structures

if TYPE_CHECKING:
    from stepscope.runtime.budgeted_runs import LaneInLull

Build = Callable[[Sequence[Any]], Any]


class FetchSpec:
    """A fetch structure, taken apart: the tensors and ops in it, and how to put values back."""

    __slots__ = ("_build", "done", "lull", "targets", "tensors", "what")

    def __init__(self, graph: Graph, fetches: Any) -> None:
        tensors: dict[Tensor, int] = {}
        targets: dict[Operation, None] = {}
        self._build = _take_apart(graph, fetches, tensors, targets)
        self.tensors = tuple(tensors)
        self.targets = tuple(targets)
        returned = (tensor.op.name for tensor in self.tensors)
        self.what = session_run((op.name for op in self.targets), returned)
        """What a run of it is called."""
        self.lull: LaneInLull | None = None
        """Where runs of it are noted while there is no more to know of them, if somebody said."""
        self.done: frozenset[Operation] = frozenset()
        """Ops that executed before: nothing waits for them."""

    @classmethod
    def of(
        cls,
        tensors: Sequence[Tensor],
        targets: Sequence[Operation],
        what: str,
        done: frozenset[Operation],
    ) -> Self:
        """A part of a run: a list of tensors and the ops to execute."""
        spec = cls.__new__(cls)
        spec.tensors, spec.targets, spec.what, spec.done = (
            tuple(tensors),
            tuple(targets),
            what,
            done,
        )
        spec.lull = None
        spec._build = list
        return spec

    def build(self, values: Sequence[Any]) -> Any:
        """The user's structure with the values in place of the tensors."""
        return self._build(values)


def _take_apart(
    graph: Graph, fetch: Any, tensors: dict[Tensor, int], targets: dict[Operation, None]
) -> Build:
    if isinstance(fetch, (list, tuple, Mapping)) and not isinstance(fetch, str):
        return _take_apart_container(graph, fetch, tensors, targets)
    if fetch is None:
        raise TypeError(f'Argument `fetch` = {fetch} has invalid type "NoneType". Cannot be None')
    if isinstance(fetch, IndexedSlices):
        return _take_apart_slices(graph, fetch, tensors, targets)
    if isinstance(fetch, SparseTensor):
        parts = [_take_apart(graph, part, tensors, targets) for part in fetch.parts()]
        return lambda values: SparseTensorValue(*(part(values) for part in parts))
    try:
        element = graph.as_graph_element(fetch)
    except TypeError as error:
        raise TypeError(
            f'Argument `fetch` = {fetch} has invalid type "{type(fetch).__name__}" must be a '
            f"string or Tensor. ({error})"
        ) from None
    except (ValueError, KeyError) as error:
        raise ValueError(
            f"Argument `fetch` = {fetch} cannot be interpreted as a Tensor. ({error})"
        ) from None
    if not graph.is_fetchable(element):
        raise ValueError(
            f"{element!r} has been marked as not fetchable: it is part of a branch or a loop. "
            "Fetch what tf.cond or tf.while_loop returned."
        )
    if isinstance(element, Operation):
        targets[element] = None
        return _none
    index = tensors.setdefault(element, len(tensors))
    return lambda values: values[index]


def _take_apart_slices(
    graph: Graph, fetch: IndexedSlices, tensors: dict[Tensor, int], targets: dict[Operation, None]
) -> Build:
    values, indices, shape = (
        _none if part is None else _take_apart(graph, part, tensors, targets)
        for part in (fetch.values, fetch.indices, fetch.dense_shape)
    )
    return lambda found: IndexedSlicesValue(values(found), indices(found), shape(found))


def _none(_values: Sequence[Any]) -> None:
    return None


def _take_apart_container(
    graph: Graph, fetch: Any, tensors: dict[Tensor, int], targets: dict[Operation, None]
) -> Build:
    if isinstance(fetch, Mapping):
        parts = {k: _take_apart(graph, v, tensors, targets) for k, v in fetch.items()}
        kind = type(fetch)

        def build_mapping(values: Sequence[Any]) -> Any:
            built = {k: build(values) for k, build in parts.items()}
            return built if kind is dict else _of_kind(kind, built)

        return build_mapping
    items = [_take_apart(graph, item, tensors, targets) for item in fetch]
    if hasattr(fetch, "_fields"):
        return lambda values: type(fetch)(*(build(values) for build in items))
    if isinstance(fetch, tuple):
        return lambda values: tuple(build(values) for build in items)
    return lambda values: [build(values) for build in items]


def _of_kind(kind: Any, built: dict[Any, Any]) -> Any:
    try:
        return kind(built)
    except TypeError:
        return built


def fetch_key(fetches: Any) -> Any:
    """What identifies a fetch structure, or None if it has to be taken apart each time."""
    if isinstance(fetches, (Tensor, Operation, str)):
        return fetches
    if type(fetches) in (list, tuple):
        key = []
        for item in fetches:
            if not isinstance(item, (Tensor, Operation, str)):
                return None
            key.append(item)
        return (type(fetches), *key)
    return None


class FeedSlot:
    """One tensor that is fed: what values it takes."""

    __slots__ = ("axes", "dtype", "is_string", "numpy", "tensor")

    def __init__(self, tensor: Tensor) -> None:
        if not tensor.graph.is_feedable(tensor):
            why = (
                "its value decided how the graph was built."
                if tensor.graph.is_fetchable(tensor)
                else "it is part of a branch or a loop."
            )
            raise ValueError(f"Tensor {tensor.name} may not be fed: {why}")
        self.tensor = tensor
        self.dtype = tensor.dtype.base_dtype
        self.numpy = self.dtype.numpy
        self.is_string = self.dtype is string
        self.axes = tensor.shape.axes

    def accept(self, value: Any) -> Array:
        """The value as an array of the tensor's dtype; borrowed, not copied, where it fits."""
        if type(value) is np.ndarray and value.dtype == self.numpy and not self.is_string:
            array: Array = value
        else:
            array = self._convert(value)
        axes = self.axes
        if axes is not None and array.shape != axes:
            self._check_shape(array.shape, axes)
        return array

    def _convert(self, value: Any) -> Array:
        if isinstance(value, (Tensor, Operation)) or hasattr(value, "_as_tensor"):
            raise TypeError(
                "The value of a feed cannot be a tensor or variable. Acceptable feed values "
                "include Python scalars, strings, lists and numpy ndarrays. For reference, the "
                f"tensor object was {value!r} which was passed to the feed with key "
                f"{self.tensor!r}."
            )
        if self.is_string:
            return _string_array(value)
        if value is None:
            raise TypeError(f"Cannot feed None for Tensor {self.tensor.name}.")
        # As TensorFlow: a Python integer has to fit, everything else is converted as NumPy does,
        # which cuts off what an integer type cannot hold.
        if isinstance(value, int) and not self._holds(value):
            raise TypeError(
                f"Type of feed value {value!r} with type {type(value)} is not compatible with "
                f"Tensor type {self.dtype.name} of {self.tensor.name}. "
                "Try explicitly setting the type of the feed tensor to a larger type "
                "(e.g. int64)."
            )
        array = np.asarray(value)
        if array.dtype.kind in "OSU":
            raise ValueError(
                f"Cannot feed {value!r} for Tensor {self.tensor.name}, which has type "
                f"{self.dtype.name!r}: it is text, ragged or mixed."
            )
        return array.astype(self.numpy)

    def _holds(self, value: int) -> bool:
        try:
            with np.errstate(over="ignore"):
                return bool(np.asarray(value).astype(self.numpy) == value)
        except OverflowError:
            return False

    def _check_shape(self, shape: tuple[int, ...], axes: tuple[int | None, ...]) -> None:
        if len(shape) == len(axes) and all(
            want is None or want == have for want, have in zip(axes, shape, strict=True)
        ):
            return
        raise ValueError(
            f"Cannot feed value of shape {shape} for Tensor {self.tensor.name}, which has shape "
            f"{self.tensor.shape}"
        )


def _string_array(value: Any) -> Array:
    source = np.asarray(value, dtype=object)
    out = np.empty(source.shape, dtype=object)
    flat, target = source.reshape(-1), out.reshape(-1)
    for i, item in enumerate(flat):
        target[i] = as_bytes(item)
    return out


def flatten_feeds(graph: Graph, feed_dict: Any) -> list[tuple[Tensor, Any]]:
    """(tensor, value) pairs of a feed dictionary.

    Keys may be tensors, names, IndexedSlices, and (nested) tuples of these. The value of a tuple
    is nested as its key is, or else has as many leaves; arrays are leaves.
    """
    if not isinstance(feed_dict, Mapping):
        raise TypeError(
            f"feed_dict must be a dictionary of tensors to values, not {type(feed_dict).__name__}."
        )
    pairs: list[tuple[Tensor, Any]] = []
    for key, value in feed_dict.items():
        found = _side_by_side(key, value)
        if found is None:
            keys, values = structures.leaves(key), structures.leaves(value)
            if len(keys) != len(values):
                raise ValueError(f"The feed {key!r} takes {len(keys)} values, not {len(values)}.")
            found = list(zip(keys, values, strict=True))
        pairs.extend((feed_tensor(graph, k), v) for k, v in found)
    return pairs


def _side_by_side(key: Any, value: Any) -> list[tuple[Any, Any]] | None:
    """Each key of a nested tuple with its value; None if that is nested in another way."""
    if isinstance(key, IndexedSlices):
        parts = key.parts()
        if isinstance(value, IndexedSlicesValue) and key.dense_shape is None:
            value = value[:2]
        key = tuple(parts)
    if isinstance(key, SparseTensor):
        key = tuple(key.parts())
    if not isinstance(key, tuple):
        return [(key, value)]
    if not isinstance(value, (list, tuple)) or len(key) != len(value):
        return None
    found: list[tuple[Any, Any]] = []
    for part, of_part in zip(key, value, strict=True):
        inner = _side_by_side(part, of_part)
        if inner is None:
            return None
        found += inner
    return found


def feed_tensor(graph: Graph, key: Any) -> Tensor:
    """The tensor that a feed's key names."""
    try:
        element = graph.as_graph_element(key, allow_operation=False)
    except (TypeError, ValueError, KeyError) as error:
        text = error.args[0] if error.args else str(error)
        raise TypeError(f"Cannot interpret feed_dict key as Tensor: {text}") from None
    assert isinstance(element, Tensor)
    return element
